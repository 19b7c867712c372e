"""The paper's ordering claims, checked on its own numbers and on ours: on the means, and seed by seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from qubolearn.paper.grid.paper import Claim, Comparison, Paper, PaperTable, Protocol
from qubolearn.paper.report.collect import Measured
from qubolearn.paper.report.compare import Number, number
from qubolearn.paper.report.wording import many

__all__ = ["Answer", "Checked", "Pair", "Seeds", "check_claims", "seeds_said", "sources"]

Answer = Literal["holds", "does not hold", "not measured"]
Both = tuple[float, float]  # the number claimed to be better, and the other


class Seeds(NamedTuple):
    """How many seeds, each taken alone, give the answer that their means give."""

    agreeing: int
    seeds: int


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
    by_seed: Mapping[Protocol, Sequence[Both]]

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

    def said(self, both: Both | None) -> str:
        """Two numbers and whether the first is better, in words."""
        if both is None:
            return "–"
        answer = "✓ yes" if self.ordered(both) else "= equal" if _same(both) else "✗ no"
        return f"{_against(both)} {answer}"


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

    @property
    def seeds(self) -> Seeds | None:
        """Of the answer that counts."""
        return self.agreement("best" if self.in_best != "not measured" else "paper")

    def agreement(self, protocol: Protocol) -> Seeds | None:
        """None with fewer than two seeds, and where nothing was measured."""
        answer = self.in_best if protocol == "best" else self.in_protocol
        seeds = min((len(pair.by_seed[protocol]) for pair in self.pairs), default=0)
        if answer == "not measured" or seeds < 2:
            return None
        alone = [
            self._answer([pair.ordered(pair.by_seed[protocol][seed]) for pair in self.pairs]) for seed in range(seeds)
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
            printed = table.value(*better, metric), other.value(*than, metric)
            best, paper_recipe = (
                [number(found, at, *place, metric, protocol) for at, place in ((table, better), (other, than))]
                for protocol in ("best", "paper")
            )
            yield Pair(
                comparison,
                table,
                better,
                than,
                metric,
                _both(*(None if value is None else float(value) for value in printed)),
                _both(*(None if each is None else each.mean for each in best)),
                _both(*(None if each is None else each.mean for each in paper_recipe)),
                {"best": _by_seed(*best), "paper": _by_seed(*paper_recipe)},
            )


def sources(checked: Checked) -> list[str]:
    """One line for each source: the paper's numbers, ours, ours under the paper's recipe."""
    pairs = checked.pairs
    best, recipe = checked.agreement("best"), checked.agreement("paper")
    return [
        _source("Paper", checked.in_paper, None, [(pair, pair.paper) for pair in pairs]),
        _source("qubolearn", checked.in_best, best, [(pair, pair.best) for pair in pairs]),
        _source(
            "qubolearn, the paper’s recipe", checked.in_protocol, recipe, [(pair, pair.protocol) for pair in pairs]
        ),
    ]


def _source(name: str, answer: Answer, seeds: Seeds | None, numbers: Sequence[tuple[Pair, Both | None]]) -> str:
    """'Paper: holds, 3 of 5 comparisons, 1 equal, 1 not measured'"""
    known = [(pair, both) for pair, both in numbers if both is not None]
    if not known:
        return f"{name}: no number"
    if len(numbers) == 1:
        return f"{name}: {answer}{seeds_said(seeds)}, {_against(known[0][1])}"
    right = sum(bool(pair.ordered(both)) for pair, both in known)
    equal = sum(_same(both) and not pair.ordered(both) for pair, both in known)
    words = [f"{right} of {many(len(numbers), 'comparison')}"]
    words += [f"{equal} equal"] if equal else []
    words += [f"{len(numbers) - len(known)} not measured"] if len(known) < len(numbers) else []
    return f"{name}: {answer}{seeds_said(seeds)}, {', '.join(words)}"


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


def _both(first: float | None, second: float | None) -> Both | None:
    return None if first is None or second is None else (first, second)


def _by_seed(first: Number | None, second: Number | None) -> list[Both]:
    """The numbers of each seed; one that has no seeds, such as a count of qubits, stands beside all of the other."""
    if first is None or second is None:
        return []
    seeds = max(len(first.values), len(second.values))
    values = [each.values * seeds if len(each.values) == 1 else each.values for each in (first, second)]
    return list(zip(*values, strict=True)) if len(values[0]) == len(values[1]) else []
