"""Steps on a GPU as one CUDA graph each: batch, network, solver, loss, gradient and Adam.

Python launches the small kernels of a step more slowly than a GPU runs them. A
graph needs nothing from the host: it counts its steps to find batch and rate.
The loss is read about twice per second; after NaN, the steps are repeated one
by one to find the one that failed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from threading import Lock
from typing import Any

import numpy as np
import torch
from torch import Tensor

from qubolearn.data.arrays import map_tensors, tensors_of
from qubolearn.data.contract import Instances, SoftTargets
from qubolearn.errors import NonFiniteError
from qubolearn.losses.contract import Batch, OwnLoss
from qubolearn.solvers import ExhaustiveSearch
from qubolearn.training.batches import Drawn
from qubolearn.training.optimizers import FlatAdam
from qubolearn.training.steps import Steps, Task, forward_with_features

WARM_UP = 3  # so that libraries are set up
#: The longest span of steps, in seconds and steps; it cannot be interrupted.
SECONDS, MAX_STEPS = 0.5, 100
MAX_BYTES = 2**31  # of an epoch's soft targets that are kept on the GPU
TOLERANCE = 1e-2  # of a graph's loss against the reference step
_capturing = Lock()  # torch captures on one stream


def can_capture(task: Task) -> bool:
    """Return True if steps can run as a CUDA graph: on a GPU, with our Adam, without the host."""
    return next(task.network.parameters()).is_cuda and needs_no_host(task) and _targets_fit(task)


def needs_no_host(task: Task) -> bool:
    """Return True if steps can run on a GPU alone.

    A solver that draws random numbers would repeat them in every replay.
    User-defined parts are compared with the reference step (``_agrees``).
    """
    ours = isinstance(task.optimizer, FlatAdam) and isinstance(task.batches, Drawn)
    exact = isinstance(task.solver, ExhaustiveSearch) and not task.constrained
    solves_there = task.loss.capturable and (not task.loss.solves or exact)
    return ours and solves_there and not task.on_gradient


def _targets_fit(task: Task) -> bool:
    if not task.loss.soft or task.problem is None:
        return True
    assert isinstance(task.batches, Drawn)
    of_one = task.problem.soft_targets(task.batches.epoch(0).rows(slice(0, 1))) or ()
    return task.batches.instances * sum(tensor.nbytes for tensor in of_one) <= MAX_BYTES


class CapturedSteps(Steps):
    """Take the same steps as a CUDA graph, up to rounding."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        data, optimizer = task.batches, task.optimizer
        assert isinstance(data, Drawn)
        assert isinstance(optimizer, FlatAdam)
        self._data, self._optimizer = data, optimizer
        self._parameters = [parameter for parameter in task.network.parameters() if parameter.requires_grad]
        # such as those of a batch norm
        moving = [buffer for buffer in task.network.buffers() if buffer.is_floating_point()]
        self._moving = [optimizer.values, optimizer.first, optimizer.second, *moving]
        # a graph reads fixed places in memory
        self._pool: Instances = map_tensors(torch.clone, data.epoch(0)) if data.fresh else data.epoch(0)
        self._targets = tuple(tensor.clone() for tensor in self._soft_targets())
        device = self._pool.x_true.device
        self._order = torch.arange(data.instances, device=device)
        self._rows = torch.arange(data.batch_size, device=device)
        self._step = torch.zeros((), dtype=torch.int64, device=device)
        table = [optimizer.rates(step + 1) for step in range(optimizer.steps + WARM_UP)]
        self._rates = torch.from_numpy(np.array(table, np.float32)).to(device)
        self._loss = torch.zeros((), device=device)
        self._epoch = -1
        before = self._state()
        foreign = task.random or any(isinstance(part, OwnLoss) for _, part in task.loss.parts)
        self._replay: Callable[[], None] | None = None
        try:
            self._replay = captured(self._take_captured)
            if foreign and not self._agrees(before):
                self._replay = None
        except NonFiniteError:  # the reference steps locate it
            self._replay = None
        except Exception:  # a user-defined part needs the host
            if not foreign:
                raise
        self._restore(before)

    def _agrees(self, before: list[Tensor]) -> bool:
        """Return True if a replay gives the loss of the same reference step."""
        assert self._replay is not None
        self._restore(before)
        self._load(0)
        self._step.fill_(0)
        self._replay()
        loss, health = self._look()
        self._restore(before)
        again = super().advance(0, 1)
        return math.isfinite(health) and abs(loss - again) <= TOLERANCE * max(1.0, abs(again))

    def advance(self, first: int, end: int) -> float:
        if self._replay is None:
            return super().advance(first, end)
        before, began = self._state(), time.perf_counter()
        self._step.fill_(first)
        try:
            for step in range(first, end):
                self._load(step // self._data.steps_per_epoch)
                self._replay()
            loss, health = self._look()
        except KeyboardInterrupt:  # the weights are between steps
            self._restore(before)
            raise
        per_second = (end - first) / (time.perf_counter() - began)
        self.max_unsynced_steps = max(1, min(MAX_STEPS, int(SECONDS * per_second)))
        if math.isfinite(loss) and math.isfinite(health):
            return loss
        self._restore(before)
        return super().advance(first, end)

    def _load(self, epoch: int) -> None:
        """Copy the instances or the order of an epoch to the graph's tensors."""
        if epoch == self._epoch:
            return
        self._epoch = epoch
        if self._data.fresh:
            new = tensors_of(self._data.epoch(epoch))
            for place, tensor in zip(tensors_of(self._pool), new, strict=True):
                place.copy_(tensor)
            for place, tensor in zip(self._targets, self._soft_targets(), strict=True):
                place.copy_(tensor)
        else:
            self._order.copy_(self._data.order(epoch))

    def _soft_targets(self) -> tuple[Tensor, ...]:
        """Return states and weights of all instances of the epoch."""
        wanted = self.task.loss.soft and self.task.problem is not None
        return (self.task.problem.soft_targets(self._pool) if wanted else None) or ()  # type: ignore[union-attr]

    def _take_captured(self) -> None:
        task, optimizer = self.task, self._optimizer
        start = self._step % self._data.steps_per_epoch * self._data.batch_size
        rows = self._order.index_select(0, self._rows + start)
        instances = self._pool.rows(rows)
        targets = [tensor.index_select(0, rows) for tensor in self._targets]
        soft = SoftTargets(*targets) if targets else None
        A, features = forward_with_features(task.network, instances)
        loss = task.loss(A, Batch(instances, task.solver, soft, features)).mean()
        slopes = torch.autograd.grad(loss, self._parameters, allow_unused=True, materialize_grads=True)
        torch.cat([slope.flatten() for slope in slopes], out=optimizer.gradient)
        optimizer.move(*self._rates.index_select(0, self._step[None])[0])
        self._loss.copy_(loss.detach())
        self._step.add_(1)

    def _look(self) -> list[float]:
        """Return the loss, and a number that is finite only if all values are."""
        health = self._optimizer.values.sum() + self._optimizer.second.sum()
        return numbers_of(torch.stack([self._loss, health]))

    def _state(self) -> list[Tensor]:
        return [tensor.clone() for tensor in self._moving]

    def _restore(self, state: list[Tensor]) -> None:
        for place, tensor in zip(self._moving, state, strict=True):
            place.copy_(tensor)


def numbers_of(seen: Tensor) -> list[Any]:
    """Return a tensor as a list, without a busy core while the GPU works."""
    if seen.is_cuda:
        ended = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
        ended.record()
        ended.synchronize()
    return seen.tolist()


def captured(work: Callable[[], None]) -> Callable[[], None]:
    """Run the work a few times, then return it as a CUDA graph."""
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UP):
            work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    # other threads may allocate meanwhile
    with _capturing, torch.cuda.graph(graph, capture_error_mode="thread_local"):
        work()
    return graph.replay
