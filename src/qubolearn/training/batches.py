"""Data of any kind -> the batch of any step, a pure function of (seed, step) as far as the data allows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate

from qubolearn.errors import QubolearnError, inside
from qubolearn.problems.arrays import Arrays, pair_of
from qubolearn.problems.contract import Instances, Problem, check_bits
from qubolearn.randomness import derive_seed, stream

__all__ = ["Batches", "Drawn", "Indexed", "Loaded", "batches_of"]


class Batches(Protocol):
    """Where the instances of a training come from."""

    steps_per_epoch: int

    def batch(self, step: int) -> Instances:
        """The instances of a step, on the device of the training."""

    def first(self) -> Instances:
        """Instances that stand for the training set, from which inputs are standardised."""

    def seed_of(self, step: int) -> int | None:
        """The seed that a step's instances were drawn from, where there is one."""


class Drawn:
    """Batches of a problem: the instances of an epoch are drawn at once and kept."""

    def __init__(
        self, problem: Problem, instances: int, batch_size: int, fresh: bool, seed: int, device: torch.device | str
    ) -> None:
        self.problem, self.instances, self.batch_size = problem, instances, min(batch_size, instances)
        self.fresh, self.seed, self.device = fresh, seed, device
        self.steps_per_epoch = instances // self.batch_size  # whole batches; the rest waits for another epoch
        self._kept: tuple[int, Instances] | None = None
        self._order: tuple[int, Tensor] | None = None

    def first(self) -> Instances:
        return self.epoch(0)

    def epoch(self, number: int) -> Instances:
        """The instances of an epoch."""
        draw = number if self.fresh else 0
        if self._kept is None or self._kept[0] != draw:
            generator = stream(self.seed, "train", draw, device=self.device)
            with inside("sample of", self.problem):
                found = self.problem.sample(self.instances, generator, "train")
            if (count := len(found.x_true)) != self.instances:
                raise QubolearnError(f"{self.problem} gave {count} instances where {self.instances} were asked for")
            check_bits(found.x_true, f"x_true of {self.problem}")
            self._kept = (draw, found)
        return self._kept[1]

    def order(self, epoch: int) -> Tensor:
        """The order in which an epoch goes through instances that it shares with the others."""
        if self._order is None or self._order[0] != epoch:
            self._order = (epoch, _order(self.instances, self.seed, epoch, self.device))
        return self._order[1]

    def batch(self, step: int) -> Instances:
        return self.span(step, step + 1)

    def span(self, first: int, end: int) -> Instances:
        """The instances of the steps ``first`` to ``end - 1`` of one epoch, one after the other."""
        epoch, index = divmod(first, self.steps_per_epoch)
        rows = slice(index * self.batch_size, (index + end - first) * self.batch_size)
        return self.epoch(epoch).rows(rows if self.fresh else self.order(epoch)[rows])

    def seed_of(self, step: int) -> int | None:
        epoch = step // self.steps_per_epoch
        return derive_seed(self.seed, "train", epoch if self.fresh else 0)


class Indexed:
    """Batches of a Dataset with a length: items are taken in an order that (seed, epoch) decides."""

    def __init__(self, dataset: Dataset[Any], batch_size: int, seed: int, device: torch.device | str) -> None:
        self._dataset, self._seed, self._device = dataset, seed, device
        self._count: int = len(dataset)  # type: ignore[arg-type]
        if self._count < 1:
            raise QubolearnError("the Dataset is empty")
        self._batch_size = min(batch_size, self._count)
        self.steps_per_epoch = self._count // self._batch_size
        self._order: tuple[int, Tensor] | None = None

    def first(self) -> Instances:
        return self._take(range(self._count))

    def batch(self, step: int) -> Instances:
        epoch, index = divmod(step, self.steps_per_epoch)
        if self._order is None or self._order[0] != epoch:
            self._order = (epoch, _order(self._count, self._seed, epoch, "cpu"))
        return self._take(self._order[1][index * self._batch_size : (index + 1) * self._batch_size].tolist())

    def _take(self, rows: Any) -> Instances:
        with inside("the Dataset", self._dataset):
            items = [self._dataset[row] for row in rows]
        return pair_of(default_collate(items)).to(self._device)

    def seed_of(self, step: int) -> int | None:
        return derive_seed(self._seed, "order", step // self.steps_per_epoch)


class Loaded:
    """Batches of a DataLoader, one pass after the other.

    A loader that shuffles without a generator of its own does so by (seed, epoch) alone. A resumed training goes
    through the first batches of its epoch again, without training on them.
    """

    def __init__(
        self, loader: DataLoader[Any], steps_per_epoch: int | None, seed: int, device: torch.device | str
    ) -> None:
        self._loader, self._seed, self._device = loader, seed, device
        if steps_per_epoch is None:
            try:
                steps_per_epoch = len(loader)
            except TypeError as error:
                raise QubolearnError("the DataLoader has no length and may never end; say steps_per_epoch=") from error
        if steps_per_epoch < 1:
            raise QubolearnError(f"the DataLoader has {steps_per_epoch} batches an epoch; want at least 1")
        self.steps_per_epoch = steps_per_epoch
        self._place = (-1, 0)  # the epoch, and how many batches of it have been taken
        self._iterator: Iterator[Any] = iter(())
        self._last: Instances | None = None

    def first(self) -> Instances:
        return self.batch(0)

    def batch(self, step: int) -> Instances:
        epoch, index = divmod(step, self.steps_per_epoch)
        if self._last is not None and self._place == (epoch, index + 1):  # asked for again: a stream has it only once
            return self._last
        if self._place[0] != epoch or self._place[1] > index:
            torch.manual_seed(derive_seed(self._seed, "order", epoch))  # of a copy: fit keeps the caller's state
            self._iterator, self._place = iter(self._loader), (epoch, 0)
        item: Any = None
        for number in range(self._place[1], index + 1):
            try:
                with inside("the DataLoader of", self._loader.dataset):
                    item = next(self._iterator)
            except StopIteration:
                raise QubolearnError(
                    f"the DataLoader ended after {number} of {self.steps_per_epoch} batches of epoch {epoch}; "
                    f"pass steps_per_epoch={number}, or repeat its data"
                ) from None
        self._place, self._last = (epoch, index + 1), pair_of(item).to(self._device)
        return self._last

    def seed_of(self, step: int) -> int | None:
        return None


def batches_of(
    data: Any,
    *,
    batch_size: int,
    instances: int | None,
    fresh: bool,
    seed: int,
    device: torch.device | str,
    steps_per_epoch: int | None = None,
) -> tuple[Problem | None, Batches]:
    """The problem that scores the data, where there is one, and its batches."""
    if isinstance(data, (tuple, list)) and len(data) == 2 and not isinstance(data, Instances):
        data = Arrays(*data, validation=0)
    elif isinstance(data, Instances):
        data = Arrays(*data[:2], answer=data.answer, right=data.right, validation=0)
    if isinstance(data, Problem):
        if isinstance(data, Arrays):
            instances = min(instances or data.size("train"), data.size("train"))
        return data, Drawn(data, instances or 5640, batch_size, fresh, seed, device)
    if isinstance(data, DataLoader):
        return None, Loaded(data, steps_per_epoch, seed, device)
    if isinstance(data, IterableDataset):
        return None, Loaded(DataLoader(data, batch_size), steps_per_epoch, seed, device)
    if isinstance(data, Dataset):
        return None, Indexed(data, batch_size, seed, device)
    raise QubolearnError(
        f"data is a {type(data).__name__}; want a Problem, arrays (p, x), a torch Dataset or a DataLoader of (p, x)"
    )


def _order(count: int, seed: int, epoch: int, device: torch.device | str) -> Tensor:
    return torch.randperm(count, generator=stream(seed, "order", epoch, device=device), device=device)
