"""Work of a benchmark in processes of one thread each, and how many records it will give."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch

__all__ = ["Planned", "in_processes"]

Work = TypeVar("Work")
Done = TypeVar("Done")
Record = dict[str, Any]


class Planned(NamedTuple):
    """The records of a benchmark whose number is known, for a progress bar."""

    total: int
    records: Iterator[Record]


def in_processes(
    work: Callable[[Work], Done], tasks: Sequence[Work], processes: int | None = None, bound: bool = False
) -> Iterator[Done]:
    """The results of all tasks in their order; by default one process for each core, one thread in each.

    With one process everything runs in this one. ``work`` must be a function of a module, or a partial of one. Where
    ``bound`` is set, each process has a core of its own, and there are as many as cores.
    """
    cores = _cores() if bound else []
    count = len(cores) or processes or os.cpu_count() or 1
    if processes == 1:
        yield from map(work, tasks)
        return
    context = get_context("spawn")  # threads of torch and numba do not survive a fork
    free = context.Queue()
    for core in cores:
        free.put({core})
    with ProcessPoolExecutor(count, context, _begin, (free if bound else None,)) as pool:
        yield from pool.map(work, tasks)


def _begin(free: Any) -> None:
    torch.set_num_threads(1)  # kernels take as many
    if free is not None:
        os.sched_setaffinity(0, free.get())


def _cores() -> list[int]:
    """One of those processors that share a core, of those that this process may use."""
    first: dict[object, int] = {}
    for cpu in sorted(os.sched_getaffinity(0)):
        path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        first.setdefault(path.read_text().strip() if path.is_file() else cpu, cpu)
    return list(first.values())
