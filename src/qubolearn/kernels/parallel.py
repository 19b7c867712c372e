"""Run compiled kernels over a range of tasks on several threads, so that Ctrl-C is answered while they work.

Kernels release the GIL, so plain Python threads suffice: there is no threading layer to choose, and a fork or a second
caller at the same time breaks nothing.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch

__all__ = ["kernel_threads", "progress", "run_tasks", "stop_flag", "thread_count"]

#: Seconds of work below which handing some of it to another thread costs more than it saves.
SHORT = 5e-4
#: For more seconds of work than this the caller only waits, so that Python's signal handlers can run.
WAITED = 0.05
#: For more seconds of work than this there is a progress bar, and how often it moves.
LONG = 2.0
STEP = 0.2
#: How many seconds to wait for interrupted threads: kernels look at their stop flag far more often than that.
GRACE = 0.8


_chosen: ContextVar[int | None] = ContextVar("kernel_threads", default=None)


@contextmanager
def kernel_threads(count: int) -> Iterator[None]:
    """Let kernels use this many threads, whatever torch itself uses: a small network wants one, its solver all."""
    token = _chosen.set(count)
    try:
        yield
    finally:
        _chosen.reset(token)


def thread_count() -> int:
    """How many threads kernels use: the number that :func:`kernel_threads` set, or else torch's."""
    return _chosen.get() or torch.get_num_threads()


def _after_fork() -> None:
    """In a forked child OpenMP's threads are gone and torch would wait for them forever: it keeps to one thread.

    Kernels start threads of their own and use as many as in the parent.
    """
    _chosen.set(thread_count())
    torch.set_num_threads(1)


os.register_at_fork(after_in_child=_after_fork)


def stop_flag() -> npt.NDArray[np.uint8]:
    """A flag ``[1]`` that is 0 while work should go on; kernels look at it by :func:`~.stopping.stopped`."""
    return np.zeros(1, np.uint8)


def run_tasks(
    work: Callable[[int, int], None],
    tasks: int,
    seconds: float,
    advance: Callable[[int], None] = lambda done: None,
    *,
    stop: npt.NDArray[np.uint8] | None = None,
    threads: int | None = None,
) -> None:
    """Call ``work(start, end)`` over tasks 0 ... tasks-1, cut into pieces that the threads share.

    ``seconds`` estimates the whole on one thread; ``advance(tasks)`` is called after each piece, from any thread. What
    is computed must not depend on where the pieces are cut.

    Long work runs on other threads while the caller waits. When an exception reaches the caller (Ctrl-C, or a signal
    handler that raises), ``stop[0]`` is set and no piece is begun any more. A single task may take long, so its kernel
    should look at ``stop`` and return early. Threads that do not end within a second are left behind as daemons.
    """
    if seconds < SHORT:
        work(0, tasks)
        advance(tasks)
        return
    threads = min(threads or thread_count(), tasks)
    pieces_per_thread = 1 if seconds < 10 * SHORT * threads else 4 + int(min(seconds / threads / STEP, tasks))
    count = 1 if threads == 1 and seconds < LONG else min(tasks, threads * pieces_per_thread)
    pieces = iter([(tasks * i // count, tasks * (i + 1) // count) for i in range(count)])

    def end() -> None:
        for _ in pieces:  # nobody begins another piece
            pass
        if stop is not None:
            stop[0] = 1

    def drain() -> None:
        try:
            for first, last in pieces:
                work(first, last)
                advance(last - first)
        except BaseException:
            end()
            raise

    if seconds < WAITED:
        _share(drain, threads)
    else:
        _wait_for(drain, threads, end)


def _share(drain: Callable[[], None], threads: int) -> None:
    """Share the work between the caller and the threads of the pool."""
    helpers = [_pool(os.getpid()).submit(drain) for _ in range(threads - 1)]
    try:
        drain()
    finally:
        for helper in helpers:
            if not helper.cancel():  # do not wait for one that has not started
                helper.result()


def _wait_for(drain: Callable[[], None], threads: int, end: Callable[[], None]) -> None:
    """Do the work on new threads while the caller waits, so that signals can interrupt it.

    They are not threads of the pool: a call of hours must not keep a short call from another thread waiting.
    """
    errors: list[BaseException] = []
    running = threading.Semaphore(0)

    def run() -> None:
        try:
            drain()
        except BaseException as error:
            errors.append(error)
        finally:
            running.release()

    for _ in range(threads):
        threading.Thread(target=run, name="qubolearn", daemon=True).start()
    ended = 0
    try:
        while ended < threads:
            ended += running.acquire(timeout=STEP)
    except BaseException:
        end()
        until = time.monotonic() + GRACE
        while ended < threads and running.acquire(timeout=max(0.0, until - time.monotonic())):
            ended += 1
        raise
    if errors:
        raise errors[0]


@lru_cache(maxsize=1)
def _pool(process: int) -> ThreadPoolExecutor:
    """The threads of this process: a forked child makes its own, since threads do not survive a fork."""
    return ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="qubolearn")


@contextmanager
def progress(title: str, tasks: int, seconds: float) -> Iterator[Callable[[int], None]]:
    """Yield ``advance(tasks)``, to be called from any thread, which moves a bar on stderr where the work is long."""
    if seconds < LONG:
        yield lambda done: None
        return
    from qubolearn.kernels.progress import Bar

    lock = threading.Lock()
    with Bar(title, tasks) as bar:

        def advance(done: int) -> None:
            with lock:
                bar.advance(done)

        yield advance
