"""Benchmarks against peers, run with ``make benchmark NAME=...``.

They yield records of plain numbers. Times are the best of several repeats after a
warm-up call. Ratios compare times of the same run, because machines are noisy.
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
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from qubolearn.provenance import code, provenance

Record = dict[str, Any]
Task = TypeVar("Task", bound=tuple[Any, ...])
Done = TypeVar("Done")
RESULTS = Path(__file__).parent / "results"


def write(name: str, records: list[Record]) -> None:
    """Write benchmarks/results/NAME.json with provenance."""
    date = datetime.now(UTC).isoformat(timespec="seconds")
    result = {"benchmark": name, "records": records, "date": date, **code(), **provenance()}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=2, allow_nan=False) + "\n")


def random_qubos(batch: int, n: int, seed: int = 0) -> Tensor:
    A = torch.randn(batch, n, n, generator=torch.Generator().manual_seed(seed + n))
    return (A + A.mT) / 2


def timed(work: Callable[[], Done], clock: Callable[[], float] = time.perf_counter) -> tuple[float, Done]:
    began = clock()
    done = work()
    return clock() - began, done


def seconds_of(work: Callable[[], object], repeats: int = 5, clock: Any = time.perf_counter) -> float:
    """Return the best time of several calls after a warm-up."""
    work()
    return min(timed(work, clock)[0] for _ in range(repeats))


def filled(call: Callable[[int], float], first: int, seconds: float) -> float:
    """Call with growing effort until the time is spent; return the lowest energy."""
    effort, left, best = first, seconds, math.inf
    while True:
        taken, energy = timed(partial(call, effort), time.process_time)
        best, left = min(best, energy), left - taken
        if left < 0.5 * taken:
            return best
        effort = max(1, int(effort * (left / taken if left < 20 * taken else 8)))


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def in_processes(work: Callable[..., Done], tasks: Sequence[Task], serial: bool) -> dict[Task, Done]:
    """Return ``work(*task)`` of all tasks, from one process per core or from this one."""
    if serial:
        return {task: work(*task) for task in tasks}
    context = get_context("spawn")  # torch threads do not survive a fork
    shared = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    cores = {Path(shared.format(cpu)).read_text() for cpu in os.sched_getaffinity(0)}
    with ProcessPoolExecutor(len(cores), context, torch.set_num_threads, (1,)) as pool:
        return dict(zip(tasks, pool.map(work, *zip(*tasks, strict=True)), strict=True))
