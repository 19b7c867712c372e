"""One training on several processes: each takes its share of every batch, and all take the same step.

``torchrun --nproc-per-node 2 -m qubolearn train ...`` starts them. Every process draws the same batch from (seed, step)
and keeps rows rank, rank + size, ... of it; gradients are added up, so that a step is that of one process on the whole
batch up to rounding. One process writes the run.

DistributedDataParallel adds up the same numbers, but lays them out anew after its first backward pass. From three
processes on the layout decides the order of additions, so a run that was stopped and resumed would end in other bits.
Here all gradients travel as one vector in the order of the parameters.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.problems.contract import Instances

__all__ = ["ALONE", "Peers", "add_up", "process_group"]

T = TypeVar("T")


@dataclass(frozen=True)
class Peers:
    """The processes of one training, and which of them this is."""

    rank: int = 0
    size: int = 1

    def share(self, batch: Instances) -> Instances:
        """This process's rows of a batch."""
        if self.size == 1:
            return batch
        if len(batch.x_true) < self.size:
            raise QubolearnError(f"a batch of {len(batch.x_true)} for {self.size} processes; want one instance each")
        return batch.rows(slice(self.rank, None, self.size))

    def reduce(self, values: Tensor, operation: Literal["SUM", "MAX"] = "SUM") -> Tensor:
        """``values`` added up over all processes, or their maximum, in place."""
        if self.size > 1:
            try:
                dist.all_reduce(values, getattr(dist.ReduceOp, operation))
            except RuntimeError as error:
                raise QubolearnError(
                    "another process of this training has ended; run the same command again to go on from the last "
                    f"checkpoint ({' '.join(str(error).split())[:80]})"
                ) from error
        return values

    def largest(self, value: int) -> int:
        """The largest value that any process has."""
        return value if self.size == 1 else int(self.reduce(torch.tensor(value), "MAX").item())

    def first(self, make: Callable[[], T]) -> T:
        """What ``make`` returns here, called in the first process before it is called in the others."""
        if self.rank > 0:
            self.largest(0)
        made = make()
        if self.rank == 0:
            self.largest(0)
        return made


ALONE = Peers()


def add_up(vector: Tensor, loss: Tensor | float, peers: Peers) -> tuple[float, float]:
    """Add up loss and gradients (:attr:`Adam.gradient`) over all processes; the loss and the gradient's norm."""
    if peers.size > 1:
        vector[0] = loss
        loss = peers.reduce(vector)[0]
    return float(loss), math.sqrt(vector[1:].dot(vector[1:]))


@contextmanager
def process_group() -> Iterator[Peers]:
    """The processes that torchrun started, or this one alone."""
    if not dist.is_torchelastic_launched() or int(os.environ["WORLD_SIZE"]) == 1:
        yield ALONE
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    dist.init_process_group("gloo")
    try:
        yield Peers(dist.get_rank(), dist.get_world_size())
    finally:
        dist.destroy_process_group()
