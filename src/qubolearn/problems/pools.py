"""Problems whose instances are the rows of a dataset: its splits, and how rows are drawn from them."""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from qubolearn.errors import QubolearnError
from qubolearn.problems.contract import Instances, Problem, Split
from qubolearn.problems.data import cached_data
from qubolearn.randomness import stream

__all__ = ["Pool", "PoolProblem", "draw_rows"]


class Pool(NamedTuple):
    """A dataset with a given split: rows of p, rows of answers, and how many of the first ones are for training."""

    p: Tensor  # [rows, ...]
    answer: Tensor  # [rows, ...]
    trained: int


class PoolProblem(Problem):
    """A problem with a fixed number of instances in each split.

    Rows that also stand in the test set are taken out of the training set; ``held_out`` of the others, always the same,
    are for validation. A subclass is a frozen dataclass with a field ``held_out``. Where it also has a ``split_seed``,
    0 is the given split, and any other number draws one of the same sizes.
    """

    held_out: int

    @abstractmethod
    def _pool(self) -> Pool:
        """The dataset."""

    @abstractmethod
    def _instances(self, rows: Tensor, device: torch.device) -> Instances:
        """The instances of these rows."""

    def _rows(self, split: Split) -> Tensor:
        """The rows of a split ``[instances]``."""
        train, test = _divided(self)
        if split == "test":
            return test
        if self.held_out >= len(train):
            raise QubolearnError(f"held_out={self.held_out} leaves none of {len(train)} training rows to train on")
        return train[: self.held_out] if split == "validation" else train[self.held_out :]

    def available(self, split: Split) -> int:
        return len(self._rows(split))

    def whole(self, split: Split) -> Instances:
        """All instances of a split."""
        return self._instances(self._rows(split), torch.device("cpu"))

    def sample(self, count: int, generator: Generator, split: Split = "train") -> Instances:
        return self._instances(draw_rows(self._rows(split), count, generator), generator.device)


@cached_data(8)
def _divided(problem: PoolProblem) -> tuple[Tensor, Tensor]:
    """The rows of the training set in random order, without those that the test set has too, and of the test set."""
    pool, seed = problem._pool(), getattr(problem, "split_seed", 0)
    order = torch.arange(len(pool.p))
    if seed:
        order = torch.randperm(len(pool.p), generator=stream(seed, problem.name))
    train, test = order[: pool.trained], order[pool.trained :]
    known = {row.tobytes() for row in pool.p[test].numpy()}
    train = train[torch.tensor([row.tobytes() not in known for row in pool.p[train].numpy()], dtype=torch.bool)]
    return train[torch.randperm(len(train), generator=stream(seed, "held out"))], test


def draw_rows(rows: Tensor, count: int, generator: Generator) -> Tensor:
    """``count`` of the rows in random order; where more are asked for than there are, all come equally often.

    >>> sorted(draw_rows(torch.tensor([4, 5]), 4, Generator().manual_seed(0)).tolist())
    [4, 4, 5, 5]
    """
    if not len(rows):
        raise QubolearnError("the split is empty; hold out at least one instance (held_out)")
    device = generator.device
    rounds = range(-(-count // len(rows)))
    order = [torch.randperm(len(rows), generator=generator, device=device) for _ in rounds]
    return rows[torch.cat([torch.zeros(0, dtype=torch.int64, device=device), *order])[:count].cpu()]
