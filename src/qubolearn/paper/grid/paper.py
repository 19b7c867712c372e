"""The paper's numbers, times and claims: ``paper.json`` beside this file, read into frozen dataclasses.

Numbers are :class:`~decimal.Decimal`, so that they keep the digits that the paper prints: 4.0 is not 4.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from importlib.resources import files
from typing import Any, Literal

from qubolearn.errors import unknown_name

__all__ = ["PROTOCOLS", "Claim", "Comparison", "Paper", "PaperCell", "PaperTable", "Protocol", "Times", "paper"]

Protocol = Literal["a", "b", "c"]
PROTOCOLS: Mapping[Protocol, str] = {
    "a": "the paper's protocol",
    "b": "our recipe, the paper's p and network",
    "c": "our recipe, our inputs",
}


@dataclass(frozen=True)
class PaperCell:
    """What the paper prints in one cell: a number, or mean and median."""

    row: str
    column: str
    values: tuple[Decimal, ...]
    spread: tuple[Decimal, ...] = ()  # ± behind each value, where printed


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper, and where in which view ours stands."""

    name: str  # "Table 1a"
    label: str  # of its LaTeX environment, "" where the numbers stand in the text
    part: int  # which tabular under the label
    title: str
    view: str
    metrics: tuple[str, ...]  # of the view, in the order of a cell's values
    better: Literal["higher", "lower"]
    own: tuple[str, ...]  # the columns that hold the paper's own method
    not_counted: str  # why its own cells are left out of the count, "" where they count
    differs: str  # what of ours differs from the paper, in one line
    guess: str  # what random guessing gives, "" where that means nothing
    ours: Mapping[str, Mapping[str, tuple[str, ...]]]  # column -> protocol or "any" -> (row, column[, view])
    cells: tuple[PaperCell, ...]
    runs: int = 3  # behind a printed ±

    @property
    def rows(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(cell.row for cell in self.cells))

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(cell.column for cell in self.cells))

    def value(self, row: str, column: str, metric: str) -> Decimal | None:
        """The printed number, or None where the paper prints none."""
        for cell in self.cells:
            if (cell.row, cell.column) == (row, column):
                return cell.values[self.metrics.index(metric)]
        return None

    def printed_spread(self, row: str, column: str, metric: str) -> Decimal | None:
        """The printed ±, or None where the paper prints none."""
        for cell in self.cells:
            if (cell.row, cell.column) == (row, column) and cell.spread:
                return cell.spread[self.metrics.index(metric)]
        return None

    def place(self, row: str, column: str, protocol: Protocol) -> tuple[str, str, str] | None:
        """(view, row, column) of ours; methods that are not trained stand in the same place under each protocol."""
        places = self.ours.get(column, {})
        found = places.get(protocol, places.get("any"))
        if found is None:
            return None
        view = found[2] if len(found) > 2 else self.view
        return view, found[0].replace("{row}", row), found[1].replace("{row}", row)


@dataclass(frozen=True)
class Comparison:
    """Of the places (row, column) of a table, the first is better than the second; row ``*`` is every row."""

    table: str
    better: tuple[str, str]
    than: tuple[str, str]
    than_table: str  # the table of the second place
    metrics: tuple[str, ...] = ()  # those of the table, unless given
    slack: float | None = None  # "not worse by more than": what the first may fall short by
    factor: float = 1.0  # the first is better by this factor
    value: float | None = None  # what the column "guess" stands for, which no table has
    spread: bool = False  # the standard deviation over seeds is compared, and smaller is better


@dataclass(frozen=True)
class Claim:
    """An ordering that the paper's text claims."""

    paper: str  # where it stands
    quote: str  # the paper's words
    text: str  # what is checked
    need: Literal["all", "most", "mixed", "all but one"]  # of the comparisons
    note: str
    comparisons: tuple[Comparison, ...]


@dataclass(frozen=True)
class Times:
    """Hours that one training takes in the paper, by column of the tables that these trainings fill."""

    problem: str
    paper: str
    text: str
    hours: Mapping[str, Decimal]
    tables: tuple[str, ...]


@dataclass(frozen=True)
class Paper:
    """All of it."""

    source: str
    tables: tuple[PaperTable, ...]
    times: tuple[Times, ...]
    claims: tuple[Claim, ...]

    def table(self, name: str) -> PaperTable:
        found = {table.name: table for table in self.tables}
        if name not in found:
            raise unknown_name("table of the paper", name, found)
        return found[name]

    def of_view(self, view: str) -> list[PaperTable]:
        return [table for table in self.tables if table.view == view]


@lru_cache
def paper() -> Paper:
    """Read once.

    >>> paper().table("Table 1a").value("L5 H78", "Ours", "accuracy")
    Decimal('49')
    """
    text = files("qubolearn.paper.grid").joinpath("paper.json").read_text(encoding="utf-8")
    plain = json.loads(text, parse_float=Decimal, parse_int=Decimal)
    return Paper(
        plain["source"],
        tuple(map(_table, plain["tables"])),
        tuple(Times(**{**times, "tables": tuple(times["tables"])}) for times in plain["times"]),
        tuple(map(_claim, plain["claims"])),
    )


def _table(plain: Mapping[str, Any]) -> PaperTable:
    return PaperTable(
        name=plain["paper"],
        label=plain["label"],
        part=int(plain["part"]),
        title=plain["title"],
        view=plain["view"],
        metrics=tuple(plain["metrics"]),
        better=plain["better"],
        own=tuple(plain["own"]),
        not_counted=plain.get("not_counted", ""),
        differs=plain.get("differs", ""),
        guess=plain.get("guess", ""),
        ours={column: {p: tuple(at) for p, at in places.items()} for column, places in plain["ours"].items()},
        cells=tuple(
            PaperCell(cell["row"], cell["column"], tuple(cell["values"]), tuple(cell.get("spread", ())))
            for cell in plain["cells"]
        ),
        runs=int(plain.get("runs", 3)),
    )


def _claim(plain: Mapping[str, Any]) -> Claim:
    comparisons = tuple(
        Comparison(
            table=each["table"],
            better=tuple(each["better"]),
            than=tuple(each["than"]),
            than_table=each.get("than_table", each["table"]),
            metrics=tuple(each.get("metrics", ())),
            slack=float(each["slack"]) if "slack" in each else None,
            factor=float(each.get("factor", 1)),
            value=float(each["value"]) if "value" in each else None,
            spread=bool(each.get("spread", False)),
        )
        for each in plain["comparisons"]
    )
    need, note = plain.get("need", "all"), plain.get("note", "")
    return Claim(plain["paper"], plain["quote"], plain["text"], need, note, comparisons)
