"""The fast engines against autograd: the same losses and gradients for every loss, network, problem and method."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

from qubolearn.chips.topologies import topology
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
from qubolearn.networks import MLP, QuboNetwork
from qubolearn.problems.contract import Instances, RightAnswers, SoftTargets, Split
from qubolearn.problems.randgraph import RandGraph
from qubolearn.qubo import energies
from qubolearn.solvers import ExhaustiveSearch
from qubolearn.training.batches import Drawn
from qubolearn.training.fast.adam import FlatAdam
from qubolearn.training.fast.compiled import CompiledSteps, can_compile
from qubolearn.training.optimizers import TorchOptimizer
from qubolearn.training.steps import Steps, Task


@dataclass(frozen=True)
class Soft(RandGraph):
    """Soft targets: the solution and its complement."""

    def soft_targets(self, instances: Instances) -> SoftTargets:
        x = instances.x_true
        return SoftTargets(torch.stack([x, 1 - x], 1), torch.tensor([0.75, 0.25]).expand(len(x), 2))


@dataclass(frozen=True)
class Several(RandGraph):
    """Several right answers: the solution and its complement, of which only every second instance has the latter."""

    def sample(self, count: int, generator: torch.Generator, split: Split = "train") -> Instances:
        found = super().sample(count, generator, split)
        states = torch.stack([found.x_true, 1 - found.x_true], 1)
        valid = torch.ones(count, 2, dtype=torch.bool)
        valid[::2, 1] = False
        return found._replace(right=RightAnswers(states, valid))


def own_loss(A: Any, batch: Any) -> torch.Tensor:
    return (energies(A, batch.x_true) - energies(A, 1 - batch.x_true)).square()


LOSSES: dict[str, Loss] = {
    "gap": Gap(weight_unique=0.1),
    "gap alone": Gap(weight_unique=0.0),
    "hinge": Hinge(0.7),
    "hamming": HammingHinge(0.3),
    "nll": Likelihood(3.0),
    "soft-nll": SoftLikelihood(3.0),
    "pseudo": PseudoLikelihood(2.0),
    "own": as_loss(own_loss),
    "sum": Gap() + 0.3 * Likelihood(2.0) + 0.1 * PseudoLikelihood(1.0),
}
PROBLEMS = {"plain": RandGraph(k=3), "soft": Soft(k=3), "several": Several(k=3), "larger": RandGraph(k=4)}
BODIES = {
    "mlp": lambda m, size: MLP(m, size, 5, 12),
    "shallow": lambda m, size: MLP(m, size, 2, 12),
    "linear": lambda m, size: nn.Linear(m, size),
    "no bias": lambda m, size: nn.Sequential(nn.Linear(m, 9, bias=False), nn.Tanh(), nn.Linear(9, size)),
    **{
        kind.__name__: lambda m, size, kind=kind: nn.Sequential(
            nn.Linear(m, 9), kind(), nn.Linear(9, 7), kind(), nn.Identity(), nn.Linear(7, size), nn.Tanh()
        )
        for kind in (nn.ReLU, nn.Tanh, nn.Sigmoid, nn.LeakyReLU, nn.SiLU, nn.GELU)
    },
}


def fits(loss: str, problem: str) -> bool:
    if (loss == "soft-nll") != (problem == "soft"):
        return False
    return not (loss == "hamming" and problem == "several")


def task_of(loss: Loss, problem: RandGraph, body: str, method: Any = "quant", standardise: bool = True) -> Task:
    pattern = topology("dense" if method == "quant" else "diagonal", problem.bits)
    torch.manual_seed(3)
    made = BODIES[body](problem.input_size, pattern.size)
    network = QuboNetwork(made, pattern, problem.input_size if standardise else None, method)
    batches = Drawn(problem, 40, 19, False, 1, "cpu")
    if network.standardise is not None:
        network.standardise.fit(batches.first().p)
    return Task(network, FlatAdam(network), batches, loss, ExhaustiveSearch(), 0, problem)


def assert_same(task: Task, share: float = 1.0) -> None:
    """Loss and gradient of the compiled step are those of autograd."""
    instances = task.batches.batch(0)
    want = float(Steps(task).gradient(instances, 0, share))
    right = task.optimizer.gradient[1:].clone()
    assert right.abs().max() > 1e-5, "nothing is compared"
    assert can_compile(task)
    task.optimizer.gradient.zero_()
    assert CompiledSteps(task).gradient(instances, 0, share) == pytest.approx(want, rel=2e-4, abs=1e-5)
    torch.testing.assert_close(task.optimizer.gradient[1:], right, rtol=2e-3, atol=2e-5)


def combinations() -> Iterator[Any]:
    for loss in LOSSES:
        for problem in PROBLEMS:
            if fits(loss, problem):
                yield pytest.param(loss, problem, id=f"{loss}-{problem}")


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize(("loss", "problem"), list(combinations()))
def test_the_compiled_step_is_that_of_autograd(loss: str, problem: str, body: str) -> None:
    assert_same(task_of(LOSSES[loss], PROBLEMS[problem], body))


@pytest.mark.parametrize("loss", ["gap", "nll"])
@pytest.mark.parametrize("share", [1.0, 0.3])
def test_sparse_features_and_shares_of_a_batch(loss: str, share: float) -> None:
    assert_same(task_of(LOSSES[loss] + 0.05 * SparseFeatures(), PROBLEMS["plain"], "mlp"), share)


@pytest.mark.parametrize(("method", "loss"), [("diag", Likelihood(2.0)), ("diag", Gap()), ("pure", L1())])
def test_methods_without_couplers(method: str, loss: Loss) -> None:
    assert_same(task_of(loss, PROBLEMS["plain"], "mlp", method))


def test_inputs_that_are_not_standardised() -> None:
    assert_same(task_of(Likelihood(), PROBLEMS["plain"], "SiLU", standardise=False))


def test_optimizers_of_torch_take_the_compiled_gradient() -> None:
    moved = []
    for kind in (Steps, CompiledSteps):
        task = task_of(Likelihood(), PROBLEMS["plain"], "GELU")
        optimizer = torch.optim.AdamW(task.network.parameters(), 0.01, weight_decay=0.1)
        task.optimizer = TorchOptimizer(task.network, optimizer)
        kind(task).advance(0, 6)
        moved.append(nn.utils.parameters_to_vector(task.network.parameters()).detach())
    torch.testing.assert_close(moved[0], moved[1], rtol=1e-3, atol=1e-4)


class Own(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(81, 21)

    def forward(self, p: torch.Tensor) -> torch.Tensor:
        return self.layer(p)


def hooked() -> nn.Module:
    body = nn.Linear(81, 21)
    body.register_forward_hook(lambda *_: None)
    return body


def frozen() -> nn.Module:
    body = nn.Sequential(nn.Linear(81, 5), nn.ReLU(), nn.Linear(5, 21))
    body[0].requires_grad_(False)
    return body


def tied() -> nn.Module:
    layer = nn.Linear(21, 21)
    return nn.Sequential(nn.Linear(81, 21), nn.ReLU(), layer, nn.ReLU(), layer)


@pytest.mark.parametrize(
    "body",
    [
        Own(),
        hooked(),
        frozen(),
        tied(),
        nn.Sequential(nn.Linear(81, 5), nn.Dropout(0.5), nn.Linear(5, 21)),
        nn.Sequential(nn.Linear(81, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 21)),
        nn.Sequential(nn.Linear(81, 5), nn.ReLU(), nn.Tanh(), nn.Linear(5, 21)),
        nn.Sequential(nn.Linear(81, 5), nn.GELU(approximate="tanh"), nn.Linear(5, 21)),
        nn.utils.parametrizations.weight_norm(nn.Linear(81, 21)),
        nn.Linear(81, 21).double(),
    ],
    ids=lambda body: type(body).__name__,
)
def test_what_the_kernels_do_not_know_is_left_to_autograd(body: nn.Module) -> None:
    problem = RandGraph(k=3)
    network = QuboNetwork(body, topology("dense", 6))
    task = Task(network, FlatAdam(network), Drawn(problem, 9, 9, False, 0, "cpu"), Likelihood(), ExhaustiveSearch(), 0)
    assert not can_compile(task)
