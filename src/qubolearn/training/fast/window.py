"""Batches and learning rates of the next steps of many trainings, laid out where a CUDA graph finds them.

A graph reads fixed places in memory. So the steps ahead lie side by side in a *window*, and a number on the device says
which of them comes next; the graph raises it itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from qubolearn.problems.contract import Instances, SoftTargets
from qubolearn.problems.structures import map_tensors, tensors_of
from qubolearn.training.batches import Drawn
from qubolearn.training.fast.adam import FlatAdam
from qubolearn.training.fast.captured import WARM_UP
from qubolearn.training.steps import Task

__all__ = ["Window", "blank"]

#: A window has at most so many steps and bytes.
MOST, MOST_BYTES = 500, 2**31


class Window:
    """The steps ahead of some trainings, which all have one shape. It holds up to ``room`` steps and starts blank."""

    def __init__(self, tasks: Sequence[Task], device: torch.device) -> None:
        self._tasks, self._retired = tasks, [False] * len(tasks)
        one = self._taken(0, 0, 1)
        self.batch_size = len(one[0].x_true)
        bytes_of_step = max(1, len(tasks) * sum(tensor.nbytes for tensor in tensors_of(one)))
        self.room = max(WARM_UP + 1, min(MOST, MOST_BYTES // bytes_of_step))
        self._all: tuple[Instances, SoftTargets | None] = map_tensors(self._empty, one)  # [runs, room * batch, ...]
        self._rates = _standing(self.room, len(tasks)).to(device)
        self._rows = torch.arange(self.batch_size, device=device)
        self._next = torch.zeros((), dtype=torch.int64, device=device)

    def fill(self, first: Sequence[int], count: int) -> None:
        """Lay out ``count`` steps of each run from its step ``first`` on; the first of them comes next."""
        known: dict[Any, list[tuple[float, float]]] = {}
        table = _standing(count, len(self._tasks))
        for run, task in enumerate(self._tasks):
            if self._retired[run]:
                continue
            start, end, steps_per_epoch = first[run], first[run] + count, task.batches.steps_per_epoch
            while start < end:
                stop = min(end, (start // steps_per_epoch + 1) * steps_per_epoch)
                places = slice((start - first[run]) * self.batch_size, (stop - first[run]) * self.batch_size)
                for place, tensor in zip(tensors_of(self._all), tensors_of(self._taken(run, start, stop)), strict=True):
                    place[run, places].copy_(tensor)
                start = stop
            optimizer = task.optimizer
            assert isinstance(optimizer, FlatAdam)
            key = (id(optimizer.choice.schedule), optimizer.choice.learning_rate, optimizer.steps, first[run])
            if key not in known:
                known[key] = [optimizer.rates_of(step + 1) for step in range(first[run], end)]
            table[:, :, run, 0] = torch.tensor(known[key])
        self._rates[:count].copy_(table)
        self._next.zero_()

    def batch(self) -> tuple[Instances, SoftTargets | None]:
        """Instances and soft targets of the next step, ``[runs, batch, ...]``."""
        rows = self._rows + self._next * self.batch_size
        found: tuple[Instances, SoftTargets | None] = map_tensors(
            lambda tensor: tensor.index_select(1, rows), self._all
        )
        return found

    def rates(self) -> Tensor:
        """Sizes of the next step and epsilons, ``[2, runs, 1]``."""
        return self._rates.index_select(0, self._next[None])[0]

    def move_on(self) -> None:
        """Go on to the step after the next one."""
        self._next.add_(1)

    def retire(self, run: int) -> None:
        """Leave a run blank from now on."""
        self._retired[run] = True
        for tensor in tensors_of(self._all):
            blank(tensor[run])

    def _taken(self, run: int, first: int, end: int) -> tuple[Instances, SoftTargets | None]:
        """Instances and soft targets of steps of one epoch."""
        task, data = self._tasks[run], self._tasks[run].batches
        assert isinstance(data, Drawn)
        instances = data.span(first, end)
        return instances, task.problem.soft_targets(instances) if task.loss.soft and task.problem else None

    def _empty(self, tensor: Tensor) -> Tensor:
        return blank(tensor.new_empty(len(self._tasks), self.room * self.batch_size, *tensor.shape[1:]))


def _standing(steps: int, runs: int) -> Tensor:
    """Sizes of steps and epsilons ``[steps, 2, runs, 1]`` with which nothing moves, nor becomes 0 / 0."""
    return torch.tensor([0.0, 1.0])[None, :, None, None].repeat(steps, 1, runs, 1)


def blank(tensor: Tensor) -> Tensor:
    """Fill with what no step fails on: zeros, and True for the right answers that count."""
    return tensor.fill_(tensor.dtype == torch.bool)
