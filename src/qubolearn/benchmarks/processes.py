"""Work of a benchmark on all cores, one process each, and how many records it will give."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, NamedTuple, TypeVar

import torch

__all__ = ["Planned", "in_processes"]

Work = TypeVar("Work")
Done = TypeVar("Done")


class Planned(NamedTuple):
    """The records of a benchmark whose number is known, for a progress bar."""

    total: int
    records: Iterator[dict[str, Any]]


def in_processes(work: Callable[[Work], Done], tasks: Sequence[Work], processes: int | None = None) -> Iterator[Done]:
    """The results of all tasks in their order; by default one process for each core, one thread in each.

    With one process everything runs in this one. ``work`` must be a function of a module.
    """
    count = processes or os.cpu_count() or 1
    if count == 1:
        yield from map(work, tasks)
        return
    with ProcessPoolExecutor(count, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        yield from pool.map(work, tasks)
