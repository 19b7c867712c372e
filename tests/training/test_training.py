"""The loop: it learns, it repeats itself bit for bit, it resumes, and every loss and method runs through it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from qubolearn.errors import QubolearnError
from qubolearn.evaluation import evaluate
from qubolearn.problems import Instances
from qubolearn.problems.contract import Split
from qubolearn.problems.randgraph import RandGraph
from qubolearn.solvers import ExhaustiveSearch
from qubolearn.training.loop import Progress, evaluation_steps, train
from qubolearn.training.recipes import TrainConfig, preset
from qubolearn.training.runs import Run
from qubolearn.training.steps import learning_rate

PROBLEM = RandGraph(k=3)
QUICK = preset("best", PROBLEM, topology="dense", hidden=32, epochs=10, instances=1000, batch_size=100, validation=100)


def weights(network: torch.nn.Module) -> torch.Tensor:
    return torch.cat([tensor.flatten().float() for tensor in network.state_dict().values()])


def test_training_learns_and_reports_validation_scores() -> None:
    seen: list[Progress] = []
    network = train(PROBLEM, replace(QUICK, epochs=30), report=seen.append)
    assert [progress.step for progress in seen] == list(range(1, 301))
    scored = [progress.scores["accuracy"] for progress in seen if progress.scores]
    assert len(scored) == len(evaluation_steps(replace(QUICK, epochs=30)))
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
    config = preset("best", PROBLEM, method=method, hidden=32, epochs=40, instances=400, batch_size=100)
    assert config.topology == "diagonal"
    assert config.loss == ("l1" if method == "pure" else "nll")
    network = train(PROBLEM, config)
    assert evaluate(network, PROBLEM, ExhaustiveSearch(), 500, seed=9).metrics["accuracy"] > 0.6


def test_paper_preset_is_the_paper() -> None:
    four, five = preset("paper", RandGraph(k=4)), preset("paper", RandGraph(k=5))
    assert (four.loss, four.epochs, four.batch_size, four.instances, four.learning_rate) == (
        "gap",
        150,
        141,
        5640,
        1e-3,
    )
    assert (four.weight_unique, four.weight_mlp, four.fresh, four.standardise) == (1e-3, 1e-4, False, False)
    assert (five.epochs, five.learning_rate, five.topology) == (450, 1e-5, "pegasus")
    assert four.solver.startswith("annealing:reads=100")


def test_cosine_rate_warms_up_and_ends_at_zero() -> None:
    config = TrainConfig(schedule="cosine", learning_rate=0.1, epochs=10, instances=1000, batch_size=10)
    rates = [learning_rate(config, step) for step in range(config.steps)]
    assert max(rates) == pytest.approx(0.1)
    assert rates[0] == pytest.approx(0.1 / 20)
    assert 0 < rates[-1] < 1e-5
    assert rates[19:] == sorted(rates[19:], reverse=True)


class Poisoned(RandGraph):
    """Instances with one NaN."""

    def sample(self, count, generator, split="train"):
        instances = super().sample(count, generator, split)
        if split == "train":
            instances.p[7, 0] = float("nan")
        return instances


def test_non_finite_numbers_stop_training_and_say_where() -> None:
    with pytest.raises(QubolearnError, match=r"finite|nan"):
        train(Poisoned(k=3), replace(QUICK, standardise=False))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"epochs": 0}, "epochs=0"),
        ({"loss": "nlll"}, "did you mean nll"),
        ({"method": "quantum"}, "did you mean quant"),
        ({"learning_rate": float("nan")}, "learning_rate=nan"),
        ({"seed": -1}, "seed=-1"),
    ],
)
def test_bad_choices_are_refused(wrong: dict[str, object], says: str) -> None:
    with pytest.raises(QubolearnError, match=says):
        replace(TrainConfig(), **wrong)


class Short(RandGraph):
    """One training instance fewer than asked for."""

    def sample(self, count: int, generator: torch.Generator, split: Split = "train") -> Instances:
        return super().sample(count - (split == "train"), generator, split)


def test_a_problem_that_gives_too_few_instances_is_told_so() -> None:
    with pytest.raises(QubolearnError, match=r"Short\(k=3\) gave 999 instances where 1000 were asked for"):
        train(Short(k=3), QUICK)
