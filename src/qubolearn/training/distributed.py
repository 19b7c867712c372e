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
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from typing import Any, Literal, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.problems.contract import Instances

__all__ = ["ALONE", "PeerError", "Peers", "add_up", "process_group"]

T = TypeVar("T")

#: Seconds between two looks for a failure of another process, and for which a failing one waits to be heard.
LOOK, HEARING = 0.2, 5.0


class PeerError(QubolearnError):
    """Another process of this training failed; the text is that of its error."""


class _Failures:
    """Where the processes of one training say that they failed, so that the others need not wait for them.

    It is kept in the store in which torch's processes find each other. Each training writes under a number of its own,
    which is the same in all processes as they begin their trainings in the same order.
    """

    _numbers = count()

    def __init__(self) -> None:
        self._store: Any = dist.distributed_c10d._get_default_store()
        self._name = f"qubolearn/failure/{next(self._numbers)}"

    def tell(self, error: Exception, size: int) -> None:
        """Say what failed here, and wait a while until all others have read it: this process may hold the store."""
        text = str(error) if isinstance(error, QubolearnError) else f"{type(error).__name__}: {error}"
        with suppress(RuntimeError):
            self._store.set(self._name, text)
            until = time.monotonic() + HEARING
            while self._store.add(self._name + "/heard", 0) < size - 1 and time.monotonic() < until:
                time.sleep(LOOK / 10)

    def heard(self) -> str | None:
        """What another process said, if one has failed."""
        with suppress(RuntimeError):
            if self._store.check([self._name]):
                self._store.add(self._name + "/heard", 1)
                return str(self._store.get(self._name).decode())
        return None


_failures: list[_Failures] = []  # of the training that is going on


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
        """``values`` added up over all processes, or their maximum, in place.

        Where another process fails instead of coming here, its error is raised here, too.
        """
        if self.size > 1:
            try:
                work = dist.all_reduce(values, getattr(dist.ReduceOp, operation), async_op=True)
                while not _done(work):
                    if _failures and (message := _failures[-1].heard()) is not None:
                        raise PeerError(message)
            except RuntimeError as error:
                if _failures and (message := _failures[-1].heard()) is not None:
                    raise PeerError(message) from error
                raise QubolearnError(
                    "another process of this training has ended; run the same command again to go on from the last "
                    f"checkpoint ({' '.join(str(error).split())[:80]})"
                ) from error
        return values

    @contextmanager
    def together(self) -> Iterator[None]:
        """A part of the work that all processes do: where one of them fails, all end with the same error."""
        if self.size == 1:
            yield
            return
        _failures.append(_Failures())
        try:
            yield
            self.largest(0)  # none is done before all are
        except PeerError:
            raise
        except Exception as error:
            _failures[-1].tell(error, self.size)
            raise
        finally:
            _failures.pop()

    def largest(self, value: int) -> int:
        """The largest value that any process has."""
        return value if self.size == 1 else int(self.reduce(torch.tensor(value), "MAX").item())

    def first(self, make: Callable[[], T]) -> T:
        """What ``make`` returns here, called in the first process before it is called in the others."""
        with self.together():
            if self.rank > 0:
                self.largest(0)
            made = make()
            if self.rank == 0:
                self.largest(0)
        return made


def _done(work: Any) -> bool:
    """Whether a collective ends within a moment."""
    try:
        work.wait(timedelta(seconds=LOOK))
    except RuntimeError:
        if work.is_completed():  # it failed; otherwise it goes on
            raise
        return False
    return True


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
