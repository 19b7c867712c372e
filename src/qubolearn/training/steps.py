"""The reference step, by autograd: batch -> network -> A -> loss -> gradient -> optimizer. The fast ones follow it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from qubolearn.errors import NonFiniteError, QubolearnError, inside
from qubolearn.losses.contract import Batch, Loss
from qubolearn.problems.contract import Instances, Problem
from qubolearn.problems.structures import tensors_of
from qubolearn.qubo import Qubo
from qubolearn.randomness import derive_seed
from qubolearn.solvers.constrained import Constrained
from qubolearn.solvers.contract import Solver, seeded
from qubolearn.training.batches import Batches
from qubolearn.training.distributed import ALONE, Peers, add_up
from qubolearn.training.faults import keep_fault
from qubolearn.training.folder import Folder
from qubolearn.training.optimizers import Update

__all__ = ["Steps", "Task", "check_network", "check_seed", "couplings_of", "mean_loss", "said_of"]


@dataclass
class Task:
    """All that the steps of a training need; what a step does depends on its number alone."""

    network: nn.Module
    optimizer: Update
    batches: Batches
    loss: Loss
    solver: Solver
    seed: int
    problem: Problem | None = None
    folder: Folder | None = None
    peers: Peers = ALONE
    on_gradient: Sequence[Callable[[], None]] = field(default=())

    def draw(self, step: int) -> int:
        """The number that seeds the randomness of a step in this process; every process has its own numbers."""
        return step * self.peers.size + self.peers.rank

    def batch(self, instances: Instances, draw: int, **more: Any) -> Batch:
        """Instances as the loss sees them, with the solver seeded for this draw."""
        soft = self.problem.soft_targets(instances) if self.loss.soft and self.problem else None
        if self.loss.draws:
            more["seed"] = derive_seed(self.seed, "loss", draw)
        solver = self.solver if self._draws is None else self._draws(self.seed_of(draw))
        if self.constrained:
            assert self.problem is not None
            solver = Constrained(solver, self.problem.clamp(instances.p), self.problem.groups)
        return Batch(instances, solver, soft, **more)

    @property
    def constrained(self) -> bool:
        """Whether the loss asks a solver that must hold clamped bits or groups of the problem."""
        if self.problem is None or not self.loss.solves:
            return False
        return self.problem.groups is not None or type(self.problem).clamp is not Problem.clamp

    def seed_of(self, draw: int) -> int:
        """The seed of the solver in a draw."""
        return derive_seed(self.seed, "solver", draw)

    def __post_init__(self) -> None:
        same = seeded(self.solver, 0) is self.solver  # then it draws nothing
        self._draws = None if same else self.solver.with_seed  # type: ignore[attr-defined]


class Steps:
    """Takes the steps of one training, one at a time."""

    #: Steps that are taken before anybody looks at the loss.
    max_unsynced_steps = 1

    def __init__(self, task: Task) -> None:
        self.task = task
        self._random = _may_draw(task.network)

    def advance(self, first: int, end: int) -> float:
        """Take the steps ``first`` to ``end - 1``; the loss of the last one, before it was taken."""
        value = math.nan
        for step in range(first, end):
            value = self._take(step)
        return value

    def _take(self, step: int) -> float:
        task, peers, optimizer = self.task, self.task.peers, self.task.optimizer
        with inside("step", step):
            instances = task.batches.batch(step)
            with keep_fault(task, step, lambda: instances):
                mine = peers.share(instances)
                loss = self.gradient(mine, task.draw(step), len(mine.x_true) / len(instances.x_true))
                value = _finite(*add_up(optimizer.gradient, loss, peers))
                for change in task.on_gradient:
                    change()
                with inside("the optimizer"):
                    optimizer.step(step + 1)
        return value

    def gradient(self, instances: Instances, draw: int, share: float) -> Tensor | float:
        """Leave the gradient of the mean loss, times ``share``, in the optimizer's; the value of that."""
        task = self.task
        if self._random:  # dropout and the like, so that a step can be taken again
            torch.manual_seed(derive_seed(task.seed, "network", draw))
        loss = share * mean_loss(task, instances, draw)
        task.optimizer.gradient.zero_()
        if loss.requires_grad:
            with inside("the gradient of the loss", task.loss):
                loss.backward()  # type: ignore[no-untyped-call]
        else:
            raise QubolearnError(f"the loss {task.loss!r} does not depend on the network; is A detached in it?")
        return loss.detach()


def mean_loss(task: Task, instances: Instances, draw: int) -> Tensor:
    """p -> network -> A -> solver -> loss: the mean over the instances, with the randomness of a draw."""
    A, features = couplings_of(task.network, instances)
    with inside("the loss", task.loss, A=A, x_true=instances.x_true):
        return task.loss(A, task.batch(instances, draw, features=features)).mean()


def couplings_of(network: nn.Module, instances: Instances) -> tuple[Qubo, Sequence[Tensor]]:
    """A and the hidden features that a network says of instances, checked."""
    with inside("the network", type(network).__name__, p=instances.p):
        A, features = said_of(network, instances.p)
    batch, n = instances.x_true.shape
    if list(A.shape) != [batch, n, n]:
        raise QubolearnError(
            f"the network returned A {list(A.shape)} for {batch} instances of {n} bits; want [{batch}, {n}, {n}]"
        )
    return A, features


def said_of(network: nn.Module, p: Any) -> tuple[Qubo, Sequence[Tensor]]:
    """A and hidden features; any module that takes p to A will do, which then has no features."""
    couplings = getattr(network, "couplings", None)
    return (network(p), ()) if couplings is None else couplings(p)


@torch.no_grad()
def check_network(network: nn.Module, instances: Instances) -> None:
    """Raise unless a network takes the p of these instances and returns QUBOs of their size."""
    network.eval()
    try:
        couplings_of(network, instances.rows(slice(0, 2)))
    except (RuntimeError, TypeError, IndexError, KeyError, AttributeError) as error:
        shapes = ", ".join(str(list(tensor.shape[1:])) for tensor in tensors_of(instances.p))
        double = any(parameter.dtype == torch.float64 for parameter in network.parameters())
        hint = "; data are float32: call network.float()" if double else ""
        raise QubolearnError(
            f"{type(network).__name__} fails on p of shape [batch, *{shapes}]: {type(error).__name__}: {error}{hint}"
        ) from error
    finally:
        network.train()


@torch.no_grad()
def check_seed(task: Task) -> None:
    """Raise where a solver of the user's own answers differently with the same seed: no step could be taken again."""
    solver = task.solver
    if not (task.loss.solves and hasattr(solver, "with_seed")) or type(solver).__module__.startswith("qubolearn."):
        return
    instances = task.batches.batch(0)
    A, _ = couplings_of(task.network.eval(), instances)
    task.network.train()
    batches = [task.batch(instances, 0) for _ in range(2)]
    first, again = (batch.best(A, max(1, task.loss.states)) for batch in batches)
    if not torch.equal(first, again):
        raise QubolearnError(
            f"the solver {solver!r} ignores its seed: with_seed(0) answers differently when asked again"
        )


def _may_draw(network: nn.Module) -> bool:
    """Whether a network may draw random numbers. Layers of torch's and ours do not, except for dropout and RReLU."""
    kinds = {type(module) for module in network.modules()}
    return any(
        "dropout" in kind.__name__.lower()
        or kind is nn.RReLU
        or kind.__module__.split(".")[0] not in ("torch", "qubolearn")
        for kind in kinds
    )


def _finite(loss: float, gradient: float) -> float:
    """The loss, where it and the norm of its gradient are finite: a NaN update would destroy the weights."""
    if not math.isfinite(loss):
        raise NonFiniteError(f"the loss is {loss}")
    if not math.isfinite(gradient):
        raise NonFiniteError(f"the loss is {loss:g}, but its gradient has norm {gradient}")
    return loss
