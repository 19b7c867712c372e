"""A progress bar that only long work shows."""

from __future__ import annotations

from time import monotonic
from types import TracebackType

from rich.console import Console
from rich.progress import Progress

__all__ = ["Bar"]

#: Seconds of expected work from which on a bar is shown.
LONG = 2.0


class Bar:
    """On stderr, gone when done, and only where the work so far says that the whole takes more than 2 s.

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
        self._done += work
        seconds = monotonic() - self._started
        if self._shown is None and seconds * self._total > LONG * self._done:
            console = Console(stderr=True)
            self._shown = Progress(console=console, transient=True, disable=not console.is_terminal)
            self._shown.add_task(self._title, total=self._total)
            self._shown.start()
        if self._shown is not None:
            self._shown.update(self._shown.task_ids[0], completed=self._done)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown is not None:
            self._shown.stop()
