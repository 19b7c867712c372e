"""The paper's ordering claims, checked on its own numbers and on ours: on the means, and seed by seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from qubolearn.paper.grid.paper import Claim, Comparison, Paper, PaperTable
from qubolearn.paper.report.collect import Measured
from qubolearn.paper.report.compare import Number, number
from qubolearn.paper.report.wording import many

__all__ = ["Answer", "Checked", "Pair", "Seeds", "check_claims", "seeds_said", "sources"]

Answer = Literal["holds", "does not hold", "not measured"]
Both = tuple[float, float]  # the number claimed to be better, and the other
#: Where numbers come from: printed in the paper, our best recipe, our run of the paper's recipe.
Source = Literal["printed", "best", "paper"]
SOURCES: Mapping[Source, str] = {
    "printed": "Paper",
    "best": "qubolearn",
    "paper": "qubolearn, the paper’s recipe",
}


class Seeds(NamedTuple):
    """How many seeds, each taken alone, give the answer that their means give."""

    agreeing: int
    seeds: int


@dataclass(frozen=True)
class Pair:
    """Two places that a claim compares, with their numbers by source; None where one of them is missing."""

    comparison: Comparison
    table: PaperTable
    better: tuple[str, str]
    than: tuple[str, str]
    metric: str
    numbers: Mapping[Source, tuple[Number, Number] | None]

    def means(self, source: Source) -> Both | None:
        both = self.numbers[source]
        return None if both is None else (both[0].mean, both[1].mean)

    def by_seed(self, source: Source) -> list[Both]:
        """The numbers of each seed; one without seeds, such as a count of qubits, stands beside all of the other."""
        both = self.numbers[source]
        if both is None:
            return []
        seeds = max(len(each.values) for each in both)
        first, second = (each.values * seeds if len(each.values) == 1 else each.values for each in both)
        return list(zip(first, second, strict=True)) if len(first) == len(second) else []

    def ordered(self, both: Both | None) -> bool | None:
        """Whether the first number is better, by the factor or within the slack that the claim has."""
        if both is None:
            return None
        # as errors: the smaller, the better
        first, second = both if self.table.better == "lower" else (-both[0], -both[1])
        if self.comparison.slack is not None:
            return first <= second + self.comparison.slack
        factor = self.comparison.factor if self.table.better == "higher" else 1 / self.comparison.factor
        return first < second * factor

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
        """Two numbers and whether the first is better, in words."""
        both = self.means(source)
        if both is None:
            return "–"
        answer = "✓ yes" if self.ordered(both) else "= equal" if _same(both) else "✗ no"
        return f"{_against(both)} {answer}"


@dataclass(frozen=True)
class Checked:
    """A claim with all its pairs and the answers."""

    claim: Claim
    pairs: tuple[Pair, ...]

    def found(self, source: Source) -> Answer:
        """Whether the numbers of a source bear it out."""
        return self._answer([pair.ordered(pair.means(source)) for pair in self.pairs])

    @property
    def in_paper(self) -> Answer:
        return self.found("printed")

    @property
    def counts(self) -> Source:
        """The source whose answer counts: our best recipe, or the paper's where only that was measured."""
        return "best" if self.found("best") != "not measured" else "paper"

    @property
    def answer(self) -> Answer:
        return self.found(self.counts)

    @property
    def seeds(self) -> Seeds | None:
        """Of the answer that counts."""
        return self.agreement(self.counts)

    def agreement(self, source: Source) -> Seeds | None:
        """None with fewer than two seeds, and where nothing was measured."""
        answer, by_seed = self.found(source), [pair.by_seed(source) for pair in self.pairs]
        seeds = min(map(len, by_seed), default=0)
        if answer == "not measured" or seeds < 2:
            return None
        alone = [
            self._answer([pair.ordered(of[seed]) for pair, of in zip(self.pairs, by_seed, strict=True)])
            for seed in range(seeds)
        ]
        return Seeds(alone.count(answer), seeds)

    def pairs_table(self, paper: Paper) -> PaperTable:
        """The table that it is shown with."""
        return paper.table(self.claim.comparisons[0].table)

    def _answer(self, ordered: Sequence[bool | None]) -> Answer:
        if self.claim.need == "all" and False in ordered:
            return "does not hold"
        if None in ordered:
            return "not measured"
        right, total = sum(map(bool, ordered)), len(ordered)
        holds = {
            "all": right == total,
            "most": 4 * right >= 3 * total,
            "mixed": 0 < right < total,
            "all but one": right >= total - 1,
        }
        return "holds" if holds[self.claim.need] else "does not hold"


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
            for source in SOURCES:
                first, second = (
                    _number(found, at, *place, metric, source) for at, place in ((table, better), (other, than))
                )
                numbers[source] = None if first is None or second is None else (first, second)
            yield Pair(comparison, table, better, than, metric, numbers)


def _number(found: Measured, table: PaperTable, row: str, column: str, metric: str, source: Source) -> Number | None:
    if source != "printed":
        return number(found, table, row, column, metric, source)
    printed = table.value(row, column, metric)
    return None if printed is None else Number((float(printed),), 0.0)


def sources(checked: Checked) -> list[str]:
    """One line for each source, such as 'Paper: holds, 3 of 5 comparisons, 1 equal, 1 not measured'."""
    lines = []
    for source, name in SOURCES.items():
        known = [(pair, both) for pair in checked.pairs if (both := pair.means(source)) is not None]
        asked, said = len(checked.pairs), f"{name}: {checked.found(source)}{seeds_said(checked.agreement(source))}"
        right = sum(bool(pair.ordered(both)) for pair, both in known)
        equal = sum(_same(both) and not pair.ordered(both) for pair, both in known)
        words = [_against(known[0][1])] if known and asked == 1 else [f"{right} of {many(asked, 'comparison')}"]
        words += [f"{equal} equal"] if equal and asked > 1 else []
        words += [f"{asked - len(known)} not measured"] if len(known) < asked else []
        lines.append(", ".join([said, *words]) if known else f"{name}: no number")
    return lines


def seeds_said(seeds: Seeds | None) -> str:
    """A word of caution where seeds disagree.

    >>> seeds_said(Seeds(2, 3)), seeds_said(Seeds(3, 3)), seeds_said(None)
    (' (2 of 3 seeds)', '', '')
    """
    return f" ({seeds.agreeing} of {seeds.seeds} seeds)" if seeds and seeds.agreeing < seeds.seeds else ""


def _same(both: Both) -> bool:
    """Equal as far as it is shown."""
    return f"{both[0]:.4g}" == f"{both[1]:.4g}"


def _against(both: Both) -> str:
    return f"{both[0]:.4g} against {both[1]:.4g}"
