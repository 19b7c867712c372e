"""The compiled kernels of ``src/kernels``: loading, threads and progress bars."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from time import monotonic
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["HELD", "Bar", "kernel_call", "kernel_threads", "native", "thread_count"]

#: Bytes of partial results that a kernel over all states may hold.
HELD = 2**26
#: Seconds of work that are worth a thread.
PER_THREAD = 2e-4
#: Above this many seconds of work a progress bar is shown.
LONG = 2.0

_chosen: ContextVar[int | None] = ContextVar("kernel_threads", default=None)


@cache
def native() -> Any:
    """Return the extension module."""
    try:
        from qubolearn import _kernels  # type: ignore[attr-defined]
    except ImportError as error:
        remedy = "in a checkout run `make kernels`, otherwise reinstall qubolearn"
        raise ImportError(f"the compiled kernels are missing ({error}); {remedy}") from error
    return _kernels


@contextmanager
def kernel_threads(count: int) -> Iterator[None]:
    """Let kernels use ``count`` threads."""
    token = _chosen.set(count)
    try:
        yield
    finally:
        _chosen.reset(token)


def thread_count() -> int:
    """Return the number of threads of kernels, by default torch's."""
    return _chosen.get() or torch.get_num_threads()


def _after_fork() -> None:
    """Keep torch to one thread in a forked child, which lacks OpenMP's threads."""
    _chosen.set(thread_count())
    torch.set_num_threads(1)


os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def kernel_call(title: str, seconds: float) -> Iterator[dict[str, Any]]:
    """Yield arguments of a kernel that takes about ``seconds`` on one thread."""
    threads = max(1, min(thread_count(), int(seconds / PER_THREAD)))
    if seconds < LONG:
        yield {"threads": threads, "progress": None}
    else:
        with Bar(title, 1.0) as bar:
            yield {"threads": threads, "progress": bar.move_to}


class Bar:
    """A bar on stderr, shown if the work is expected to take more than 2 s.

    >>> with Bar("annealing", total=3) as bar:
    ...     for _ in range(3):
    ...         bar.advance(1)
    """

    def __init__(self, title: str, total: float) -> None:
        self._title, self._total, self._done = title, total, 0.0
        self._started = monotonic()
        self._shown: Progress | None = None

    def __enter__(self) -> Bar:
        return self

    def advance(self, work: float) -> None:
        self.move_to(self._done + work)

    def move_to(self, done: float) -> None:
        self._done = done
        if self._shown is None and (monotonic() - self._started) * self._total > LONG * done:
            self._shown = _started_bar(self._title, self._total)
        if self._shown is not None:
            self._shown.update(self._shown.task_ids[0], completed=done)

    def __exit__(self, *error: object) -> None:
        if self._shown is not None:
            self._shown.stop()


def _started_bar(title: str, total: float) -> Progress:
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    bar = Progress(console=console, transient=True, disable=not console.is_terminal)
    bar.add_task(title, total=total)
    bar.start()
    return bar
