"""The training loop."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from user_parts import Watching

from qubolearn.data.contract import Split
from qubolearn.errors import QubolearnError
from qubolearn.evaluation import evaluate
from qubolearn.problems import Instances
from qubolearn.problems.randgraph import RandGraph
from qubolearn.recipes import Recipe, evaluation_steps, make_loss, preset, recipe_for, train
from qubolearn.solvers import ExhaustiveSearch

PROBLEM = RandGraph(k=3)
SIZES = {"hidden": 32, "epochs": 10, "instances": 1000, "batch_size": 100, "validation": 100}
QUICK = recipe_for("best", PROBLEM, topology="dense", **SIZES)


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


@pytest.mark.parametrize("loss", ["gap", "hamming"])
def test_every_loss_learns(loss: str) -> None:
    config = replace(QUICK, loss=loss, epochs=40, instances=400)
    found = evaluate(train(PROBLEM, config), PROBLEM, ExhaustiveSearch(), 500, seed=9)
    assert found.metrics["accuracy"] > 0.6  # by chance: 1/64


@pytest.mark.parametrize("head", ["uncoupled", "direct"])
def test_baselines_are_trained_as_the_paper_defines_them(head: str) -> None:
    config = recipe_for("best", PROBLEM, head=head, hidden=32, epochs=40, instances=400, batch_size=100)
    assert config.topology == "diagonal"
    assert config.loss == ("l1" if head == "direct" else "nll")
    network = train(PROBLEM, config)
    assert evaluate(network, PROBLEM, ExhaustiveSearch(), 500, seed=9).metrics["accuracy"] > 0.6


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"epochs": 0}, "epochs=0"),
        ({"head": "couple"}, "did you mean coupled"),
        ({"learning_rate": float("nan")}, "learning_rate=nan"),
        ({"seed": 2**63}, "seed=9223372036854775808"),
        ({"beta": 1e39}, "beta=1e"),
        ({"head": "uncoupled"}, "chimera"),
        ({"head": "direct", "topology": "diagonal"}, "loss='nll'"),
        ({"loss": "l1"}, "loss='l1'"),
    ],
)
def test_bad_choices_are_rejected(wrong: dict[str, object], says: str) -> None:
    with pytest.raises(QubolearnError, match=says):
        replace(Recipe(), **wrong)


@pytest.mark.parametrize("loss", ["hinge", "hamming"])
def test_a_recipe_takes_every_margin_that_its_loss_takes(loss: str) -> None:
    assert make_loss(Recipe(loss=loss, margin=0.0, weight_mlp=0.0)).margin == 0.0
    with pytest.raises(QubolearnError, match=r"-0\.5"):
        Recipe(loss=loss, margin=-0.5)


class Short(RandGraph):
    """One training instance fewer than requested."""

    def sample(self, count: int, generator: torch.Generator, split: Split = "train") -> Instances:
        return super().sample(count - (split == "train"), generator, split)


def test_a_problem_that_gives_too_few_instances_is_named() -> None:
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
