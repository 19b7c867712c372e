"""Run compiled kernels over a range of tasks on torch's number of threads, or :func:`kernel_threads`'s.

Kernels release the GIL, so plain Python threads suffice: no threading layer to choose, nothing that a fork or a
second caller at the same time could break.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from threading import Lock

import torch

__all__ = ["kernel_threads", "progress", "run_tasks"]

#: Seconds of work below which handing some of it to another thread costs more than it saves.
SHORT = 5e-4
#: Seconds of work from which on a progress bar may be wanted, and how often it then moves.
LONG = 2.0
STEP = 0.2


_chosen: ContextVar[int | None] = ContextVar("kernel_threads", default=None)


@contextmanager
def kernel_threads(count: int) -> Iterator[None]:
    """Let kernels use so many threads, whatever torch itself uses: a small network wants one, its solver all."""
    token = _chosen.set(count)
    try:
        yield
    finally:
        _chosen.reset(token)


def run_tasks(work: Callable[[int, int], None], tasks: int, seconds: float, advance: Callable[[int], None]) -> None:
    """``work(start, stop)`` over 0 ... tasks-1, cut into pieces that the threads share.

    ``seconds`` estimates the whole on one thread; ``advance(tasks)`` is told of each piece done. What is computed
    must not depend on where the pieces are cut.
    """
    if seconds < SHORT:
        work(0, tasks)
        advance(tasks)
        return
    threads = min(_chosen.get() or torch.get_num_threads(), tasks)
    pieces_per_thread = 1 if seconds < 10 * SHORT * threads else 4 + int(seconds / threads / STEP)
    count = 1 if threads == 1 and seconds < LONG else min(tasks, threads * pieces_per_thread)
    pieces = iter([(tasks * i // count, tasks * (i + 1) // count) for i in range(count)])

    def drain() -> None:
        for start, stop in pieces:
            work(start, stop)
            advance(stop - start)

    helpers = [_pool(os.getpid()).submit(drain) for _ in range(threads - 1)]
    try:
        drain()
    finally:
        for _ in pieces:  # after an error or Ctrl-C nobody starts another piece
            pass
        for helper in helpers:
            if not helper.cancel():  # one that has not even started is not waited for
                helper.result()


@lru_cache(maxsize=1)
def _pool(process: int) -> ThreadPoolExecutor:
    """The threads of this process: a forked child makes its own, since threads do not survive a fork."""
    return ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="qubolearn")


@contextmanager
def progress(title: str, tasks: int, seconds: float) -> Iterator[Callable[[int], None]]:
    """``advance(tasks)``, to be called from any thread, which moves a bar on stderr where the work is long."""
    if seconds < LONG:
        yield lambda done: None
        return
    from qubolearn.kernels.progress import Bar

    lock = Lock()
    with Bar(title, tasks) as bar:

        def advance(done: int) -> None:
            with lock:
                bar.advance(done)

        yield advance
