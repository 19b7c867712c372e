"""Tables for people, one JSON object for programs, progress on stderr."""

from __future__ import annotations

import json as json_text
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.measure import Measurement
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from qubolearn.errors import QubolearnError

if TYPE_CHECKING:
    from qubolearn.evaluation import Evaluation

__all__ = ["Output", "damage_said", "metric_rows", "percent"]

#: Text is shown literally, because paths and names may look like rich's markup.
PLAIN: Mapping[str, Any] = {"soft_wrap": True, "highlight": False, "markup": False, "emoji": False}

#: More characters than any table has in a line.
WIDEST = 10_000


class Output:
    """Where a command's words go: with ``json``, tables and notes go to stderr and stdout gets one object."""

    def __init__(self, json: bool = False) -> None:
        self.json = json
        self.console = Console(stderr=json, **PLAIN)
        self.errors = Console(stderr=True, **PLAIN)
        self._result: Mapping[str, Any] | None = None

    def say(self, text: str) -> None:
        """A line for people."""
        self.console.print(text)

    def table(self, title: str, headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """A table for people; numbers are aligned right. One of many columns is wider than the terminal, and whole."""
        table = Table(title=title, title_justify="left")
        for index, header in enumerate(headers):
            table.add_column(header, justify="left" if index == 0 else "right")
        for row in rows:
            table.add_row(*(str(cell) for cell in row))
        needed = Measurement.get(self.console, self.console.options.update(width=WIDEST), table).minimum
        wide = needed > self.console.width  # rich would cut words off
        (Console(stderr=self.json, width=needed, **PLAIN) if wide else self.console).print(table)

    def result(self, **values: Any) -> None:
        """The command's result, printed by :meth:`close` where JSON was asked for."""
        self._result = values

    def close(self) -> None:
        if self.json:
            print(json_text.dumps(self._result or {}, allow_nan=False))

    @contextmanager
    def progress(self, title: str, total: int) -> Iterator[Progress]:
        """A bar on stderr, if that is a terminal."""
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}", markup=False),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        bar = Progress(*columns, console=self.errors, disable=not self.errors.is_terminal, transient=True)
        with bar:
            bar.add_task(title, total=total, note="")
            yield bar


@contextmanager
def damage_said(folder: Path) -> Iterator[None]:
    """Report in one line that a result file lacks what its readers need.

    A record has no schema of its own: every task stores what its tables and figures want.
    """
    try:
        yield
    except (QubolearnError, OSError, MemoryError):
        raise
    except Exception as error:
        raise QubolearnError(
            f"a result file in {folder} is damaged ({type(error).__name__}: {error}); delete it and reproduce it"
        ) from error


def metric_rows(found: Evaluation) -> list[tuple[str, str]]:
    """Metrics by name, as people read them: accuracies in percent, the rest as numbers."""
    return [
        (name.replace("_", ", "), percent(value) if name.startswith("accuracy") else f"{value:.3f}")
        for name, value in found.metrics.items()
    ]


def percent(value: float) -> str:
    """0.98765 -> '98.8 %'"""
    return f"{100 * value:.1f} %"
