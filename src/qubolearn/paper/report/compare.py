"""The paper's numbers beside ours: one verdict per number."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Literal, NamedTuple

from qubolearn.paper.grid.entries import ENTRIES
from qubolearn.paper.grid.paper import Paper, PaperTable, Protocol
from qubolearn.paper.grid.views import DIGITS, Unit, View
from qubolearn.paper.report.collect import Measured
from qubolearn.paper.report.wording import signed, spread

__all__ = ["VERDICTS", "Compared", "Line", "Number", "Verdict", "by_row", "compare", "counts", "number", "view_of"]

Verdict = Literal["better", "equal", "worse", "not measured"]
VERDICTS: tuple[Verdict, ...] = ("better", "equal", "worse", "not measured")


@dataclass(frozen=True)
class Number:
    """One of ours as a reader sees it (shares in percent): mean and standard deviation over the seeds."""

    values: tuple[float, ...]  # by seed
    seconds: float  # of training, mean over the seeds

    @property
    def mean(self) -> float:
        return statistics.mean(self.values)

    @property
    def spread(self) -> float | None:
        """None with one seed."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None


@dataclass(frozen=True)
class Compared:
    """A number of the paper, and ours for the same place."""

    table: PaperTable
    row: str
    column: str
    metric: str
    paper: Decimal
    paper_spread: Decimal | None
    best: Number | None
    protocol: Number | None  # under the paper's protocol

    @property
    def ours(self) -> Number | None:
        """What the verdict is about: our best recipe, or the paper's where the place belongs to that one only."""
        return self.best if self.table.place(self.row, self.column, "best") else self.protocol

    @property
    def under_protocol(self) -> Number | None:
        """Ours under the paper's protocol, of methods that are trained."""
        return None if "any" in self.table.ours.get(self.column, {}) else self.protocol

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's."""
        return None if self.ours is None else self.ours.mean - float(self.paper)

    @property
    def verdict(self) -> Verdict:
        """Of ours, rounded to the digits that the paper prints."""
        if self.ours is None:
            return "not measured"
        rounded = Decimal(self.ours.mean).quantize(self.paper)
        if rounded == self.paper:
            return "equal"
        return "better" if (rounded > self.paper) == (self.table.better == "higher") else "worse"

    @property
    def counted(self) -> bool:
        """Whether it is one of the paper's "Ours" cells that the summary counts."""
        return self.column in self.table.own and not self.table.not_counted


def compare(paper: Paper, found: Measured) -> list[Compared]:
    """Every number of every table of the paper, in its order."""
    made = []
    for table in paper.tables:
        for cell in table.cells:
            for index, metric in enumerate(table.metrics):
                made.append(
                    Compared(
                        table,
                        cell.row,
                        cell.column,
                        metric,
                        cell.values[index],
                        cell.spread[index] if cell.spread else None,
                        number(found, table, cell.row, cell.column, metric, "best"),
                        number(found, table, cell.row, cell.column, metric, "paper"),
                    )
                )
    return made


def number(found: Measured, table: PaperTable, row: str, column: str, metric: str, protocol: Protocol) -> Number | None:
    """Ours for a place of a paper's table under a protocol, or None where it was not measured."""
    place = table.place(row, column, protocol)
    if place is None:
        return None
    view, *at = place
    cell = found.get(view, {}).get((at[0], at[1]))
    if cell is None:
        return None
    return Number(cell.shown[view_of(view).metrics.index(metric)], cell.seconds)


class Line(NamedTuple):
    """One cell of the paper's table with ours, as text; mean and median are joined by a slash."""

    column: str
    paper: str
    best: str
    recipe: str  # ours under the paper's protocol
    verdicts: tuple[Verdict, ...]
    difference: str


def by_row(compared: Sequence[Compared], unit: Unit) -> dict[str, list[Line]]:
    """The numbers of one table as text: row -> its cells."""
    cells: dict[str, dict[str, list[Compared]]] = {}
    for each in compared:
        cells.setdefault(each.row, {}).setdefault(each.column, []).append(each)
    return {row: [_line(column, cell, DIGITS[unit]) for column, cell in of.items()] for row, of in cells.items()}


def _line(column: str, cell: Sequence[Compared], digits: int) -> Line:
    return Line(
        column,
        " / ".join(spread(each.paper, each.paper_spread) for each in cell),
        _joined([spread(each.best.mean, each.best.spread, digits) for each in cell if each.best]),
        _joined([spread(n.mean, n.spread, digits) for each in cell if (n := each.under_protocol)]),
        tuple(dict.fromkeys(each.verdict for each in cell)),
        _joined([signed(each.difference, digits) for each in cell if each.difference is not None]),
    )


def _joined(texts: Sequence[str]) -> str:
    return " / ".join(texts) or "–"


def counts(compared: Sequence[Compared]) -> dict[Verdict, int]:
    """How many of the counted numbers got which verdict."""
    verdicts = [each.verdict for each in compared if each.counted]
    return {verdict: verdicts.count(verdict) for verdict in VERDICTS}


@lru_cache
def view_of(name: str) -> View:
    """A view of any entry by its name."""
    return next(view for entry in ENTRIES.values() for view in entry.views if view.name == name)
