"""Benchmarks of solvers and training loops against their peers, run with ``make benchmark NAME=...``.

Every benchmark yields records of plain numbers. Times are the best of several repeats after a warm-up call. Ratios
compare times of the same run, because machines differ and are noisy.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

Record = dict[str, Any]
Work = TypeVar("Work")
Done = TypeVar("Done")
RESULTS = Path(__file__).parent / "results"


def write(name: str, records: list[Record], **more: Any) -> None:
    """Write benchmarks/results/NAME.json with versions, machine, date and commit."""
    from qubolearn.provenance import code, provenance

    when = {"date": datetime.now(UTC).isoformat(timespec="seconds"), **more, **code()}
    result = {"benchmark": name, "records": records, **when, **provenance()}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=2, allow_nan=False) + "\n")


def random_qubos(batch: int, n: int, seed: int = 0) -> Tensor:
    """Return symmetric QUBOs ``[batch, n, n]`` with normal entries."""
    A = torch.randn(batch, n, n, generator=torch.Generator().manual_seed(seed + n))
    return (A + A.mT) / 2


def timed(work: Callable[[], Done], clock: Callable[[], float] = time.perf_counter) -> tuple[float, Done]:
    """Return the seconds of a call and its result."""
    began = clock()
    done = work()
    return clock() - began, done


def seconds_of(work: Callable[[], object], repeats: int = 5, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the best time of several calls after one that is not counted."""
    work()
    return min(timed(work, clock)[0] for _ in range(repeats))


def filled(call: Callable[[int], float], first: int, seconds: float) -> float:
    """Call with a growing effort until one call fills the seconds that are left; return the lowest energy."""
    effort, spent, best, began = first, 0.0, math.inf, time.process_time()
    while True:
        best = min(best, call(effort))
        taken = time.process_time() - began - spent
        spent += taken
        left = seconds - spent
        if left < 0.5 * taken:
            return best
        effort = max(1, int(effort * (left / taken if left < 20 * taken else 8)))


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Use this many threads inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def in_processes(work: Callable[[Work], Done], tasks: Sequence[Work], serial: bool = False) -> Iterator[Done]:
    """Yield the results of all tasks in order, from one single-threaded process per physical core.

    Args:
        work: a function of a module, or a partial of one.
        tasks: its arguments, one per call.
        serial: run everything in this process instead.
    """
    if serial:
        yield from map(work, tasks)
        return
    context = get_context("spawn")  # threads of torch do not survive a fork
    free, cores = context.Queue(), _cores()
    for core in cores:
        free.put({core})
    with ProcessPoolExecutor(len(cores), context, _bind, (free,)) as pool:
        yield from pool.map(work, tasks)


def _bind(free: Any) -> None:
    torch.set_num_threads(1)
    os.sched_setaffinity(0, free.get())


def _cores() -> list[int]:
    """Return one logical processor per physical core, among those that this process may use."""
    first: dict[object, int] = {}
    for cpu in sorted(os.sched_getaffinity(0)):
        path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        first.setdefault(path.read_text().strip() if path.is_file() else cpu, cpu)
    return list(first.values())
