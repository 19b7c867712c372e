"""The loop, on one page: p -> network -> A -> solver -> loss, with everything random named by (seed, step)."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from qubolearn.errors import QubolearnError
from qubolearn.evaluation import score_network
from qubolearn.files import lock_folder
from qubolearn.losses import Likelihood, Loss, as_loss
from qubolearn.problems.arrays import Arrays, whole_of
from qubolearn.problems.contract import Instances, Problem
from qubolearn.randomness import stream
from qubolearn.solvers import ExhaustiveSearch, Solver
from qubolearn.training.batches import batches_of
from qubolearn.training.callbacks import Callback, call
from qubolearn.training.distributed import ALONE, Peers
from qubolearn.training.fast import make_steps
from qubolearn.training.fast.adam import FlatAdam
from qubolearn.training.faults import keep_fault
from qubolearn.training.folder import Folder
from qubolearn.training.optimizers import Adam, TorchOptimizer, Update
from qubolearn.training.steps import Task, check_network
from qubolearn.training.threads import current_device, one_thread

__all__ = ["Training", "fit"]

SECONDS_BETWEEN_CHECKPOINTS = 20.0


@dataclass
class Training:
    """A training as callbacks see it, and what ``fit`` returns.

    ``network`` is being trained, ``step`` of ``steps`` steps are done in ``seconds`` seconds, and ``loss`` is that of
    the last one. ``scores`` are those of the validation instances, where they were scored after this step, and
    ``history`` lists one record for each scoring. ``stopping`` says whether somebody called :meth:`stop`.

    >>> training = Training(nn.Linear(2, 2), steps=100)
    >>> training.stop()
    >>> training.stopping
    2
    """

    network: nn.Module
    steps: int
    step: int = 0
    loss: float = float("nan")
    scores: dict[str, Any] | None = None
    history: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    stopping: int = 0  # 1: until the same call continues it, 2: for good

    def stop(self, for_good: bool = True) -> None:
        """End the training after this step, for good or until the same call continues it from its folder."""
        self.stopping = max(self.stopping, 2 if for_good else 1)


def fit(
    network: nn.Module,
    data: Any,
    loss: Loss | Callable[..., torch.Tensor] | None = None,
    *,
    epochs: int = 30,
    optimizer: Adam | torch.optim.Optimizer | None = None,
    schedule: Any = None,
    solver: Solver | None = None,
    callbacks: Sequence[Callback] = (),
    batch_size: int = 128,
    instances: int | None = None,
    fresh: bool = False,
    validation: Any = 1000,
    score_after: Sequence[int] | None = None,
    standardise: bool = True,
    steps_per_epoch: int | None = None,
    seed: int = 0,
    device: torch.device | str = "cpu",
    folder: Folder | Path | str | None = None,
    peers: Peers = ALONE,
) -> Training:
    """Train a network so that the minimiser of its QUBO is the solution.

    Args:
        network: a :class:`qubolearn.QuboNetwork` around any body, or any module that takes p to A ``[batch, n, n]``.
        data: a Problem, arrays ``(p, x)``, :class:`qubolearn.Arrays`, a torch Dataset or a DataLoader of ``(p, x)``.
        loss: a loss of ours, a sum of them, or any callable ``f(A, batch)`` that returns one value per instance.
            Default: ``Likelihood()``.
        epochs: passes over the training instances.
        optimizer: :class:`qubolearn.Adam` (the default, and the fastest) or any optimizer of torch's.
        schedule: a learning-rate scheduler of torch's for an optimizer of torch's; it moves once a step.
        solver: the solver for losses that need one; where it has ``with_seed``, each step gives it a new seed.
            Default: ``ExhaustiveSearch()``.
        callbacks: see :mod:`qubolearn.training.callbacks`.
        batch_size: instances of one step; a DataLoader has its own.
        instances: the size of the training set that is drawn from a Problem; default 5640, or all of arrays.
        fresh: draw new instances from the Problem every epoch.
        validation: how many validation instances to draw from a Problem; or data to score, as for
            :func:`qubolearn.evaluate`. Arrays have their own.
        score_after: the steps after which they are scored; by default the last one of each epoch.
        standardise: fit the network's ``standardise`` layer to the training instances, where it has one.
        steps_per_epoch: for a DataLoader without a length.
        seed: fixes training data, order, dropout and stochastic solvers; the initial weights are the caller's.
        device: where to train; the network is moved there.
        folder: where to keep metrics, checkpoints and the model; the same call again continues a stopped training.
        peers: this process among those that train together.

    Returns:
        The :class:`Training` with its history; the network is trained in place and left in evaluation mode.

    Raises:
        QubolearnError: where the parts do not fit together, in one line that names the part, its value and the remedy.

    >>> from qubolearn import QuboNetwork, evaluate, topology
    >>> pattern = topology("dense", 2)
    >>> _ = torch.manual_seed(0)
    >>> p = 2 * torch.rand(400, 2) - 1
    >>> network = QuboNetwork(nn.Linear(2, pattern.size), pattern)
    >>> fit(network, (p, p > 0), Likelihood(), optimizer=Adam(0.05), epochs=20).step
    60
    >>> evaluate(network, (p, p > 0)).metrics["accuracy"] > 0.9
    True
    """
    _check(network, epochs, batch_size, seed, solver)
    here = Folder.create(folder) if isinstance(folder, (str, Path)) else folder
    lock = lock_folder(here.folder) if here and peers.rank == 0 else nullcontext()
    with lock, torch.random.fork_rng(devices=[]), one_thread(device), current_device(device):
        network.to(device).train()
        problem, batches = batches_of(
            data,
            batch_size=batch_size,
            instances=instances,
            fresh=fresh,
            seed=seed,
            device=device,
            steps_per_epoch=steps_per_epoch,
        )
        training = Training(network, epochs * batches.steps_per_epoch)
        update = _update(network, optimizer, schedule, training.steps)
        hooks = [lambda each=each: call(each, "on_gradient", training) for each in callbacks if _changes(each)]
        task = Task(
            network,
            update,
            batches,
            as_loss(loss or Likelihood()).begin(),
            solver or ExhaustiveSearch(),
            seed,
            problem,
            here,
            peers,
            hooks,
        )
        with keep_fault(task, 0, batches.first):
            if standardise and getattr(network, "standardise", None) is not None:
                network.standardise.fit(batches.first().p)  # type: ignore[operator, union-attr]
            held_out = _held_out(validation, problem, seed, device)
        check_network(network, batches.first())
        training.step = here.restore(network, update, training.steps) if here else 0
        writer = here if peers.rank == 0 else None
        for each in callbacks:
            call(each, "on_start", training)
        if writer and training.step == 0 and held_out:
            with keep_fault(task, 0, batches.first):
                writer.log(step=0, **score_network(network, problem, held_out))

        try:
            steps = make_steps(task)
            watched = _watched(score_after, batches.steps_per_epoch, training.steps)
            began = saved = time.perf_counter()
            for first, end in spans(training.step, watched, lambda: steps.max_unsynced_steps):
                training.loss, training.scores = steps.advance(first, end), None
                training.step, training.seconds = end, time.perf_counter() - began
                if end in watched and peers.rank == 0:
                    with keep_fault(task, end - 1, lambda end=end: batches.batch(end - 1)):  # type: ignore[misc]
                        training.scores = score_network(network, problem, held_out) if held_out else {}
                    record = {"step": end, "loss": training.loss, "seconds": training.seconds, **training.scores}
                    training.history.append(record)
                    if writer:
                        writer.log(**record)
                for each in callbacks:
                    call(each, "on_step", training)
                training.stopping = peers.largest(training.stopping)
                if writer and (training.stopping or time.perf_counter() - saved > SECONDS_BETWEEN_CHECKPOINTS):
                    writer.checkpoint(network, update, end)
                    saved = time.perf_counter()
                if training.stopping:
                    break
            if writer and training.stopping != 1:
                writer.finish(network, update, training.step)
        finally:
            network.eval()
            for each in callbacks:
                call(each, "on_end", training)
        return training


def spans(start: int, watched: Sequence[int], longest: Callable[[], int]) -> Iterator[tuple[int, int]]:
    """All steps from ``start`` on in spans of at most ``longest``, none across a step that is watched.

    >>> list(spans(1, [3, 8], lambda: 4))
    [(1, 3), (3, 7), (7, 8)]
    """
    while start < watched[-1]:
        end = min(start + longest(), watched[bisect_right(watched, start)])
        yield start, end
        start = end


def _watched(asked: Sequence[int] | None, steps_per_epoch: int, steps: int) -> list[int]:
    """The steps after which validation instances are scored, in order; the last one of all is among them."""
    chosen = range(steps_per_epoch, steps, steps_per_epoch) if asked is None else asked
    return [*sorted({step for step in chosen if 0 < step < steps}), steps]


def _check(network: object, epochs: int, batch_size: int, seed: int, solver: object) -> None:
    if not isinstance(network, nn.Module):
        raise QubolearnError(f"network is a {type(network).__name__}; want a torch.nn.Module such as QuboNetwork")
    if isinstance(solver, str):
        raise QubolearnError(f"solver={solver!r} is a name; pass a solver, e.g. make_solver({solver!r})")
    if solver is not None and not callable(solver):
        raise QubolearnError(f"solver={solver!r} cannot be called; want a solver such as ExhaustiveSearch()")
    for name, value in (("epochs", epochs), ("batch_size", batch_size)):
        if not isinstance(value, int) or value < 1:
            raise QubolearnError(f"{name}={value}; want a whole number of at least 1")
    if not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise QubolearnError(f"seed={seed}; want a whole number from 0 to 2**63 - 1")
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise QubolearnError(f"{type(network).__name__} has no parameter to train")


def _update(network: nn.Module, optimizer: Any, schedule: Any, steps: int) -> Update:
    if isinstance(optimizer, torch.optim.Optimizer):
        return TorchOptimizer(network, optimizer, schedule)
    if optimizer is not None and not isinstance(optimizer, Adam):
        raise QubolearnError(f"optimizer={optimizer!r}; want qubolearn.Adam(...) or an optimizer of torch.optim")
    if schedule is not None:
        raise QubolearnError("schedule= is for optimizers of torch's; write Adam(1e-3, schedule=Cosine())")
    return FlatAdam(network, optimizer, steps)


def _changes(callback: Callback) -> bool:
    """Whether a callback looks at gradients, for which every step must be taken by itself."""
    return getattr(type(callback), "on_gradient", Callback.on_gradient) is not Callback.on_gradient


def _held_out(validation: Any, problem: Problem | None, seed: int, device: torch.device | str) -> list[Instances]:
    """The validation instances, in pieces."""
    if validation is None or (isinstance(validation, int) and (validation < 1 or problem is None)):
        return []
    if isinstance(problem, Arrays) and isinstance(validation, int):
        return [problem.whole("validation").to(device)] if problem.size("validation") else []
    if isinstance(validation, int):
        assert problem is not None
        return [problem.sample(validation, stream(seed, "validation", device=device), "validation")]
    return [piece.to(device) for piece in whole_of(validation)]
