"""A progress bar that is shown only for long work."""

from __future__ import annotations

from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["Bar"]

#: A bar is shown if the work is expected to take more seconds than this.
LONG = 2.0


class Bar:
    """A bar on stderr that disappears when done, shown only if the whole work is expected to take more than 2 s.

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
        """Report that this much more of the total is done."""
        self._done += work
        if self._shown is None and (monotonic() - self._started) * self._total > LONG * self._done:
            self._shown = _started_bar(self._title, self._total)
        if self._shown is not None:
            self._shown.update(self._shown.task_ids[0], completed=self._done)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
