"""The reference step, by autograd."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from qubolearn.data.arrays import tensors_of
from qubolearn.data.contract import Instances, Problem
from qubolearn.errors import NonFiniteError, QubolearnError, error_context
from qubolearn.losses.contract import Batch, Loss
from qubolearn.qubo import Qubo
from qubolearn.random import derive_seed
from qubolearn.solvers.constrained import Constrained
from qubolearn.solvers.contract import Solver, seeded
from qubolearn.training.batches import Batches, Drawn
from qubolearn.training.folder import Folder
from qubolearn.training.optimizers import Update


@dataclass
class Task:
    """Everything that steps need; a step depends on its number alone."""

    network: nn.Module
    optimizer: Update
    batches: Batches
    loss: Loss
    solver: Solver
    seed: int
    problem: Problem | None = None
    on_gradient: Sequence[Callable[[], None]] = ()
    folder: Folder | None = None
    keeps_best: bool = False  # the weights of the best validation loss
    updating: bool = False  # weights of no step if interrupted

    def __post_init__(self) -> None:
        fixed = seeded(self.solver, 0) is self.solver
        self._with_seed = None if fixed else self.solver.with_seed  # type: ignore[attr-defined]
        self.random = _uses_rng(self.network)
        self.constrained = False  # True if the solver must respect clamped bits, groups or constraints
        if self.problem is not None and self.loss.solves:
            own = [getattr(type(self.problem), name) for name in ("clamp", "constraints")]
            self.constrained = self.problem.groups is not None or own != [Problem.clamp, Problem.constraints]

    def batch(self, instances: Instances, step: int, features: Sequence[Tensor] = ()) -> Batch:
        """Return instances as the loss sees them, with a seeded solver."""
        soft = self.problem.soft_targets(instances) if self.loss.soft and self.problem else None
        seed = derive_seed(self.seed, "loss", step) if self.loss.draws else 0
        solver = self.solver
        if self._with_seed is not None:
            solver = self._with_seed(derive_seed(self.seed, "solver", step))
        if self.constrained:
            assert self.problem is not None
            p, problem = instances.p, self.problem
            solver = Constrained(solver, problem.clamp(p), problem.groups, problem.constraints(p))
        return Batch(instances, solver, soft, features, seed=seed)


class Steps:
    """Take the steps of a run one at a time, by autograd."""

    #: Maximum steps between host syncs.
    max_unsynced_steps = 1

    def __init__(self, task: Task) -> None:
        self.task = task

    def advance(self, first: int, end: int) -> float:
        """Take steps ``first`` to ``end - 1``; return the last one's loss."""
        value = math.nan
        for step in range(first, end):
            value = take_step(self.task, step)
        return value


def take_step(task: Task, step: int) -> float:
    """Take one step; return the mean loss before the update."""
    network, loss, optimizer = task.network, task.loss, task.optimizer
    instances: Instances | None = None
    part: tuple[Any, ...] = ()  # the running part: name, value, inputs
    try:
        instances = task.batches.batch(step)
        if task.random:  # dropout: make a step repeatable
            torch.manual_seed(derive_seed(task.seed, "network", step))
        part = "the network", type(network).__name__, {"p": instances.p}
        A, features = forward_with_features(network, instances)  # A [batch, n, n]
        part = "the loss", loss, {"A": A, "x_true": instances.x_true}
        value = loss(A, task.batch(instances, step, features)).mean()
        if not value.requires_grad:
            raise QubolearnError(f"the loss {loss!r} does not depend on the network; is A detached in it?")
        part = "the gradient of the loss", loss, {}
        optimizer.gradient.zero_()
        value.backward()  # type: ignore[no-untyped-call]
        mean = _finite(value.item(), optimizer.gradient)
        for change in task.on_gradient:
            change()
        part = "the optimizer", None, {}
        task.updating = True
        optimizer.step(step + 1)
        task.updating = False
        return mean
    except NonFiniteError as error:
        raise report_fault(task, step, instances, error) from error
    except Exception as error:
        if part:
            error_context(part[0], part[1], **part[2]).__exit__(type(error), error, None)
        error_context("step", step).__exit__(type(error), error, None)
        raise


def _finite(loss: float, gradient: Tensor) -> float:
    """Return the loss if it and its gradient are finite, else raise."""
    if not math.isfinite(loss):
        raise NonFiniteError(f"the loss is {loss}")
    if not math.isfinite(norm := gradient.dot(gradient).item()):
        raise NonFiniteError(f"the loss is {loss:g}, but its gradient has norm {math.sqrt(norm)}")
    return loss


def forward_with_features(network: nn.Module, instances: Instances) -> tuple[Qubo, Sequence[Tensor]]:
    """Return A and the hidden features of networks with ``couplings``."""
    couplings = getattr(network, "couplings", None)
    A, features = (network(instances.p), ()) if couplings is None else couplings(instances.p)
    batch, n = instances.x_true.shape
    if A.shape != (batch, n, n):
        raise QubolearnError(f"the network returned A {list(A.shape)}; x_true needs [{batch}, {n}, {n}]")
    return A, features


def report_fault(task: Task, step: int, instances: Instances | None, error: NonFiniteError) -> NonFiniteError:
    """Store a failed step in ``fault/``; return an error that explains it."""
    seed = task.batches.seed_of(step)
    where = f"step {step} (seed {task.seed}, epoch {step // task.batches.steps_per_epoch}, batch seed {seed})"
    cause = "lower the learning rate or look for outliers in p"
    stored = "train with folder= to store the batch"
    if instances is not None:
        for tensor in tensors_of(instances.p):
            if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
                place = (~tensor.isfinite()).nonzero()[0].tolist()
                cause = f"p{place} of its batch is {tensor[tuple(place)].item()}: repair or remove it"
        if task.folder:
            notes = {"step": step, "batch_seed": seed, "error": str(error)}
            stored = task.folder.store_fault(task.network, instances, notes)
    return NonFiniteError(f"{error} at {where}; {cause}; {stored}")


def check_network(network: object) -> None:
    """Raise unless ``network`` is a module with trainable parameters."""
    if not isinstance(network, nn.Module):
        raise QubolearnError(f"network is a {type(network).__name__}; expected one such as QuboNetwork")
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise QubolearnError(f"{type(network).__name__} has no parameter to train")


def standardize_inputs(task: Task) -> None:
    """Fit standardization and center, if any, to the training instances."""
    layer, center = getattr(task.network, "standardize", None), getattr(task.network, "center", None)
    if isinstance(center, torch.Tensor) and not bool(center.any()):  # trained couplings keep theirs
        whole = isinstance(task.batches, Drawn)  # a Dataset may be larger than memory
        center.copy_((task.batches.first() if whole else task.batches.batch(0)).x_true.mean(0))
    if layer is not None:
        instances = task.batches.first()
        try:
            layer.fit(instances.p)
        except NonFiniteError as error:
            raise report_fault(task, 0, instances, error) from error


@torch.no_grad()
def check_task(task: Task, held_out: Sequence[Instances]) -> None:
    """Raise if network, data and solver do not fit together."""
    first = task.batches.batch(0)
    task.network.eval()
    for each in (first, *held_out[:1]):
        _check_forward(task.network, each.rows(slice(0, 2)))
    solver = task.solver
    ours = type(solver).__module__.startswith("qubolearn.")
    if task.loss.solves and hasattr(solver, "with_seed") and not ours:
        A, _ = forward_with_features(task.network, first)
        found, again = (task.batch(first, 0).best(A, max(1, task.loss.states)) for _ in range(2))
        if not torch.equal(found, again):
            raise QubolearnError(f"the solver {solver!r} ignores its seed: with_seed(0) gave two answers")
    task.network.train()


def _check_forward(network: nn.Module, instances: Instances) -> None:
    try:
        forward_with_features(network, instances)
    except (RuntimeError, TypeError, IndexError, KeyError, AttributeError) as error:
        sizes = [["batch", *map(str, tensor.shape[1:])] for tensor in tensors_of(instances.p)]
        shapes = ", ".join(f"[{', '.join(size)}]" for size in sizes)
        double = any(parameter.dtype == torch.float64 for parameter in network.parameters())
        hint = "; data are float32: call network.float()" if double else ""
        what = f"{type(network).__name__} fails on p of shape {shapes}"
        raise QubolearnError(f"{what}: {type(error).__name__}: {error}{hint}") from error


def _uses_rng(network: nn.Module) -> bool:
    """Return True if a network may draw random numbers."""
    kinds = {type(module) for module in network.modules()}
    own = any(kind.__module__.split(".")[0] not in ("torch", "qubolearn") for kind in kinds)
    return own or nn.RReLU in kinds or any("dropout" in kind.__name__.lower() for kind in kinds)
