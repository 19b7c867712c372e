"""Output of commands: tables for people, one JSON object for programs, progress on stderr."""

from __future__ import annotations

import json as json_text
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.measure import Measurement
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

if TYPE_CHECKING:
    from qubolearn.evaluation import Evaluation

#: Text is shown literally, because paths and names may look like markup of rich.
PLAIN: Mapping[str, Any] = {"soft_wrap": True, "highlight": False, "markup": False, "emoji": False}

#: More characters than any line of a table has.
WIDEST = 10_000


class Output:
    """Output of a command. With ``json``, tables and notes go to stderr, and stdout gets one object."""

    def __init__(self, json: bool = False) -> None:
        self.json = json
        self.console = Console(stderr=json, **PLAIN)
        self.errors = Console(stderr=True, **PLAIN)
        self._result: Mapping[str, Any] | None = None

    def say(self, *lines: object) -> None:
        """Print lines for people."""
        for line in lines:
            self.console.print(str(line))

    def table(self, title: str, headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Print a table, which may be wider than the terminal."""
        table = Table(title=title, title_justify="left")
        for index, header in enumerate(headers):
            table.add_column(header, justify="left" if index == 0 else "right")
        for row in rows:
            table.add_row(*(str(cell) for cell in row))
        needed = Measurement.get(self.console, self.console.options.update(width=WIDEST), table).minimum
        wide = needed > self.console.width  # rich would cut words off
        (Console(stderr=self.json, width=needed, **PLAIN) if wide else self.console).print(table)

    def result(self, **values: Any) -> None:
        """Set the result of the command, which :meth:`close` prints as JSON."""
        self._result = values

    def close(self) -> None:
        if self.json:
            print(json_text.dumps(self._result or {}, allow_nan=False))

    @contextmanager
    def progress(self, title: str, total: int) -> Iterator[Progress]:
        """Show a progress bar if stderr is a terminal."""
        words, note = (TextColumn(text, markup=False) for text in ("{task.description}", "{task.fields[note]}"))
        columns = (words, BarColumn(), MofNCompleteColumn(), note, TimeElapsedColumn(), TimeRemainingColumn())
        with Progress(*columns, console=self.errors, disable=not self.errors.is_terminal, transient=True) as bar:
            bar.add_task(title, total=total, note="")
            yield bar


def metric_rows(found: Evaluation) -> list[tuple[str, str]]:
    """Return metrics by name: accuracies in percent, the rest as numbers."""
    return [
        (name.replace("_", ", "), percent(value) if name.startswith("accuracy") else f"{value:.3f}")
        for name, value in found.metrics.items()
    ]


def percent(value: float) -> str:
    """Format 0.98765 as '98.8 %'"""
    return f"{100 * value:.1f} %"
