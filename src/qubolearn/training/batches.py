"""Batches of any data, a pure function of (seed, step) if the data allows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate

from qubolearn.data.arrays import Arrays, iter_instances, pair_of
from qubolearn.data.contract import Instances, Problem, check_bits
from qubolearn.errors import QubolearnError, check_counts, error_context
from qubolearn.random import derive_seed, stream

#: Instances that an epoch draws from a Problem by default.
INSTANCES = 5640
#: Default batch sizes for few and for many instances, and where many begin.
SMALL, LARGE, MANY = 32, 128, 4096


@dataclass(frozen=True)
class Settings:
    """The validated settings of a run; all but ``epochs`` are in its digest."""

    epochs: int | None
    batch_size: int | None
    instances: int | None
    fresh: bool
    standardize: bool
    steps_per_epoch: int | None
    seed: int

    def __post_init__(self) -> None:
        given = {name: getattr(self, name) for name in ("epochs", "batch_size", "instances")}
        check_counts(**{name: value for name, value in given.items() if value is not None})
        if not isinstance(self.seed, int) or not 0 <= self.seed < 2**63:
            raise QubolearnError(f"seed={self.seed}; expected an integer from 0 to 2**63 - 1")


class Batches:
    """The instances of a run by batch; (seed, epoch) fixes their order."""

    def __init__(self, count: int, batch_size: int, seed: int, device: torch.device | str) -> None:
        if count < 1:
            raise QubolearnError("the data is empty; expected at least one instance")
        self.instances, self.batch_size, self.seed, self.device = count, min(batch_size, count), seed, device
        self.steps_per_epoch = count // self.batch_size  # the rest waits for another epoch
        self._order: tuple[int, Tensor] | None = None

    def batch(self, step: int) -> Instances:
        raise NotImplementedError

    def first(self) -> Instances:
        """Return instances to standardize inputs by."""
        return self.batch(0)

    def seed_of(self, step: int) -> int | None:
        """Return the seed of a step's instances, or None."""
        return derive_seed(self.seed, "order", step // self.steps_per_epoch)

    def order(self, epoch: int) -> Tensor:
        if self._order is None or self._order[0] != epoch:
            random = stream(self.seed, "order", epoch, device=self.device)
            self._order = (epoch, torch.randperm(self.instances, generator=random, device=self.device))
        return self._order[1]

    def rows(self, step: int) -> tuple[int, slice]:
        epoch, index = divmod(step, self.steps_per_epoch)
        return epoch, slice(index * self.batch_size, (index + 1) * self.batch_size)


class Drawn(Batches):
    """Batches of a problem; the instances of an epoch are drawn at once."""

    def __init__(self, problem: Problem, fresh: bool, *how: Any) -> None:
        super().__init__(*how)
        self.problem, self.fresh = problem, fresh
        self._kept: tuple[int, Instances] | None = None

    def first(self) -> Instances:
        return self.epoch(0)

    def epoch(self, number: int) -> Instances:
        draw = number if self.fresh else 0
        if self._kept is None or self._kept[0] != draw:
            with error_context("sample of", self.problem):
                random = stream(self.seed, "train", draw, device=self.device)
                found = self.problem.sample(self.instances, random)
            if (count := len(found.x_true)) != self.instances:
                raise QubolearnError(f"{self.problem} returned {count} instances; expected {self.instances}")
            check_bits(found.x_true, f"x_true of {self.problem}")
            self._kept = (draw, found)
        return self._kept[1]

    def batch(self, step: int) -> Instances:
        epoch, rows = self.rows(step)
        found, order = self.epoch(epoch), rows if self.fresh else self.order(epoch)[rows]
        plain = isinstance(found.p, Tensor) and isinstance(found.answer, Tensor) and found.right is None
        if isinstance(order, slice) or not plain:
            return found.rows(order)
        x = found.x_true.index_select(0, order)
        answer = x if found.answer is found.x_true else found.answer.index_select(0, order)
        return Instances(found.p.index_select(0, order), x, answer)

    def seed_of(self, step: int) -> int | None:
        return derive_seed(self.seed, "train", step // self.steps_per_epoch if self.fresh else 0)


class Indexed(Batches):
    """Batches of a Dataset with a length."""

    def __init__(self, dataset: Dataset[Any], *how: Any) -> None:
        super().__init__(*how)
        self._dataset, self._target, self.device = dataset, self.device, "cpu"

    def first(self) -> Instances:
        return self._take(range(self.instances))

    def batch(self, step: int) -> Instances:
        epoch, rows = self.rows(step)
        return self._take(self.order(epoch)[rows].tolist())

    def _take(self, rows: Any) -> Instances:
        with error_context("the Dataset", self._dataset):
            items = [self._dataset[row] for row in rows]
        return pair_of(default_collate(items)).to(self._target)


class Loaded(Batches):
    """Batches of a DataLoader, one pass after the other.

    A loader that shuffles without its own generator follows (seed, epoch).
    A resumed run skips the batches of its epoch that were trained on.
    """

    def __init__(
        self, loader: DataLoader[Any], steps: int | None, seed: int, device: torch.device | str
    ) -> None:
        if steps is None:
            try:
                steps = len(loader)
            except TypeError as error:
                raise QubolearnError("the DataLoader has no length; pass steps_per_epoch=") from error
        super().__init__(steps, 1, seed, device)  # an item is a batch
        self._loader = loader
        self._place = (-1, 0)  # the epoch, and its batches so far
        self._iterator: Iterator[Any] = iter(())
        self._last: Instances | None = None

    def batch(self, step: int) -> Instances:
        epoch, index = divmod(step, self.steps_per_epoch)
        if self._last is not None and self._place == (epoch, index + 1):  # a stream has each batch once
            return self._last
        if self._place[0] != epoch or self._place[1] > index:
            torch.manual_seed(derive_seed(self.seed, "order", epoch))  # fit restores the generator
            self._iterator, self._place = iter(self._loader), (epoch, 0)
        item: Any = None
        for number in range(self._place[1], index + 1):
            try:
                with error_context("the DataLoader of", self._loader.dataset):
                    item = next(self._iterator)
            except StopIteration:
                what = f"the DataLoader ended after {number} of {self.steps_per_epoch} batches"
                remedy = f"pass steps_per_epoch={number}, or repeat its data"
                raise QubolearnError(f"{what} of epoch {epoch}; {remedy}") from None
        self._place, self._last = (epoch, index + 1), pair_of(item).to(self.device)
        return self._last

    def seed_of(self, step: int) -> int | None:
        return None


def as_arrays(data: Any, validation: float = 0, seed: int = 0) -> Any:
    """Return ``(p, x)`` and Instances as Arrays, and other data unchanged."""
    if not isinstance(data, (tuple, list)) or (len(data) != 2 and not isinstance(data, Instances)):
        return data
    answer, right = data[2:] if isinstance(data, Instances) else (None, None)
    return Arrays(*data[:2], answer=answer, right=right, validation=validation, seed=seed)


def make_batches(data: Any, settings: Settings, device: torch.device | str) -> tuple[Problem | None, Batches]:
    """Return the problem that scores the data, if any, and its batches."""
    data, seed = as_arrays(data), settings.seed
    if isinstance(data, Problem):
        count = settings.instances or INSTANCES
        if isinstance(data, Arrays):
            count = min(settings.instances or data.size("train"), data.size("train"))
        size = settings.batch_size or _batch_size(count)
        return data, Drawn(data, settings.fresh, count, size, seed, device)
    if isinstance(data, IterableDataset):
        data = DataLoader(data, settings.batch_size or LARGE)
    if isinstance(data, DataLoader):
        return None, Loaded(data, settings.steps_per_epoch, seed, device)
    if isinstance(data, Dataset):
        count = len(data)  # type: ignore[arg-type]
        return None, Indexed(data, count, settings.batch_size or _batch_size(count), seed, device)
    kinds = "a Problem, arrays (p, x), a torch Dataset or a DataLoader of (p, x)"
    raise QubolearnError(f"data is a {type(data).__name__}; expected {kinds}")


def make_validation(
    validation: Any, problem: Problem | None, seed: int, device: torch.device | str
) -> list[Instances]:
    """Return the validation instances, in pieces."""
    if validation is None or (isinstance(validation, int) and (validation < 1 or problem is None)):
        return []
    if isinstance(problem, Arrays) and isinstance(validation, int):
        return [problem.whole("validation").to(device)] if problem.size("validation") else []
    if isinstance(validation, int):
        assert problem is not None
        with error_context("sample of", problem):
            return [problem.sample(validation, stream(seed, "validation", device=device), "validation")]
    return [piece.to(device) for piece in iter_instances(validation)]


def _batch_size(instances: int) -> int:
    return SMALL if instances < MANY else LARGE
