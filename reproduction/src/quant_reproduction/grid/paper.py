"""The paper's numbers and claims: ``paper.json``, read into frozen dataclasses.

Numbers are :class:`~decimal.Decimal`, which keep the printed digits: 4.0 is not 4.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from importlib.resources import files
from typing import Literal

import msgspec

Protocol = Literal["a", "r", "b", "c"]
PROTOCOLS: Mapping[Protocol, str] = {
    "a": "the paper's text",
    "r": "the released code",
    "b": "our recipe, the paper's p and network",
    "c": "our recipe, our inputs",
}


@dataclass(frozen=True)
class PaperCell:
    """A printed cell: a number, or mean and median."""

    row: str
    column: str
    values: tuple[Decimal, ...]
    spread: tuple[Decimal, ...] = ()  # ± behind each value, where printed


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper, and the place of our numbers in a view."""

    name: str  # "Table 1a"
    label: str  # of its LaTeX environment, "" if the numbers are in the text
    part: int  # which tabular under the label
    title: str
    view: str
    metrics: tuple[str, ...]  # of the view, in the order of a cell's values
    better: Literal["higher", "lower"]
    own: tuple[str, ...]  # the columns that hold the paper's own method
    ours: Mapping[str, Mapping[str, tuple[str, ...]]]  # column -> protocol or "any" -> (row, column[, view])
    cells: tuple[PaperCell, ...]
    not_counted: str = ""  # why its own cells are left out of the count
    differs: str = ""  # our differences from the paper, in one line
    runs: int = 3  # behind a printed ±

    @property
    def rows(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(cell.row for cell in self.cells))

    @property
    def slug(self) -> str:
        return "-".join(re.findall("[a-z0-9]+", self.name.lower()))

    def value(self, row: str, column: str, metric: str, part: str = "values") -> Decimal | None:
        """Return the printed number, or its ±; None if there is none."""
        found = [getattr(cell, part) for cell in self.cells if (cell.row, cell.column) == (row, column)]
        numbers: tuple[Decimal, ...] = found[0] if found else ()
        return numbers[self.metrics.index(metric)] if numbers else None

    def place(self, row: str, column: str, protocol: Protocol) -> tuple[str, str, str] | None:
        """Return our (view, row, column); (r) differs even untrained."""
        places = self.ours.get(column, {})
        found = places.get(protocol, None if protocol == "r" else places.get("any"))
        if found is None:
            return None
        view = found[2] if len(found) > 2 else self.view
        return view, found[0].replace("{row}", row), found[1].replace("{row}", row)


@dataclass(frozen=True)
class Comparison:
    """A claim that one cell of a table is better than another; the row ``*`` means every row."""

    table: str
    better: tuple[str, str]
    than: tuple[str, str]
    than_table: str = ""  # the table of the second place, by default the same
    metrics: tuple[str, ...] = ()  # those of the table, unless given
    slack: float | None = None  # what the first may fall short by
    factor: float = 1.0  # the first is better by this factor
    value: float | None = None  # the column "guess", which no table has
    spread: bool = False  # compares deviations over seeds; smaller is better
    time: bool = False  # compares seconds of training; fewer are better
    over: str = ""  # this column is subtracted from both

    def __post_init__(self) -> None:
        object.__setattr__(self, "than_table", self.than_table or self.table)


@dataclass(frozen=True)
class Claim:
    """An ordering that the paper's text claims."""

    paper: str  # its place in the paper
    quote: str  # the paper's words
    text: str  # what is checked
    comparisons: tuple[Comparison, ...]
    need: Literal["all", "most", "mixed", "all but one"] = "all"  # of the comparisons
    note: str = ""
    not_reproduced: str = ""  # a baseline without which our numbers decide nothing


@dataclass(frozen=True)
class Paper:
    """The tables and claims of the paper."""

    source: str
    tables: tuple[PaperTable, ...]
    claims: tuple[Claim, ...]

    def table(self, name: str) -> PaperTable:
        return next(table for table in self.tables if table.name == name)

    def of_view(self, view: str) -> list[PaperTable]:
        return [table for table in self.tables if table.view == view]


@lru_cache
def paper() -> Paper:
    """Return the paper, which is read once."""
    text = files("quant_reproduction.grid").joinpath("paper.json").read_text(encoding="utf-8")
    return msgspec.json.decode(text, type=Paper)
