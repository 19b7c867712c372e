"""Progress of a grid of jobs: how many are done, running and left, what runs now, and when all will be done."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from rich.progress import BarColumn, Progress, ProgressColumn, Task
from rich.table import Column
from rich.text import Text

from qubolearn.cli.output import Output
from qubolearn.paper.grid.jobs import Engine, Event, Job, Outcome, Started
from qubolearn.paper.grid.pieces import Pieces
from qubolearn.paper.grid.schedule import Pace

__all__ = ["GridProgress", "duration"]

#: Seconds between two lines where there is no terminal to draw a bar on.
SECONDS_BETWEEN_LINES = 30.0


class GridProgress:
    """On stderr: a bar on a terminal; elsewhere a line at the start, and now and then.

    :meth:`watch` is told of every event, and tells ``pieces``, which keep the time.
    """

    def __init__(self, output: Output, jobs: Sequence[Job], engine: Engine, pieces: Pieces | None = None) -> None:
        self._console, self._engine, self._pace, self._pieces = output.errors, engine, Pace(), pieces
        self._waiting = dict.fromkeys(jobs)
        self._running: dict[Job, float] = {}  # since when
        self._done = self._failed = 0
        self._said = math.inf  # when a line was last written: not yet
        columns = (BarColumn(20, table_column=Column(min_width=20)), _Now(self))
        self._bar = Progress(
            *columns, console=self._console, disable=not self._console.is_terminal, transient=True, refresh_per_second=4
        )
        self._bar.add_task("jobs", total=len(self._waiting))

    def __enter__(self) -> GridProgress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def watch(self, event: Event) -> None:
        if self._pieces is not None:
            self._pieces.watch(event)
        self._waiting.pop(event.job, None)
        if isinstance(event, Started):
            self._running[event.job] = time.monotonic()
            if event.note:
                self._console.print(f"{event.job.name}: {event.note}")
        else:
            self._ended(event)
        first = self._said == math.inf and isinstance(event, Started)  # finished jobs of earlier runs have been counted
        if not self._console.is_terminal and (first or time.monotonic() - self._said > SECONDS_BETWEEN_LINES):
            self._said = time.monotonic()
            self._console.print(f"jobs: {self.counts()}")

    def _ended(self, outcome: Outcome) -> None:
        self._running.pop(outcome.job, None)
        self._bar.advance(self._bar.task_ids[0])
        if outcome.record is None:
            self._failed += 1
        else:
            self._done += 1
            self._pace.learn(outcome.job, outcome.record)

    def counts(self) -> str:
        """'12 done, 1 failed, 2 running, 45 left, about 3 min'"""
        running = {job: time.monotonic() - since for job, since in dict(self._running).items()}
        engine = self._engine
        seconds = self._pace.remaining(list(self._waiting), running, engine.workers, engine.on_gpu)
        failed = f"{self._failed} failed, " if self._failed else ""
        return (
            f"{self._done} done, {failed}{len(running)} running, {len(self._waiting)} left, about {duration(seconds)}"
        )

    def current(self) -> str:
        """The jobs that run now, the newest last."""
        return "; ".join(job.name for job in dict(self._running))


class _Now(ProgressColumn):
    """Counts and current jobs, computed at every redraw, so that the remaining time counts down."""

    def __init__(self, grid: GridProgress) -> None:
        super().__init__(Column(no_wrap=True, overflow="ellipsis"))
        self._grid = grid

    def render(self, task: Task) -> Text:
        return Text(f"{self._grid.counts()}: {self._grid.current()}", no_wrap=True, overflow="ellipsis")


def duration(seconds: float) -> str:
    """Seconds in words.

    >>> duration(12.3), duration(200), duration(5000)
    ('12 s', '3 min', '1 h 23 min')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
