"""Checks the paper's ordering claims on its numbers and on ours."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, product
from typing import Literal, get_args

from quant_reproduction.grid.paper import PROTOCOLS, Claim, Comparison, Paper, PaperTable
from quant_reproduction.report.compare import Measured, Number, find_number, find_view
from quant_reproduction.report.numbers import LEVEL, Interval, interval, paired_variance, ratio_interval

Decided = Literal["holds", "does not hold", "inconclusive"]
Answer = Literal[Decided, "baseline not reproduced", "not measured", "does not apply"]
ANSWERS: tuple[Answer, ...] = get_args(Answer)
Rerun = Literal["a", "r", "c"]
RERUNS: tuple[Rerun, ...] = get_args(Rerun)
Source = Literal["printed", Rerun]
SOURCES: Mapping[Source, str] = {
    "printed": "the paper's numbers",
    **{p: f"({p}) {PROTOCOLS[p]}" for p in RERUNS},
}


@dataclass(frozen=True)
class Pair:
    """Two places that a claim compares, with their numbers by source."""

    comparison: Comparison
    table: PaperTable
    better: tuple[str, str]
    than: tuple[str, str]
    metric: str
    numbers: Mapping[Source, tuple[Number, Number] | None]
    applies: Mapping[Source, bool]  # there could be two different numbers

    def gains(self, source: Source) -> dict[int, float]:
        """Return by how much the first number is better than required, by seed.

        The claim's factor multiplies the other number, and its slack is what the first may fall short by.
        A number without seeds is paired with every seed of the other.
        """
        both = self.numbers[source]
        if both is None:
            return {}
        first, second = (each.by_seed for each in both)
        if both[0].exact != both[1].exact:
            exact, other = (first, second) if both[0].exact else (second, first)
            exact |= dict.fromkeys(other, next(iter(exact.values())))
        higher = self.table.better == "higher" and not self.comparison.time
        factor, slack = self.comparison.factor, self.comparison.slack or 0.0
        a, b = (first, second) if higher else (second, first)
        return {seed: a[seed] - factor * b[seed] + slack for seed in first if seed in second}

    def gain(self, source: Source, level: float = LEVEL) -> Interval | None:
        """Return the mean of :meth:`gains` with its interval, or None."""
        gains, both = list(self.gains(source).values()), self.numbers[source]
        if not gains or both is None:
            return None
        if self.comparison.spread:
            return _spread_interval(both, self.table.runs if source == "printed" else 0, level)
        if source == "printed" or all(each.exact for each in both):
            return Interval(gains[0], gains[0], gains[0])
        overlap = max(each.overlap for each in both)
        return interval(gains, self.min_variance(source), level=level, overlap=overlap)

    def min_variance(self, source: Source) -> float:
        """Return the variance of a gain by its instances, maybe paired."""
        both = self.numbers[source]
        if both is None:
            return 0.0
        (first, second), factor = both, self.comparison.factor
        weights = (1.0, factor**2) if self.table.better == "higher" else (factor**2, 1.0)
        unpaired = weights[0] * first.min_variance + weights[1] * second.min_variance
        shared = [seed for seed in first.seeds if seed in second.seeds]
        if not (first.scores and second.scores and shared):
            return unpaired
        scores = [[each.scores[each.seeds.index(seed)] for seed in shared] for each in (first, second)]
        one, other = scores if self.table.better == "higher" else reversed(scores)
        percent = 1e4 if find_view(self.table.view)[1].unit == "%" else 1.0
        paired = percent * paired_variance(one, other, factor, min(first.instances, second.instances))
        return paired or unpaired  # if no instance differs, too few were scored

    def ordered(self, source: Source, tests: int = 1) -> bool | None:
        """Return True if the first is better, None if the interval contains 0.

        ``tests`` divides the error probability of 5 % if one of that many comparisons would decide.
        """
        found = self.gain(source, 1 - (1 - LEVEL) / tests)
        if found is None:
            return None
        if found.low > 0 or (found.low == 0 and self.comparison.slack is not None):
            return True
        return False if found.high < 0 or found.low == found.high else None

    def __str__(self) -> str:
        metric = " (median)" if "median" in self.metric else ""
        if self.better[0] != self.than[0]:
            return f"{self.better[1]}: {self.better[0]} vs. {self.than[0]}{metric}"
        names = [self.better[1], self.than[1]]
        if self.comparison.than_table != self.comparison.table:
            names = [f"{self.better[1]} in {self.comparison.table}", f"in {self.comparison.than_table}"]
        return f"{self.better[0]}: {names[0]} vs. {names[1]}{metric}"

    def format(self, source: Source) -> str:
        """Return both numbers, the gain with its interval, and the answer."""
        both, found = self.numbers[source], self.gain(source)
        if both is None or found is None:
            return "–"
        answer = {None: "≈ inconclusive", True: "✓ yes", False: "✗ no"}[self.ordered(source)]
        first, second = (_deviation(each) if self.comparison.spread else each.mean for each in both)
        exact = source == "printed" and not self.comparison.spread
        gain = "" if exact else f" ({found})"
        return f"{first:.4g} vs. {second:.4g}{gain} {answer}"


@dataclass(frozen=True)
class Checked:
    """A claim with all its pairs."""

    claim: Claim
    pairs: tuple[Pair, ...]

    def answer(self, source: Source) -> Answer:
        """Return whether the numbers of a source support the claim.

        ``need`` of n comparisons support it and n - need + 1 refute it, and each direction pays for its
        choice (Bonferroni for partial conjunctions).
        """
        if self.claim.not_reproduced and source != "printed":
            return "baseline not reproduced"
        if not all(pair.applies[source] for pair in self.pairs):
            return "does not apply"
        total = len(self.pairs)

        def count(way: bool, tests: int) -> int:
            return sum(pair.ordered(source, tests) is way for pair in self.pairs)

        if self.claim.need == "mixed":
            holds = count(True, total) > 0 and count(False, total) > 0
            fails = total in (count(True, 1), count(False, 1))
        else:
            most = {"all": total, "most": math.ceil(0.75 * total), "all but one": total - 1}
            needed = most[self.claim.need]
            against = total - needed + 1
            holds, fails = count(True, against) >= needed, count(False, needed) >= against
        if holds or fails:
            return "holds" if holds else "does not hold"
        return "not measured" if any(pair.numbers[source] is None for pair in self.pairs) else "inconclusive"

    def effect(self, source: Source) -> str:
        """Return how many comparisons agree and disagree."""
        if len(self.pairs) == 1:
            found = None if source == "printed" else self.pairs[0].gain(source)
            return str(found) if found else ""
        ways = [pair.ordered(source) for pair in self.pairs]
        return f"{ways.count(True)} of {len(ways)} agree, {ways.count(False)} disagree"


def check_claims(paper: Paper, found: Measured) -> list[Checked]:
    """Check every claim of the paper, in its order."""
    made = []
    for claim in paper.claims:
        pairs = [pair for each in claim.comparisons for pair in _pairs(paper, found, each)]
        made.append(Checked(claim, tuple(pairs)))
    return made


def _pairs(paper: Paper, found: Measured, comparison: Comparison) -> Iterator[Pair]:
    table, other = paper.table(comparison.table), paper.table(comparison.than_table)
    for row in table.rows if comparison.better[0] == "*" else (comparison.better[0],):
        better = (row, comparison.better[1])
        than = (row if comparison.than[0] == "*" else comparison.than[0], comparison.than[1])
        for metric in comparison.metrics or table.metrics:
            numbers: dict[Source, tuple[Number, Number] | None] = {}
            applies: dict[Source, bool] = {}
            for source in SOURCES:
                (first, at), (second, than_at) = (
                    _number(found, where, *place, metric, source, comparison)
                    for where, place in ((table, better), (other, than))
                )
                applies[source] = None not in (at, than_at) and at != than_at
                if source == "printed":
                    applies[source] = first is not None and second is not None
                numbers[source] = (first, second) if applies[source] and first and second else None
            yield Pair(comparison, table, better, than, metric, numbers, applies)


def _number(
    found: Measured, table: PaperTable, row: str, column: str, metric: str, source: Source, each: Comparison
) -> tuple[Number | None, object]:
    """Return a source's number and place; "guess" is a constant."""
    place = row, column
    if column == "guess" and each.value is not None:
        return Number((each.value,), exact=True), place
    if source != "printed":
        number = find_number(found, table, row, column, metric, source)
        if number is not None and each.time:
            number = Number(number.times, number.seeds) if all(number.times) else None
        if number is not None and each.over:
            other = find_number(found, table, row, each.over, metric, source)
            less = other.by_seed if other else {}
            left = {seed: value - less[seed] for seed, value in number.by_seed.items() if seed in less}
            number = Number(tuple(left.values()), tuple(left)) if left else None
        return number, table.place(row, column, source)
    printed, spread = (table.value(row, column, metric, part) for part in ("values", "spread"))
    if printed is None or each.time:
        return None, place
    minus = table.value(row, each.over, metric) or 0 if each.over else 0
    return Number((float(printed - minus),), printed=None if spread is None else float(spread)), place


def _spread_interval(both: tuple[Number, Number], printed_runs: int, level: float) -> Interval:
    """Return the F test's interval of two spreads; ours, the widest without one seed."""
    if printed_runs:
        one, other = map(_deviation, both)
        return ratio_interval(one, printed_runs, other, printed_runs, level)
    fewer = [[each.values, *combinations(each.values, len(each.values) - 1)] for each in both]
    found = [
        ratio_interval(statistics.stdev(x), len(x), statistics.stdev(y), len(y), level)
        for x, y in product(*fewer)
        if min(len(x), len(y)) > 1
    ]
    if not found:
        return Interval(0.0, -math.inf, math.inf)
    return Interval(found[0].mean, min(each.low for each in found), max(each.high for each in found))


def _deviation(number: Number) -> float:
    return number.printed or number.spread or 0.0
