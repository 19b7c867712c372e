"""The paper's numbers beside ours under three protocols: one verdict per number and protocol."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Literal, NamedTuple

from qubolearn.paper.grid.entries import ENTRIES
from qubolearn.paper.grid.paper import PROTOCOLS, Paper, PaperTable, Protocol
from qubolearn.paper.grid.views import DIGITS, Cell, Unit, View
from qubolearn.paper.report.collect import Measured
from qubolearn.paper.report.intervals import Interval, binomial_variance, interval, mean_variance
from qubolearn.paper.report.wording import many, spread

__all__ = [
    "VERDICTS",
    "Compared",
    "Line",
    "Number",
    "Verdict",
    "by_row",
    "compare",
    "control",
    "counts",
    "counts_said",
    "different",
    "number",
    "view_of",
]

Verdict = Literal["better", "not told apart", "worse", "not measured"]
#: Test shapes or images of a split for each one of its training set: 50 of 500, 30 of 300, and about 55 of 183.
OVERLAPS = {"pointset": 0.1, "rotation": 0.1, "willow": 0.3}
VERDICTS: tuple[Verdict, ...] = ("better", "not told apart", "worse", "not measured")


@dataclass(frozen=True)
class Number:
    """One of ours as a reader sees it (shares in percent): mean and standard deviation over the seeds."""

    values: tuple[float, ...]  # by seed
    seconds: float  # of training, mean over the seeds
    seeds: tuple[int, ...] = ()
    least_variance: float = 0.0  # of one value, by the instances behind it
    exact: bool = False  # a count, which has no spread
    instances: int = 0  # behind each value
    scores: tuple[str, ...] = ()  # of the first instances of each seed, packed, where records hold them
    printed: float | None = None  # the ± of a number of the paper
    overlap: float = 0.0  # test shapes for each training shape, where seeds are random splits

    @property
    def mean(self) -> float:
        return statistics.mean(self.values)

    @property
    def spread(self) -> float | None:
        """None with one seed."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None


@dataclass(frozen=True)
class Compared:
    """A number of the paper, and ours for the same place under each protocol."""

    table: PaperTable
    row: str
    column: str
    metric: str
    paper: Decimal
    paper_spread: Decimal | None
    numbers: Mapping[Protocol, Number | None]

    def difference(self, protocol: Protocol) -> Interval | None:
        """Ours minus the paper's; beyond the interval over seeds the paper's number is as wide as its last digit."""
        ours = self.numbers[protocol]
        return None if ours is None else difference(ours, self)

    def verdict(self, protocol: Protocol) -> Verdict:
        return verdict(self.numbers[protocol], self)

    @property
    def counted(self) -> bool:
        """Whether it is one of the paper's "Ours" cells that the summary counts."""
        return self.column in self.table.own and not self.table.not_counted


def difference(ours: Number, cell: Compared) -> Interval:
    """A number of ours minus the paper's in a cell."""
    printed = (float(cell.paper_spread), cell.table.runs) if cell.paper_spread is not None else None
    minus = [value - float(cell.paper) for value in ours.values]
    half_digit = 0.5 * 10.0 ** int(cell.paper.as_tuple().exponent)
    mean, low, high = (
        (minus[0],) * 3 if ours.exact else interval(minus, ours.least_variance, printed, overlap=ours.overlap)
    )
    return Interval(mean, low - half_digit, high + half_digit)


def verdict(ours: Number | None, cell: Compared) -> Verdict:
    """Of a number of ours against the paper's in a cell."""
    if ours is None:
        return "not measured"
    _, low, high = difference(ours, cell)
    if not (low > 0 or high < 0):
        return "not told apart"
    return "better" if (low > 0) == (cell.table.better == "higher") else "worse"


def compare(paper: Paper, found: Measured) -> list[Compared]:
    """Every number of every table of the paper, in its order."""
    made = []
    for table in paper.tables:
        for cell in table.cells:
            for index, metric in enumerate(table.metrics):
                numbers = {each: number(found, table, cell.row, cell.column, metric, each) for each in PROTOCOLS}
                printed = cell.spread[index] if cell.spread else None
                made.append(Compared(table, cell.row, cell.column, metric, cell.values[index], printed, numbers))
    return made


def number(found: Measured, table: PaperTable, row: str, column: str, metric: str, protocol: Protocol) -> Number | None:
    """Ours for a place of a paper's table under a protocol, or None where it was not measured."""
    place = table.place(row, column, protocol)
    if place is None:
        return None
    view, row_at, column_at = place
    cell = found.get(view, {}).get((row_at, column_at))
    if cell is None:
        return None
    index = view_of(view).metrics.index(metric)
    seeds = tuple(record.get("job", {}).get("seed", position) for position, record in enumerate(cell.records))
    return Number(
        cell.shown[index],
        cell.seconds,
        seeds,
        _least_variance(cell, index),
        "qubits" in cell.unit,
        min(cell.instances, default=0),
        cell.scores if index == 0 else (),
        overlap=_overlap(cell),
    )


def _overlap(cell: Cell) -> float:
    """0 where nothing is trained, or not on random splits."""
    asked = cell.records[0].get("job", {}).get("options", {}) if cell.records else {}
    problem = asked.get("problem", {})
    return OVERLAPS.get(problem.get("name"), 0.0) if "protocol" in asked and problem.get("split_seed") else 0.0


def _least_variance(cell: Cell, index: int) -> float:
    """That of one value by its instances, in the units that are shown: of shares, and of means of scores."""
    if not cell.instances:
        return 0.0
    scale, instances = 1e4 if cell.unit == "%" else 1.0, min(cell.instances)
    if index == 0 and cell.deviations:
        return scale * statistics.fmean(each**2 for each in cell.deviations) / instances
    if cell.unit != "%":
        return mean_variance(cell.scores, instances) if index == 0 else 0.0
    share = min(1.0, max(0.0, statistics.mean(cell.values[index])))
    return scale * binomial_variance(share, instances)


class Line(NamedTuple):
    """One cell of the paper's table with ours, as text; mean and median are joined by a slash."""

    column: str
    paper: str
    ours: Mapping[Protocol, str]
    verdicts: Mapping[Protocol, tuple[Verdict, ...]]


def by_row(compared: Sequence[Compared], unit: Unit) -> dict[str, list[Line]]:
    """The numbers of one table as text: row -> its cells."""
    cells: dict[str, dict[str, list[Compared]]] = {}
    for each in compared:
        cells.setdefault(each.row, {}).setdefault(each.column, []).append(each)
    return {row: [_line(column, cell, DIGITS[unit]) for column, cell in of.items()] for row, of in cells.items()}


def _line(column: str, cell: Sequence[Compared], digits: int) -> Line:
    texts: dict[Protocol, str] = {}
    for protocol in PROTOCOLS:
        numbers = [found for each in cell if (found := each.numbers[protocol])]
        texts[protocol] = " / ".join(spread(each.mean, each.spread, digits) for each in numbers) or "–"
    verdicts = {each: tuple(dict.fromkeys(one.verdict(each) for one in cell)) for each in PROTOCOLS}
    return Line(column, " / ".join(spread(each.paper, each.paper_spread) for each in cell), texts, verdicts)


def counts(compared: Sequence[Compared], protocol: Protocol) -> dict[Verdict, int]:
    """How many of the counted numbers got which verdict under a protocol."""
    verdicts = [each.verdict(protocol) for each in compared if each.counted]
    return {verdict: verdicts.count(verdict) for verdict in VERDICTS}


def control(compared: Sequence[Compared], protocol: Protocol, method: str) -> tuple[int, int]:
    """Of how many counted numbers a method without couplings is better than the paper's Ours, and of how many measured.

    Where Diag or Pure are better as well, it is the recipe that is, and not the learnt QUBO.
    """
    others = {(each.table.name, each.row, each.metric): each for each in compared if each.column == method}
    better = measured = 0
    for cell in compared:
        other = others.get((cell.table.name, cell.row, cell.metric))
        if cell.counted and cell.column == "Ours" and other is not None and other.numbers[protocol] is not None:
            measured += 1
            better += verdict(other.numbers[protocol], cell) == "better"
    return better, measured


def different(compared: Sequence[Compared], protocol: Protocol) -> int:
    """How many different numbers of ours stand beside the counted ones: tables of the paper may ask for the same."""
    mine = [each for each in compared if each.counted and each.numbers[protocol] is not None]
    return len({(each.table.place(each.row, each.column, protocol), each.metric) for each in mine})


def counts_said(compared: Sequence[Compared]) -> str:
    """The three counts of one table and their control in one line; "" where the summary counts none of its numbers."""
    counted = sum(each.counted for each in compared)
    if not counted:
        return ""
    said = []
    for protocol in PROTOCOLS:
        found = " / ".join(map(str, counts(compared, protocol).values()))
        beaten = [(method, *control(compared, protocol, method)) for method in ("Diag", "Pure")]
        also = [f"{method} better in {better} of {of}" for method, better, of in beaten if of]
        said.append(f"({protocol}) {found}" + (f", {' and '.join(also)}" if also else ""))
    return f"Of {many(counted, 'number')} of the paper's own method {' / '.join(VERDICTS)}: {'; '.join(said)}."


@lru_cache
def view_of(name: str) -> View:
    """A view of any entry by its name."""
    return next(view for entry in ENTRIES.values() for view in entry.views if view.name == name)
