"""The paper's ordering claims, checked on its own numbers and on ours, under its protocol and under our recipe."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from qubolearn.paper.grid.paper import Claim, Comparison, Paper, PaperTable, Protocol
from qubolearn.paper.report.collect import Measured
from qubolearn.paper.report.compare import PAPER_RUNS, Number, number, view_of
from qubolearn.paper.report.intervals import Interval, interval, paired_variance, ratio_interval
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

    def gains(self, source: Source) -> list[float]:
        """By how much the first number is better than the claim asks for, seed by seed; positive bears it out.

        That is, than the other number times the claim's factor, or less what it may fall short by.
        """
        both = self.numbers[source]
        if both is None:
            return []
        first, second = both
        if len(second.values) == 1:  # a count of qubits, or a printed number, stands beside all of the other
            pairs = [(value, second.values[0]) for value in first.values]
        elif len(first.values) == 1:
            pairs = [(first.values[0], value) for value in second.values]
        else:
            other = dict(zip(second.seeds or range(len(second.values)), second.values, strict=True))
            mine = zip(first.seeds or range(len(first.values)), first.values, strict=True)
            pairs = [(value, other[seed]) for seed, value in mine if seed in other]
        higher = self.table.better == "higher"
        factor, slack = self.comparison.factor, self.comparison.slack or 0.0
        return [(a - factor * b if higher else b - factor * a) + slack for a, b in pairs]

    def gain(self, source: Source) -> Interval | None:
        """The mean of :meth:`gains` with its interval, None where nothing was measured."""
        gains, both = self.gains(source), self.numbers[source]
        if not gains or both is None:
            return None
        if self.comparison.spread:
            spreads = [(_deviation(each), PAPER_RUNS if source == "printed" else len(each.values)) for each in both]
            return ratio_interval(*spreads[0], *spreads[1])
        if source == "printed" or all(each.exact for each in both):  # nothing to spread
            return Interval(gains[0], gains[0], gains[0])
        return interval(gains, self._least_variance(*both))

    def _least_variance(self, first: Number, second: Number) -> float:
        """Of one gain, by the instances: paired where both have scores of single ones, by seed."""
        shared = [seed for seed in first.seeds if seed in second.seeds]
        if not (first.scores and second.scores and shared):
            return first.least_variance + second.least_variance
        scores = [[each.scores[each.seeds.index(seed)] for seed in shared] for each in (first, second)]
        higher, factor = self.table.better == "higher", self.comparison.factor
        one, other = scores if higher else reversed(scores)
        percent = 1e4 if view_of(self.table.view).unit == "%" else 1.0
        floor = percent * paired_variance(one, other, factor, min(first.instances, second.instances))
        return floor or first.least_variance + second.least_variance  # no instance differs: so few say so

    def ordered(self, source: Source) -> bool | None:
        """Whether the first is better; None where the interval holds 0. Equal is better only where there is slack."""
        found = self.gain(source)
        if found is None or (found.low < 0 < found.high) or not math.isfinite(found.low):
            return None
        allowed = self.comparison.slack is not None
        return found.low > 0 or (allowed and found.low == 0)

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
        """Whether the numbers of a source bear it out; it does not apply where they could not."""
        if not all(pair.applies[source] for pair in self.pairs):
            return "does not apply"
        if any(pair.numbers[source] is None for pair in self.pairs):
            known = [pair.ordered(source) for pair in self.pairs if pair.numbers[source] is not None]
            return "does not hold" if self.claim.need == "all" and False in known else "not measured"
        ordered = [pair.ordered(source) for pair in self.pairs]
        yes, no, total = ordered.count(True), ordered.count(False), len(ordered)
        wanted = {"all": total, "most": math.ceil(0.75 * total), "all but one": total - 1}
        if self.claim.need == "mixed":
            holds, fails = yes > 0 and no > 0, yes == total or no == total
        else:
            holds, fails = yes >= wanted[self.claim.need], total - no < wanted[self.claim.need]
        return "holds" if holds else "does not hold" if fails else "cannot be told apart"

    @property
    def in_paper(self) -> Answer:
        return self.found("printed")

    def effect(self, source: Source) -> Interval | None:
        """By how much the first numbers are better than asked for, over all pairs: mean and interval over seeds."""
        gains = [pair.gains(source) for pair in self.pairs]
        if not all(gains) or source == "printed":
            return None
        if len(gains) == 1:
            return self.pairs[0].gain(source)
        if all(each.exact for pair in self.pairs for each in pair.numbers[source] or ()):
            return Interval(*[statistics.fmean(each[0] for each in gains)] * 3)
        seeds = min(map(len, gains))
        means = [statistics.fmean(each[seed % len(each)] for each in gains) for seed in range(seeds)]
        return interval(means)

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
