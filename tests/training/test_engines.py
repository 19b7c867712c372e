"""The graph's step against autograd."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest
import torch
from torch import nn

from qubolearn import energies, topology
from qubolearn.data.contract import Instances, RightAnswers, SoftTargets, Split
from qubolearn.losses import (
    L1,
    Gap,
    HammingHinge,
    Hinge,
    Likelihood,
    Loss,
    PseudoLikelihood,
    SoftLikelihood,
    SparseFeatures,
    as_loss,
)
from qubolearn.networks import HEADS, MLP
from qubolearn.problems.randgraph import RandGraph
from qubolearn.solvers import ExhaustiveSearch
from qubolearn.training import captured
from qubolearn.training.batches import Drawn
from qubolearn.training.captured import CapturedSteps
from qubolearn.training.optimizers import FlatAdam
from qubolearn.training.steps import Steps, Task


@dataclass(frozen=True)
class Soft(RandGraph):
    """Soft targets: the solution and its complement."""

    def soft_targets(self, instances: Instances) -> SoftTargets:
        x = instances.x_true
        return SoftTargets(torch.stack([x, 1 - x], 1), torch.tensor([0.75, 0.25]).expand(len(x), 2))


@dataclass(frozen=True)
class Several(RandGraph):
    """The solution and, for every second instance, its complement."""

    def sample(self, count: int, generator: torch.Generator, split: Split = "train") -> Instances:
        found = super().sample(count, generator, split)
        valid = torch.ones(count, 2, dtype=torch.bool)
        valid[::2, 1] = False
        return found._replace(right=RightAnswers(torch.stack([found.x_true, 1 - found.x_true], 1), valid))


def own_loss(A: Any, batch: Any) -> torch.Tensor:
    return (energies(A, batch.x_true) - energies(A, 1 - batch.x_true)).square()


LOSSES: dict[str, Loss] = {
    "gap": Gap(weight_unique=0.1),
    "hinge": Hinge(0.7),
    "hamming": HammingHinge(0.3),
    "nll": Likelihood(3.0),
    "soft-nll": SoftLikelihood(3.0),
    "pseudo": PseudoLikelihood(2.0),
    "own": as_loss(own_loss),
    "sum": Gap() + 0.3 * Likelihood(2.0) + 0.1 * PseudoLikelihood(1.0),
}
PROBLEMS = {"plain": RandGraph(k=3), "soft": Soft(k=3), "several": Several(k=3)}


def tied(m: int, size: int) -> nn.Module:
    layer = nn.Linear(9, 9)
    return nn.Sequential(nn.Linear(m, 9), nn.Tanh(), layer, nn.GELU(), layer, nn.Linear(9, size))


BODIES: dict[str, Callable[[int, int], nn.Module]] = {
    "mlp": lambda m, size: MLP(m, size, 5, 12),
    "linear": lambda m, size: nn.Linear(m, size),
    "norm": lambda m, size: nn.Sequential(
        nn.Linear(m, 9, bias=False), nn.BatchNorm1d(9), nn.ReLU(), nn.Linear(9, size)
    ),
    "tied": tied,
}


def task_of(
    loss: Loss, problem: RandGraph, body: str, head: Any = "coupled", dtype: torch.dtype = torch.float32
) -> Task:
    pattern = topology("dense" if head == "coupled" else "diagonal", problem.bits)
    torch.manual_seed(3)
    layers = BODIES[body](problem.input_size, pattern.size)
    network = HEADS[head](layers, pattern, problem.input_size).to(dtype)
    batches = Drawn(problem, False, 40, 19, 1, "cpu")
    batches._kept = (0, Instances(batches.first().p.to(dtype), *batches.first()[1:]))
    network.standardize.fit(batches.first().p)
    return Task(network, FlatAdam(network, steps=9), batches, loss, ExhaustiveSearch(), 0, problem)


def assert_same(monkeypatch: pytest.MonkeyPatch, *choices: Any) -> None:
    """Compare losses and weights after three steps of both engines."""
    monkeypatch.setattr(captured, "captured", lambda work: work)
    found = []
    for engine in (Steps, CapturedSteps):
        task = task_of(*choices)
        before = task.optimizer.values.clone()
        loss = engine(task).advance(0, 3)
        assert (task.optimizer.values - before).abs().max() > 1e-4, "nothing is compared"
        found.append((loss, task.optimizer.values))
    assert found[0][0] == pytest.approx(found[1][0], rel=2e-4, abs=1e-5)
    torch.testing.assert_close(found[0][1], found[1][1], rtol=2e-3, atol=2e-4)


COMBINATIONS = [
    (loss, problem)
    for loss, problem in product(LOSSES, PROBLEMS)
    if (loss == "soft-nll") == (problem == "soft") and (loss, problem) != ("hamming", "several")
]


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize(("loss", "problem"), COMBINATIONS)
def test_the_captured_step_is_that_of_autograd(
    loss: str, problem: str, body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_same(monkeypatch, LOSSES[loss], PROBLEMS[problem], body)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("head", "loss"),
    [
        ("uncoupled", Likelihood(2.0)),
        ("uncoupled", Gap()),
        ("direct", L1()),
        ("coupled", Likelihood(2.0)),
        ("coupled", Gap() + 0.05 * SparseFeatures()),
    ],
)
def test_heads_and_dtypes(head: str, loss: Loss, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_same(monkeypatch, loss, PROBLEMS["plain"], "mlp", head, dtype)
