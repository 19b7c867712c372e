"""The paper's ordering claims, checked on its own numbers and on ours, under its protocol and under our recipe."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from qubolearn.paper.grid.paper import Claim, Comparison, Paper, PaperTable, Protocol
from qubolearn.paper.report.collect import Measured
from qubolearn.paper.report.compare import Number, number, view_of
from qubolearn.paper.report.intervals import LEVEL, Interval, interval, paired_variance, ratio_interval
from qubolearn.paper.report.wording import many, short

__all__ = ["ANSWERS", "SOURCES", "Answer", "Checked", "Pair", "Source", "check_claims", "interval_said", "sources"]

Answer = Literal["holds", "does not hold", "cannot be told apart", "not measured", "does not apply"]
ANSWERS: tuple[Answer, ...] = ("holds", "does not hold", "cannot be told apart", "not measured", "does not apply")
#: Where numbers come from: printed in the paper, our run of its protocol, our recipe with our inputs.
Source = Literal["printed", "a", "c"]
SOURCES: Mapping[Source, str] = {
    "printed": "the paper's numbers",
    "a": "(a) the paper's protocol",
    "c": "(c) our recipe, our inputs",
}


@dataclass(frozen=True)
class Pair:
    """Two places that a claim compares, with their numbers by source; None where one of them is missing."""

    comparison: Comparison
    table: PaperTable
    better: tuple[str, str]
    than: tuple[str, str]
    metric: str
    numbers: Mapping[Source, tuple[Number, Number] | None]
    applies: Mapping[Source, bool]  # whether a source has, or could have, two different numbers there

    def gains(self, source: Source) -> dict[int, float]:
        """By how much the first number is better than the claim asks for, by seed; positive bears it out.

        That is, than the other number times the claim's factor, or less what it may fall short by. A count of qubits
        or random guessing, which no seed changes, stands beside every seed of the other.
        """
        both = self.numbers[source]
        if both is None:
            return {}
        first, second = (dict(zip(each.seeds or range(len(each.values)), each.values, strict=True)) for each in both)
        if both[0].exact != both[1].exact:
            exact, other = (first, second) if both[0].exact else (second, first)
            exact |= dict.fromkeys(other, next(iter(exact.values())))
        higher = self.table.better == "higher"
        factor, slack = self.comparison.factor, self.comparison.slack or 0.0
        pairs = {seed: (first[seed], second[seed]) for seed in first if seed in second}
        return {seed: (a - factor * b if higher else b - factor * a) + slack for seed, (a, b) in pairs.items()}

    def gain(self, source: Source, level: float = LEVEL) -> Interval | None:
        """The mean of :meth:`gains` with its interval, None where nothing was measured."""
        gains, both = list(self.gains(source).values()), self.numbers[source]
        if not gains or both is None:
            return None
        if self.comparison.spread:
            runs = [self.table.runs if source == "printed" else len(each.values) for each in both]
            return ratio_interval(_deviation(both[0]), runs[0], _deviation(both[1]), runs[1], level)
        if source == "printed" or all(each.exact for each in both):  # nothing to spread
            return Interval(gains[0], gains[0], gains[0])
        return interval(gains, self.least_variance(source), level=level, overlap=self.overlap(source))

    def overlap(self, source: Source) -> float:
        """Of the splits that seeds are, in either number."""
        return max((each.overlap for each in self.numbers[source] or ()), default=0.0)

    def least_variance(self, source: Source) -> float:
        """Of one gain, by the instances: paired where both have scores of single ones, by seed."""
        both = self.numbers[source]
        if both is None:
            return 0.0
        (first, second), factor = both, self.comparison.factor
        weights = (1.0, factor**2) if self.table.better == "higher" else (factor**2, 1.0)
        apart = weights[0] * first.least_variance + weights[1] * second.least_variance
        shared = [seed for seed in first.seeds if seed in second.seeds]
        if not (first.scores and second.scores and shared):
            return apart
        scores = [[each.scores[each.seeds.index(seed)] for seed in shared] for each in (first, second)]
        one, other = scores if self.table.better == "higher" else reversed(scores)
        percent = 1e4 if view_of(self.table.view).unit == "%" else 1.0
        floor = percent * paired_variance(one, other, factor, min(first.instances, second.instances))
        return floor or apart  # no instance differs: so few say so

    def ordered(self, source: Source, tests: int = 1) -> bool | None:
        """Whether the first is better; None where the interval holds 0. Equal is better only where there is slack.

        ``tests`` divides the chance of an error, 5 %, where one of so many comparisons would be enough for an answer.
        """
        found = self.gain(source, 1 - (1 - LEVEL) / tests)
        if found is None:
            return None
        if found.low > 0 or (found.low == 0 and self.comparison.slack is not None):
            return True
        return False if found.high < 0 or found.low == found.high else None

    def __str__(self) -> str:
        """What is compared with what."""
        metric = " (median)" if "median" in self.metric else ""
        if self.better[0] != self.than[0]:
            return f"{self.better[1]}: {self.better[0]} against {self.than[0]}{metric}"
        names = [self.better[1], self.than[1]]
        if self.comparison.than_table != self.comparison.table:
            names = [f"{self.better[1]} in {self.comparison.table}", f"in {self.comparison.than_table}"]
        return f"{self.better[0]}: {names[0]} against {names[1]}{metric}"

    def said(self, source: Source) -> str:
        """Two numbers, by how much the first is better, and whether that can be told."""
        both, found = self.numbers[source], self.gain(source)
        if both is None or found is None:
            return "–"
        ordered = self.ordered(source)
        answer = "≈ not told apart" if ordered is None else "✓ yes" if ordered else "✗ no"
        first, second = (_deviation(each) if self.comparison.spread else each.mean for each in both)
        against = f"{first:.4g} against {second:.4g}"
        exact = source == "printed" and not self.comparison.spread
        return f"{against} {answer}" if exact else f"{against} ({interval_said(found)}) {answer}"


@dataclass(frozen=True)
class Checked:
    """A claim with all its pairs and the answers."""

    claim: Claim
    pairs: tuple[Pair, ...]

    def found(self, source: Source) -> Answer:
        """Whether the numbers of a source bear it out; it does not apply where they could not.

        A claim that needs all of n comparisons is refuted by a single one, which may come by chance: so that one has
        to be sure to 1 - 0.05 / n. In general, ``need`` of n comparisons are wanted for a claim and n - need + 1 the
        other way against it, and each way is charged for the choice that it has (Bonferroni for partial conjunctions).
        """
        if not all(pair.applies[source] for pair in self.pairs):
            return "does not apply"
        total = len(self.pairs)

        def count(way: bool, tests: int) -> int:
            return sum(pair.ordered(source, tests) is way for pair in self.pairs)

        if self.claim.need == "mixed":
            holds = count(True, total) > 0 and count(False, total) > 0
            fails = total in (count(True, 1), count(False, 1))
        else:
            wanted = {"all": total, "most": math.ceil(0.75 * total), "all but one": total - 1}[self.claim.need]
            against = total - wanted + 1
            holds, fails = count(True, against) >= wanted, count(False, wanted) >= against
        if holds or fails:
            return "holds" if holds else "does not hold"
        return "not measured" if any(pair.numbers[source] is None for pair in self.pairs) else "cannot be told apart"

    @property
    def in_paper(self) -> Answer:
        return self.found("printed")

    def effect(self, source: Source) -> Interval | None:
        """By how much the first numbers are better than asked for, over all pairs: mean and interval over seeds."""
        if len(self.pairs) == 1:
            return None if source == "printed" else self.pairs[0].gain(source)
        gains = [pair.gains(source) for pair in self.pairs]
        shared = [seed for seed in gains[0] if all(seed in each for each in gains)]
        if not shared or source == "printed" or any(pair.comparison.spread for pair in self.pairs):
            return None
        means = [statistics.fmean(each[seed] for each in gains) for seed in shared]
        if all(each.exact for pair in self.pairs for each in pair.numbers[source] or ()):
            return Interval(means[0], means[0], means[0])
        # as if pairs of one seed were off together, which they are at most
        least = statistics.fmean(math.sqrt(pair.least_variance(source)) for pair in self.pairs) ** 2
        return interval(means, least, overlap=max(pair.overlap(source) for pair in self.pairs))

    def pairs_table(self, paper: Paper) -> PaperTable:
        """The table that it is shown with."""
        return paper.table(self.claim.comparisons[0].table)


def check_claims(paper: Paper, found: Measured) -> list[Checked]:
    """Every claim of the paper, in its order."""
    return [
        Checked(claim, tuple(pair for each in claim.comparisons for pair in _pairs(paper, found, each)))
        for claim in paper.claims
    ]


def _pairs(paper: Paper, found: Measured, comparison: Comparison) -> Iterator[Pair]:
    table, other = paper.table(comparison.table), paper.table(comparison.than_table)
    rows = table.rows if comparison.better[0] == "*" else (comparison.better[0],)
    for row in rows:
        better = (row, comparison.better[1])
        than = (row if comparison.than[0] == "*" else comparison.than[0], comparison.than[1])
        for metric in comparison.metrics or table.metrics:
            numbers: dict[Source, tuple[Number, Number] | None] = {}
            applies: dict[Source, bool] = {}
            for source in SOURCES:
                first, second = (
                    Number((comparison.value,), 0.0, exact=True)
                    if place[1] == "guess" and comparison.value is not None
                    else _number(found, at, *place, metric, source)
                    for at, place in ((table, better), (other, than))
                )
                both = None if first is None or second is None else (first, second)
                applies[source] = both is not None
                if source != "printed":
                    places = [_place(table, better, source, comparison), _place(other, than, source, comparison)]
                    applies[source] = None not in places and places[0] != places[1]
                numbers[source] = both if applies[source] else None
            yield Pair(comparison, table, better, than, metric, numbers, applies)


def _place(table: PaperTable, at: tuple[str, str], source: Protocol, comparison: Comparison) -> object:
    """Where ours stands, None where nothing of ours can; random guessing stands in no table."""
    return at if at[1] == "guess" and comparison.value is not None else table.place(*at, source)


def _number(found: Measured, table: PaperTable, row: str, column: str, metric: str, source: Source) -> Number | None:
    if source != "printed":
        protocol: Protocol = source
        return number(found, table, row, column, metric, protocol)
    printed, around = table.value(row, column, metric), table.printed_spread(row, column, metric)
    spread = None if around is None else float(around)
    return None if printed is None else Number((float(printed),), 0.0, printed=spread)


def _deviation(number: Number) -> float:
    """Over seeds, or the paper's ±; 0 where there is none."""
    return number.printed or number.spread or 0.0


def sources(checked: Checked) -> list[str]:
    """One line for each source, such as '(a) the paper's protocol: holds, 3 of 5 comparisons, 1 not told apart'."""
    lines = []
    for source, name in SOURCES.items():
        asked, known = len(checked.pairs), [pair for pair in checked.pairs if pair.numbers[source] is not None]
        if not known:
            lines.append(f"{name}: no number")
            continue
        ordered = [pair.ordered(source) for pair in known]
        words = [f"{name}: {checked.found(source)}", f"{ordered.count(True)} of {many(asked, 'comparison')}"]
        words += [f"{ordered.count(None)} not told apart"] if None in ordered else []
        words += [f"{asked - len(known)} not measured"] if len(known) < asked else []
        effect = checked.effect(source)
        lines.append(", ".join([*words, *([f"effect {interval_said(effect)}"] if effect else [])]))
    return lines


def interval_said(found: Interval) -> str:
    """
    >>> interval_said(Interval(1.234, -0.5, 2.5))
    '1.23, from −0.5 to 2.5'
    """
    if not math.isfinite(found.low):
        return f"{short(found.mean)}, one seed"
    if found.low == found.high:
        return short(found.mean)
    return f"{short(found.mean)}, from {short(found.low)} to {short(found.high)}"
