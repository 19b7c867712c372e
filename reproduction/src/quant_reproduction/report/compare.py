"""Compares the paper's numbers with ours: one verdict per protocol."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from scipy.spatial.transform import Rotation

from quant_reproduction.grid.entries import ENTRIES
from quant_reproduction.grid.paper import PROTOCOLS, Paper, PaperTable, Protocol
from quant_reproduction.grid.views import Cell, View
from quant_reproduction.report.numbers import Interval, binomial_variance, interval, mean_variance, plural

Measured = Mapping[str, Mapping[tuple[str, str], Cell]]  # view -> (row, column) -> cell
Verdict = Literal["reproduced", "better", "worse", "inconclusive", "not measured"]
VERDICTS: tuple[Verdict, ...] = ("reproduced", "better", "worse", "inconclusive", "not measured")
#: A number is reproduced within the larger share; the smaller is reported, too.
CLOSE, REPRODUCED = 0.10, 0.25
#: Test per training shapes or images: 50 of 500, 30 of 300, about 55 of 183.
OVERLAPS = {"pointset": 0.1, "rotation": 0.1, "willow": 0.3}


@dataclass(frozen=True)
class Number:
    """One of our numbers in display units, with one value per seed."""

    values: tuple[float, ...]
    seeds: tuple[int, ...] = ()
    min_variance: float = 0.0  # of one value, due to its instances
    exact: bool = False  # a count, which has no spread
    instances: int = 0  # behind each value
    scores: tuple[str, ...] = ()  # packed, of the first instances of each seed
    printed: float | None = None  # the ± of a number of the paper
    overlap: float = 0.0  # test per training shapes of random splits
    times: tuple[float, ...] = ()  # seconds of training of each seed

    @property
    def by_seed(self) -> dict[int, float]:
        return dict(zip(self.seeds or range(len(self.values)), self.values, strict=True))

    @property
    def mean(self) -> float:
        return statistics.mean(self.values)

    @property
    def spread(self) -> float | None:
        """Standard deviation over seeds; None with one seed."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None


@dataclass(frozen=True)
class Compared:
    """A number of the paper, and ours under each protocol."""

    table: PaperTable
    row: str
    column: str
    metric: str
    paper: Decimal
    paper_spread: Decimal | None
    numbers: Mapping[Protocol, Number | None]

    @property
    def _half_digit(self) -> float:
        """Half of the last digit that the paper prints."""
        return 0.5 * 10.0 ** int(self.paper.as_tuple().exponent)

    def difference(self, protocol: Protocol, other: Compared | None = None) -> Interval | None:
        """Return our number minus the paper's, with its 95 % interval.

        A printed number without a spread is one run. Half of the paper's last digit is added.
        """
        ours = (other or self).numbers[protocol]
        if ours is None:
            return None
        printed = (float(self.paper_spread), self.table.runs) if self.paper_spread is not None else None
        minus = [value - float(self.paper) for value in ours.values]
        mean, low, high = (minus[0],) * 3
        if not ours.exact:
            more: Any = {"overlap": ours.overlap, "one_run": printed is None}
            mean, low, high = interval(minus, ours.min_variance, printed, **more)
        return Interval(mean, low - self._half_digit, high + self._half_digit)

    def side(self, protocol: Protocol, other: Compared | None = None) -> Verdict:
        """Return whether our number is better or worse than the paper's."""
        found = self.difference(protocol, other)
        if found is None:
            return "not measured"
        if not (found.low > 0 or found.high < 0):
            return "inconclusive"
        return "better" if (found.low > 0) == (self.table.better == "higher") else "worse"

    def within(self, protocol: Protocol, share: float) -> bool:
        """Return True if our mean is within a share: two one-sided tests at 5 %."""
        ours, paper = self.numbers[protocol], float(self.paper)
        if ours is None:
            return False
        found = Interval(*(ours.mean,) * 3)
        if not ours.exact:
            found = interval(ours.values, ours.min_variance, level=0.9, overlap=ours.overlap)
        margin = share * abs(paper) + self._half_digit
        return paper - margin <= found.low <= found.high <= paper + margin

    def verdict(self, protocol: Protocol) -> Verdict:
        """Return reproduced if within 25 %, otherwise the side."""
        return "reproduced" if self.within(protocol, REPRODUCED) else self.side(protocol)

    @property
    def place(self) -> tuple[str, str, str]:
        """Table, row and metric in the paper, without the column."""
        return self.table.name, self.row, self.metric

    @property
    def counted(self) -> bool:
        """True for the paper's "Ours" cells that the summary counts."""
        return self.column in self.table.own and not self.table.not_counted


def compare(paper: Paper, found: Measured) -> list[Compared]:
    """Compare every number of every table of the paper, in its order."""
    made = []
    for table, cell in ((each, cell) for each in paper.tables for cell in each.cells):
        for index, metric in enumerate(table.metrics):
            place = table, cell.row, cell.column, metric
            numbers = {protocol: find_number(found, *place, protocol) for protocol in PROTOCOLS}
            printed = cell.spread[index] if cell.spread else None
            made.append(Compared(*place, cell.values[index], printed, numbers))
    return made


@lru_cache
def find_view(name: str) -> tuple[str, View]:
    """Return the item that shows a view, and the view."""
    return next((item, view) for item, entry in ENTRIES.items() for view in entry.views if view.name == name)


@lru_cache
def levels(view: str, row: str, released: bool = False) -> list[tuple[float, float]]:
    """Return mean and median of the best constant and of a random answer."""
    if re.match("(ablation-)?(randgraph|willow)|training", view):
        share = 100 / math.factorial(5 if view.startswith("training") else 4)
        return [(share, share)] * 2
    rng, many = np.random.default_rng(0), 40_000
    if re.match("(ablation-)?pointset", view):
        ends = re.match(r"(\d+)-(\d+) degrees", row)
        low, high = (float(ends[1]), float(ends[2])) if ends else (0.0, 60.0)
        true = np.linspace(low, high, many)
        wrap = 256 * 60 / 511 if released else math.inf
        errors = [abs(true - min(wrap / 2, 30)) % wrap, abs(true - rng.uniform(0, 60, many)) % wrap]
    elif re.match("(ablation-)?rotation", view):
        errors = _released_turns(many) if released else []
        turns = [rng.uniform(-1, 1, (many, 3)) * (20, 10, 20) for _ in range(2)]
        R, other = (Rotation.from_euler("ZYX", angles, degrees=True) for angles in turns)
        errors = errors or [np.degrees(R.magnitude()), np.degrees((R.inv() * other).magnitude())]
    else:
        return []
    return [(float(each.mean()), float(np.median(each))) for each in errors]


def _released_turns(many: int) -> list[np.ndarray[Any, Any]]:
    """Return errors of constant and random answers, as released."""
    import torch  # not at the top: tables of text need none

    from quant_reproduction import released
    from quant_reproduction.problems.clouds import euler_matrix

    angles = released.spatial_angles(many, torch.Generator().manual_seed(0))
    labels = released.spatial_labels(angles)
    answers = labels.median(0).values.expand_as(labels), labels.roll(1, 0)
    rotations = [euler_matrix(released.spatial_decoded(each)) for each in answers]
    return [released.spatial_scores(each, angles).numpy() for each in rotations]


def find_number(
    found: Measured, table: PaperTable, row: str, column: str, metric: str, protocol: Protocol
) -> Number | None:
    """Return our number for a place under a protocol, or None."""
    view, *place = table.place(row, column, protocol) or ("", "", "")
    cell = found.get(view, {}).get((place[0], place[1]))
    if cell is None:
        return None
    index = find_view(view)[1].metrics.index(metric)
    return Number(
        cell.shown[index],
        tuple(record.get("job", {}).get("seed", position) for position, record in enumerate(cell.records)),
        _min_variance(cell, index),
        "qubits" in cell.unit,
        min(cell.instances, default=0),
        cell.scores if index == 0 else (),
        overlap=_overlap(cell),
        times=tuple(float(record["metrics"].get("training_seconds", 0.0)) for record in cell.records),
    )


def _overlap(cell: Cell) -> float:
    """Return the overlap of the splits; 0 if they are not random."""
    options = cell.records[0].get("job", {}).get("options", {}) if cell.records else {}
    problem = options.get("problem", {}) if "protocol" in options else {}
    return OVERLAPS.get(problem.get("name", ""), 0.0) if problem.get("split_seed") else 0.0


def _min_variance(cell: Cell, index: int) -> float:
    if not cell.instances:
        return 0.0
    scale, instances = 1e4 if cell.unit == "%" else 1.0, min(cell.instances)
    if index == 0 and cell.deviations:
        return scale * statistics.fmean(each**2 for each in cell.deviations) / instances
    if cell.unit != "%":
        return mean_variance(cell.scores, instances) if index == 0 else 0.0
    share = min(1.0, max(0.0, statistics.mean(cell.values[index])))
    return scale * binomial_variance(share, instances)


def count_verdicts(compared: Sequence[Compared], protocol: Protocol) -> dict[str, int]:
    """Count the verdicts of the counted numbers under a protocol."""
    verdicts = [each.verdict(protocol) for each in compared if each.counted]
    return {verdict: verdicts.count(verdict) for verdict in VERDICTS}


def count_close(compared: Sequence[Compared], protocol: Protocol) -> int:
    """Count the counted numbers that are within 10 % of the paper's."""
    return sum(each.within(protocol, CLOSE) for each in compared if each.counted)


def count_controls(compared: Sequence[Compared], protocol: Protocol) -> dict[str, tuple[int, int]]:
    """Count how often methods without couplings beat the paper's Ours.

    If Diag or Pure are better as well, the recipe makes the difference, not the QUBO.
    """
    ours = {each.place: each for each in compared if each.counted and each.column == "Ours"}
    found = {}
    for method in ("Diag", "Pure"):
        others = [each for each in compared if each.column == method and each.numbers[protocol] is not None]
        sides = [ours[each.place].side(protocol, each) for each in others if each.place in ours]
        found[method] = sides.count("better"), len(sides)
    return found


def count_different(compared: Sequence[Compared], protocol: Protocol) -> int:
    """Count our distinct numbers: several tables may show the same one."""
    mine = [each for each in compared if each.counted and each.numbers[protocol] is not None]
    return len({(each.table.place(each.row, each.column, protocol), each.metric) for each in mine})


def format_counts(compared: Sequence[Compared]) -> str:
    """Return the verdict counts of one table and their control, or ""."""
    counted = sum(each.counted for each in compared)
    if not counted:
        return ""
    parts = []
    for protocol in PROTOCOLS:
        counts = count_close(compared, protocol), *count_verdicts(compared, protocol).values()
        found = " / ".join(map(str, counts))
        beaten = count_controls(compared, protocol).items()
        also = [f"{method} better in {better} of {of}" for method, (better, of) in beaten if of]
        parts.append(f"({protocol}) {found}" + (f", {' and '.join(also)}" if also else ""))
    heads = " / ".join(("within 10 %", *VERDICTS))
    return f"{plural(counted, 'number')} of the paper's own method, {heads}: {'; '.join(parts)}."
