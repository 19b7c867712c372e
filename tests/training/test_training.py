"""The loop: it learns, it repeats itself bit for bit, it resumes, and every loss and method runs through it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from qubolearn.data.contract import Split
from qubolearn.errors import QubolearnError
from qubolearn.evaluation import evaluate
from qubolearn.problems import Instances
from qubolearn.problems.randgraph import RandGraph
from qubolearn.recipes import Recipe, evaluation_steps, make_loss, preset, recipe_for, train
from qubolearn.runs import Run
from qubolearn.solvers import ExhaustiveSearch, log_partition
from qubolearn.training.callbacks import Callback
from qubolearn.training.fit import Training
from qubolearn.training.optimizers import Cosine

PROBLEM = RandGraph(k=3)
SIZES = {"hidden": 32, "epochs": 10, "instances": 1000, "batch_size": 100, "validation": 100}
QUICK = recipe_for("best", PROBLEM, topology="dense", **SIZES)


class Watching(Callback):
    """Notes the steps that it is told of, and after which of them validation instances were scored."""

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.scored: list[int] = []

    def on_step(self, training: Training) -> None:
        self.steps.append(training.step)
        if training.scores:
            self.scored.append(training.step)


def weights(network: torch.nn.Module) -> torch.Tensor:
    return torch.cat([tensor.flatten().float() for tensor in network.state_dict().values()])


def test_training_learns_and_reports_validation_scores() -> None:
    watching = Watching()
    network = train(PROBLEM, replace(QUICK, epochs=30), callbacks=[watching])
    assert watching.steps == list(range(1, 301))
    assert watching.scored == evaluation_steps(replace(QUICK, epochs=30))
    found = evaluate(network, PROBLEM, ExhaustiveSearch(), 500, seed=9)
    assert found.metrics["accuracy"] > 0.9
    assert found.hamming[0] == round(found.metrics["accuracy"] * 500)
    assert found.metrics["accuracy_projected"] >= found.metrics["accuracy"]


def test_same_seed_same_bits_other_seed_other_bits() -> None:
    first, again = train(PROBLEM, QUICK), train(PROBLEM, QUICK)
    assert torch.equal(weights(first), weights(again))
    assert not torch.equal(weights(first), weights(train(PROBLEM, replace(QUICK, seed=1))))


def test_training_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(5)
    want = torch.rand(3)
    torch.manual_seed(5)
    train(PROBLEM, replace(QUICK, epochs=1))
    assert torch.equal(torch.rand(3), want)


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("stop_at", [1, 37])
def test_a_stopped_run_resumes_to_the_same_bits(tmp_path: Path, fresh: bool, stop_at: int) -> None:
    config = replace(QUICK, fresh=fresh)
    whole = train(PROBLEM, config)
    steps = 0

    def stop() -> bool:
        nonlocal steps
        steps += 1
        return steps == stop_at

    train(PROBLEM, config, Run.create(tmp_path, PROBLEM, config), stop=stop)
    run = Run.create(tmp_path, PROBLEM, config)
    assert not run.finished
    resumed = train(PROBLEM, config, run)
    assert torch.equal(weights(whole), weights(resumed))
    assert torch.equal(weights(run.network()), weights(whole))


@pytest.mark.parametrize("loss", ["gap", "hinge", "hamming", "nll"])
def test_every_loss_learns(loss: str) -> None:
    config = replace(QUICK, loss=loss, epochs=40, instances=400)
    network = train(PROBLEM, config)
    assert evaluate(network, PROBLEM, ExhaustiveSearch(), 500, seed=9).metrics["accuracy"] > 0.6  # by chance: 1/64


@pytest.mark.parametrize("method", ["diag", "pure"])
def test_baselines_are_trained_as_the_paper_defines_them(method: str) -> None:
    config = recipe_for("best", PROBLEM, method=method, hidden=32, epochs=40, instances=400, batch_size=100)
    assert config.topology == "diagonal"
    assert config.loss == ("l1" if method == "pure" else "nll")
    network = train(PROBLEM, config)
    assert evaluate(network, PROBLEM, ExhaustiveSearch(), 500, seed=9).metrics["accuracy"] > 0.6


def test_paper_preset_is_the_paper() -> None:
    four, five = recipe_for("paper", RandGraph(k=4)), recipe_for("paper", RandGraph(k=5))
    assert (four.loss, four.epochs, four.batch_size, four.instances, four.learning_rate) == (
        "gap",
        150,
        141,
        5640,
        1e-3,
    )
    assert (four.weight_unique, four.weight_mlp, four.fresh, four.standardize) == (1e-3, 1e-4, False, False)
    assert (five.epochs, five.learning_rate, five.topology) == (450, 1e-5, "pegasus")
    assert four.solver.startswith("annealing:reads=100")


def test_cosine_rate_warms_up_and_ends_at_zero() -> None:
    rates = [Cosine()(step, 1000) for step in range(1000)]
    assert max(rates) == pytest.approx(1)
    assert rates[0] == pytest.approx(1 / 20)
    assert 0 < rates[-1] < 1e-4
    assert rates[19:] == sorted(rates[19:], reverse=True)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"epochs": 0}, "epochs=0"),
        ({"method": "quantum"}, "did you mean quant"),
        ({"learning_rate": float("nan")}, "learning_rate=nan"),
        ({"seed": 2**63}, "seed=9223372036854775808"),
        ({"beta": 1e39}, "beta=1e"),
        ({"method": "diag"}, "chimera"),
        ({"method": "pure", "topology": "diagonal"}, "pure takes l1"),
        ({"loss": "l1"}, "only pure does"),
    ],
)
def test_bad_choices_are_refused(wrong: dict[str, object], says: str) -> None:
    with pytest.raises(QubolearnError, match=says):
        replace(Recipe(), **wrong)


@pytest.mark.parametrize("loss", ["hinge", "hamming"])
def test_a_recipe_takes_every_margin_that_its_loss_takes(loss: str) -> None:
    assert make_loss(Recipe(loss=loss, margin=0.0, weight_mlp=0.0)).margin == 0.0
    with pytest.raises(QubolearnError, match=r"-0\.5"):
        Recipe(loss=loss, margin=-0.5)


class Short(RandGraph):
    """One training instance fewer than asked for."""

    def sample(self, count: int, generator: torch.Generator, split: Split = "train") -> Instances:
        return super().sample(count - (split == "train"), generator, split)


def test_a_problem_that_gives_too_few_instances_is_told_so() -> None:
    with pytest.raises(QubolearnError, match=r"999 .*1000"):
        train(Short(k=3), QUICK)


def test_presets_are_whole() -> None:
    problem, recipe = preset("best", "pointset", epochs=3)
    assert (problem.starts, problem.form, recipe.loss, recipe.epochs) == (4, "features", "soft-nll", 3)
    problem, recipe = preset("best", "pointset", starts=1, soft_width=0.0)
    assert (problem.starts, recipe.loss) == (1, "nll")
    assert preset("paper", "pointset").problem == type(problem)()
    with pytest.raises(QubolearnError, match="RandGraph"):
        preset("best", PROBLEM)  # type: ignore[arg-type]
    with pytest.raises(QubolearnError, match="did you mean epochs"):
        preset("best", "randgraph", epoch=3)
    with pytest.raises(QubolearnError, match="did you mean best"):
        preset("bets", "randgraph")


def test_many_bits_take_a_loss_without_sums() -> None:
    class Wide(RandGraph):
        bits = 64

    assert preset("best", Wide).recipe.loss == "pseudo"
    assert preset("best", Wide, loss="nll").recipe.loss == "nll"
    with pytest.raises(QubolearnError, match="n=64"):
        log_partition(torch.zeros(1, 64, 64))
