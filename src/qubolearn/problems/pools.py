"""Problems whose instances are the rows of a dataset: what they draw, and how many there are."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Generator, Tensor

from qubolearn.errors import QubolearnError
from qubolearn.problems.contract import Instances, Problem, Split

__all__ = ["PoolProblem", "draw_rows"]


class PoolProblem(Problem):
    """A problem with a fixed number of instances in each split; a subclass says which rows these are."""

    @abstractmethod
    def _rows(self, split: Split) -> Tensor:
        """The rows of a split ``[instances]``."""

    @abstractmethod
    def _instances(self, rows: Tensor, device: torch.device) -> Instances:
        """The instances of these rows."""

    def available(self, split: Split) -> int:
        return len(self._rows(split))

    def whole(self, split: Split) -> Instances:
        """All instances of a split."""
        return self._instances(self._rows(split), torch.device("cpu"))

    def sample(self, count: int, generator: Generator, split: Split = "train") -> Instances:
        return self._instances(draw_rows(self._rows(split), count, generator), generator.device)


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
