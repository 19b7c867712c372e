"""Ours and the peers side by side: the same QUBOs, one run, one machine; records of plain numbers.

Times are the best of several repeats, per QUBO, after a call that pays for compilation. Ratios compare times of one
run, since machines differ and are noisy.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor

from qubolearn.randomness import stream

__all__ = ["Record", "columns", "random_qubos", "seconds_of", "threads", "timed"]

Record = dict[str, Any]
Done = TypeVar("Done")


def random_qubos(batch: int, n: int, seed: int = 0) -> Tensor:
    """Dense QUBOs ``[batch, n, n]`` with standard normal entries, symmetric."""
    A = torch.randn(batch, n, n, generator=stream(seed, "benchmark", n))
    return (A + A.mT) / 2


def timed(work: Callable[[], Done], clock: Callable[[], float] = time.perf_counter) -> tuple[float, Done]:
    """The seconds of a call, and its result."""
    began = clock()
    done = work()
    return clock() - began, done


def seconds_of(work: Callable[[], object], repeats: int = 5, clock: Callable[[], float] = time.perf_counter) -> float:
    """The best time of several calls, after one that is not counted."""
    work()
    return min(timed(work, clock)[0] for _ in range(repeats))


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Run on so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def columns(records: Sequence[Record]) -> list[str]:
    """All keys whose values fit into a table's cell, in the order in which they first appear."""
    return list(
        dict.fromkeys(key for record in records for key, value in record.items() if not isinstance(value, dict))
    )
