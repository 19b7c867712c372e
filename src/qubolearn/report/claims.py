"""The paper's ordering claims, checked on its own numbers and on ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from qubolearn.experiments.paper import Claim, Comparison, Paper, PaperTable, Protocol
from qubolearn.report.collect import Measured
from qubolearn.report.compare import number

__all__ = ["Answer", "Checked", "Pair", "check_claims"]

Answer = Literal["holds", "does not hold", "not measured"]
Both = tuple[float, float]  # the number claimed to be better, and the other


@dataclass(frozen=True)
class Pair:
    """Two places that a claim compares: the numbers in the paper, and ours under both protocols."""

    comparison: Comparison
    table: PaperTable
    better: tuple[str, str]
    than: tuple[str, str]
    metric: str
    paper: Both | None
    best: Both | None
    protocol: Both | None

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


@dataclass(frozen=True)
class Checked:
    """A claim with all its pairs and the answers."""

    claim: Claim
    pairs: tuple[Pair, ...]

    @property
    def in_paper(self) -> Answer:
        """Whether the paper's own numbers bear it out."""
        return self._answer([pair.ordered(pair.paper) for pair in self.pairs])

    @property
    def in_best(self) -> Answer:
        return self._answer([pair.ordered(pair.best) for pair in self.pairs])

    @property
    def in_protocol(self) -> Answer:
        """Under the paper's protocol."""
        return self._answer([pair.ordered(pair.protocol) for pair in self.pairs])

    @property
    def answer(self) -> Answer:
        """The answer that counts: under our best recipe, or under the paper's where only that was measured."""
        return self.in_best if self.in_best != "not measured" else self.in_protocol

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
            printed = table.value(*better, metric), other.value(*than, metric)
            yield Pair(
                comparison,
                table,
                better,
                than,
                metric,
                _both(*(None if value is None else float(value) for value in printed)),
                *(_ours(found, table, better, other, than, metric, protocol) for protocol in ("best", "paper")),
            )


def _ours(
    found: Measured,
    table: PaperTable,
    better: tuple[str, str],
    other: PaperTable,
    than: tuple[str, str],
    metric: str,
    protocol: Protocol,
) -> Both | None:
    first, second = number(found, table, *better, metric, protocol), number(found, other, *than, metric, protocol)
    return None if first is None or second is None else (first.mean, second.mean)


def _both(first: float | None, second: float | None) -> Both | None:
    return None if first is None or second is None else (first, second)
