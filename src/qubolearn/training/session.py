"""One training from its arguments to its end: all but its steps, which an engine takes.

``fit`` runs one session, ``fit_many`` several of one shape side by side.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import torch
from torch import nn

from qubolearn.errors import QubolearnError, inside
from qubolearn.evaluation import require_solver, score_network
from qubolearn.files import lock_folder
from qubolearn.losses import Likelihood, Loss, as_loss
from qubolearn.problems.arrays import Arrays, whole_of
from qubolearn.problems.contract import Instances, Problem
from qubolearn.randomness import kept_global_state, stream
from qubolearn.solvers import ExhaustiveSearch, Solver
from qubolearn.training.batches import batches_of
from qubolearn.training.callbacks import Callback, call
from qubolearn.training.distributed import Peers
from qubolearn.training.fast.adam import FlatAdam
from qubolearn.training.faults import keep_fault
from qubolearn.training.folder import Folder
from qubolearn.training.optimizers import Adam, TorchOptimizer, Update
from qubolearn.training.steps import Task, check_network, check_seed
from qubolearn.training.threads import current_device, one_thread, usable_device

__all__ = ["Session", "Training", "spans", "surroundings"]

SECONDS_BETWEEN_CHECKPOINTS = 20.0


@dataclass
class Training:
    """A training as callbacks see it, and what ``fit`` returns.

    Attributes:
        network: the network that is being trained.
        steps: how many steps the training has in all.
        step: how many of them are done.
        loss: the mean loss of the last step's batch.
        scores: metrics of the validation instances by name, where they were scored after this step; otherwise None.
        history: one record for each scoring: step, loss, seconds and the scores; of a resumed training those before it
            stopped, too.
        seconds: how long the steps took.
        stopping: 0, or after :meth:`stop` 1 (until the same call continues it) or 2 (for good).
        error: in :func:`qubolearn.fit_many`, the NaN or the failed callback that ended this training and no other.

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
    stopping: int = 0
    error: QubolearnError | None = None

    def stop(self, for_good: bool = True) -> None:
        """End the training after this step, for good or until the same call continues it from its folder."""
        self.stopping = max(self.stopping, 2 if for_good else 1)


@contextmanager
def surroundings(device: torch.device | str) -> Iterator[None]:
    """Set up the process for training steps, and put it back: threads, the current GPU, torch's random numbers."""
    device = usable_device(device)
    with kept_global_state(), one_thread(device), current_device(device):
        yield


class Session:
    """A training from its arguments to its end, used as a context that closes it.

    The arguments are those of :func:`qubolearn.fit`, which has their defaults. An engine takes the steps of ``task``
    and calls :meth:`after`; it may not cross a step of ``watched`` without a call.
    """

    task: Task
    training: Training

    def __init__(
        self,
        network: nn.Module,
        data: Any,
        loss: Loss | Callable[..., torch.Tensor] | None,
        *,
        epochs: int,
        optimizer: Adam | torch.optim.Optimizer | None,
        schedule: Any,
        solver: Solver | None,
        callbacks: Sequence[Callback],
        batch_size: int,
        instances: int | None,
        fresh: bool,
        validation: Any,
        score_after: Sequence[int] | None,
        standardise: bool,
        steps_per_epoch: int | None,
        seed: int,
        device: torch.device | str,
        folder: Folder | Path | str | None,
        peers: Peers,
        find_batches: Callable[..., Any] = batches_of,
    ) -> None:
        _check(network, epochs, batch_size, instances, seed)
        require_solver(solver)
        _check_callbacks(callbacks)
        chosen = as_loss(loss or Likelihood()).begin()
        network.to(device).train()
        sizes = {"batch_size": batch_size, "instances": instances, "steps_per_epoch": steps_per_epoch}
        problem, batches = find_batches(data, **sizes, fresh=fresh, seed=seed, device=device)
        self.training = training = Training(network, epochs * batches.steps_per_epoch)
        self.watched = _watched(score_after, batches.steps_per_epoch, training.steps)
        update = _update(network, optimizer, schedule, training.steps)
        self._held_out = _held_out(validation, problem, seed, device)
        for each in (batches.batch(0), *self._held_out[:1]):
            check_network(network, each)
        self.callbacks, self._started = callbacks, list[Callback]()
        hooks = [lambda each=each: call(each, "on_gradient", training) for each in callbacks if _changes(each)]
        asked = solver or ExhaustiveSearch()
        self.task = Task(network, update, batches, chosen, asked, seed, problem, peers=peers, on_gradient=hooks)
        check_seed(self.task)
        # a folder is made only when nothing can be refused any more
        where = self.task.folder = Folder.create(folder) if isinstance(folder, (str, Path)) else folder
        self._writer = where if peers.rank == 0 else None
        self._unkept = False  # whether the trained model is to be written
        with ExitStack() as opened:
            if self._writer:
                opened.enter_context(lock_folder(self._writer.folder))
            if standardise and getattr(network, "standardise", None) is not None:
                with keep_fault(self.task, 0, batches.first):
                    network.standardise.fit(batches.first().p)  # type: ignore[operator, union-attr]
            if where:
                self._resume(where)
            opened.callback(self._keep_model)
            opened.callback(self._tell_end)
            self._start()
            self._open = opened.pop_all()

    def _resume(self, where: Folder) -> None:
        """Go on from the last checkpoint of a folder; where the training has ended there, from its model."""
        training, task = self.training, self.task
        training.step = where.restore(task.network, task.optimizer, training.steps)
        training.history = [record for record in where.metrics() if 0 < record["step"] <= training.step]
        if training.step and where.ended(training.steps):
            training.stopping = 2 if training.step < training.steps else 0
            if where.finished:
                where.put_into(task.network)
                self._writer = None

    def _start(self) -> None:
        task, training = self.task, self.training
        for each in self.callbacks:
            call(each, "on_start", training)
            self._started.append(each)
        if self._writer and training.step == 0 and self._held_out:
            with inside("the scoring before step", 0), keep_fault(task, 0, task.batches.first):
                self._writer.log(step=0, **score_network(task.network, task.problem, self._held_out))
        self._began = self._saved = time.perf_counter()

    def _tell_end(self) -> None:
        """Tell the callbacks that were started, in their order, each whatever becomes of the others."""
        with ExitStack() as told:
            for each in reversed(self._started):
                told.callback(call, each, "on_end", self.training)

    def _keep_model(self) -> None:
        """Write the model after the callbacks have ended: one of them may have put the best weights back."""
        if self._writer and self._unkept:
            self._writer.keep(self.task.network)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the training, once: callbacks are told, the network is in evaluation mode, the folder is free."""
        self.training.network.eval()
        self._open.close()

    def after(self, end: int, loss: float) -> None:
        """Score, report and save what is due after ``end`` steps; ``loss`` is the loss of the last one."""
        task, training, writer = self.task, self.training, self._writer
        training.loss, training.scores = loss, None
        training.step, training.seconds = end, time.perf_counter() - self._began
        if end in self.watched and task.peers.rank == 0:
            with inside("the scoring after step", end), keep_fault(task, end - 1, lambda: task.batches.batch(end - 1)):
                training.scores = score_network(task.network, task.problem, self._held_out) if self._held_out else {}
            record = {"step": end, "loss": loss, "seconds": training.seconds, **training.scores}
            training.history.append(record)
            if writer:
                writer.log(**record)
        for each in self.callbacks:
            call(each, "on_step", training)
        training.stopping = task.peers.largest(training.stopping)
        if writer and (training.stopping or time.perf_counter() - self._saved > SECONDS_BETWEEN_CHECKPOINTS):
            writer.checkpoint(task.network, task.optimizer, end)
            self._saved = time.perf_counter()

    @property
    def next_watched(self) -> int:
        """The next step of ``watched``."""
        return self.watched[bisect_right(self.watched, self.training.step)]

    @property
    def ended(self) -> bool:
        """Whether all steps are done, or somebody called ``stop``."""
        return bool(self.training.stopping) or self.training.step >= self.training.steps

    def finish(self) -> None:
        """Have the trained model kept by :meth:`close`, unless the training is to be continued."""
        if self._writer and self.training.stopping != 1:
            self._writer.checkpoint(self.task.network, self.task.optimizer, self.training.step, self.training.steps)
            self._unkept = True


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
    if asked is not None and not isinstance(asked, Iterable):
        raise QubolearnError(f"score_after={asked!r}; want a list of steps")
    chosen = range(steps_per_epoch, steps, steps_per_epoch) if asked is None else asked
    return [*sorted({step for step in chosen if 0 < step < steps}), steps]


def _check(network: object, epochs: int, batch_size: int, instances: int | None, seed: int) -> None:
    if not isinstance(network, nn.Module):
        raise QubolearnError(f"network is a {type(network).__name__}; want a torch.nn.Module such as QuboNetwork")
    for name, value in (("epochs", epochs), ("batch_size", batch_size), ("instances", instances)):
        if value is not None and (not isinstance(value, int) or value < 1):
            raise QubolearnError(f"{name}={value}; want a whole number of at least 1")
    if not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise QubolearnError(f"seed={seed}; want a whole number from 0 to 2**63 - 1")
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise QubolearnError(f"{type(network).__name__} has no parameter to train")


def _check_callbacks(callbacks: object) -> None:
    if not isinstance(callbacks, Sequence):
        raise QubolearnError(f"callbacks is a {type(callbacks).__name__}; want a list of them")
    for each in callbacks:
        if isinstance(each, type):
            raise QubolearnError(f"callback {each.__name__} is a class; want a value, such as {each.__name__}(...)")
        if not any(hasattr(each, moment) for moment in ("on_start", "on_gradient", "on_step", "on_end")):
            raise QubolearnError(f"callback {each!r} has no on_start, on_gradient, on_step or on_end")


def _update(network: nn.Module, optimizer: Any, schedule: Any, steps: int) -> Update:
    if isinstance(optimizer, torch.optim.Optimizer):
        return TorchOptimizer(network, optimizer, schedule)
    if optimizer is not None and not isinstance(optimizer, Adam):
        raise QubolearnError(f"optimizer={optimizer!r}; want qubolearn.Adam(...) or an optimizer of torch.optim")
    if schedule is not None:
        raise QubolearnError("schedule= is for optimizers of torch's; write Adam(1e-3, schedule=Cosine())")
    return FlatAdam(network, optimizer, steps)


def _changes(callback: Callback) -> bool:
    """Whether a callback looks at gradients: then every step must be taken by itself."""
    return getattr(type(callback), "on_gradient", Callback.on_gradient) is not Callback.on_gradient


def _held_out(validation: Any, problem: Problem | None, seed: int, device: torch.device | str) -> list[Instances]:
    """The validation instances, in pieces."""
    if validation is None or (isinstance(validation, int) and (validation < 1 or problem is None)):
        return []
    if isinstance(problem, Arrays) and isinstance(validation, int):
        return [problem.whole("validation").to(device)] if problem.size("validation") else []
    if isinstance(validation, int):
        assert problem is not None
        with inside("sample of", problem):
            return [problem.sample(validation, stream(seed, "validation", device=device), "validation")]
    return [piece.to(device) for piece in whole_of(validation)]
