"""One training run on several processes: each takes its share of every batch, and all take the same step.

``torchrun --nproc-per-node 2 -m qubolearn train ...`` starts them. Every process draws the same batch from (seed, step)
and keeps rows rank, rank + size, ... of it; gradients are added up, so that a step is that of one process on the whole
batch up to rounding. One process writes the run.

DistributedDataParallel changes the layout of gradients after its first backward pass. From three processes on the
layout decides the order of additions, so a resumed run would end in other bits. Here all gradients travel as one vector
in the order of the parameters.
"""

from __future__ import annotations

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

from qubolearn.data.contract import Instances
from qubolearn.errors import QubolearnError

__all__ = ["ALONE", "PeerError", "Peers", "process_group"]

T = TypeVar("T")

#: Seconds between two checks for a failure of another process, and for which a failing one waits to be read.
POLL, PATIENCE = 0.2, 5.0


class PeerError(QubolearnError):
    """Another process of this run failed; the text is that of its error."""


class _Failures:
    """Errors that processes of one run report to the others, in the store through which torch connects them.

    Each run writes under its own number, which all processes share because they begin their runs in the same order.
    """

    _numbers = count()

    def __init__(self) -> None:
        self._store: Any = dist.distributed_c10d._get_default_store()
        self._name = f"qubolearn/failure/{next(self._numbers)}"

    def report_failure(self, error: Exception, size: int) -> None:
        """Report an error, and wait a while until all others have read it: this process may hold the store."""
        text = str(error) if isinstance(error, QubolearnError) else f"{type(error).__name__}: {error}"
        with suppress(RuntimeError):
            self._store.set(self._name, text)
            until = time.monotonic() + PATIENCE
            while self._store.add(self._name + "/read", 0) < size - 1 and time.monotonic() < until:
                time.sleep(POLL / 10)

    def raise_peer_error(self, cause: Exception | None = None) -> None:
        """Raise the error that another process has reported, if there is one."""
        text = None
        with suppress(RuntimeError):
            if self._store.check([self._name]):
                self._store.add(self._name + "/read", 1)
                text = self._store.get(self._name).decode()
        if text is not None:
            raise PeerError(text) from cause


_failures: list[_Failures] = []  # of the runs that are under way


@dataclass(frozen=True)
class Peers:
    """The processes of one run, and which of them this is."""

    rank: int = 0
    size: int = 1

    def share(self, batch: Instances) -> Instances:
        """Return this process's rows of a batch."""
        if self.size == 1:
            return batch
        if len(batch.x_true) < self.size:
            raise QubolearnError(
                f"a batch of {len(batch.x_true)} for {self.size} processes; expected one instance each"
            )
        return batch.rows(slice(self.rank, None, self.size))

    def reduce(self, values: Tensor, operation: Literal["SUM", "MAX"] = "SUM") -> Tensor:
        """Return the sum or the maximum of ``values`` over all processes, in place.

        If another process fails, its error is raised here, too.
        """
        if self.size == 1:
            return values
        try:
            work = dist.all_reduce(values, getattr(dist.ReduceOp, operation), async_op=True)
            while not _done(work):
                if _failures:
                    _failures[-1].raise_peer_error()
        except RuntimeError as error:
            if _failures:
                _failures[-1].raise_peer_error(error)
            raise QubolearnError(
                "another process of this run has ended; run the same command again to resume from the last checkpoint "
                f"({' '.join(str(error).split())[:80]})"
            ) from error
        return values

    @contextmanager
    def together(self) -> Iterator[None]:
        """Run a block in all processes; if one of them fails, all raise the same error."""
        if self.size == 1:
            yield
            return
        _failures.append(_Failures())
        try:
            yield
            self.largest(0)  # wait until all are done
        except PeerError:
            raise
        except Exception as error:
            _failures[-1].report_failure(error, self.size)
            raise
        finally:
            _failures.pop()

    def largest(self, value: int) -> int:
        """Return the largest value that any process has."""
        return value if self.size == 1 else int(self.reduce(torch.tensor(value), "MAX").item())

    def first(self, make: Callable[[], T]) -> T:
        """Call ``make`` in the first process, then in the others."""
        with self.together():
            if self.rank > 0:
                self.largest(0)
            made = make()
            if self.rank == 0:
                self.largest(0)
        return made


def _done(work: Any) -> bool:
    """Return True if a collective ends within a moment."""
    try:
        work.wait(timedelta(seconds=POLL))
    except RuntimeError:
        if work.is_completed():  # it failed; otherwise it continues
            raise
        return False
    return True


ALONE = Peers()


@contextmanager
def process_group() -> Iterator[Peers]:
    """Yield the processes that torchrun started, or this one alone."""
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
