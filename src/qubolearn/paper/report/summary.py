"""What stands on top of the page, as plain numbers; the page and the tables are made of the same comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qubolearn.paper.grid.jobs import Store, by_code, code_note
from qubolearn.paper.grid.paper import PROTOCOLS, Paper, PaperTable, Protocol, paper
from qubolearn.paper.grid.pieces import all_pieces
from qubolearn.paper.report.claims import ANSWERS, Checked, check_claims
from qubolearn.paper.report.collect import Item, Measured, collect, measured
from qubolearn.paper.report.compare import Compared, compare, control, counts, different
from qubolearn.paper.report.speed import Speed, speeds, total

__all__ = ["Grid", "Report", "Summary", "gather"]


@dataclass(frozen=True)
class Grid:
    """What all jobs took as one command, which may have been stopped and run again."""

    seconds: float
    machine: str
    pieces: int = 1

    @property
    def where(self) -> str:
        """The machine, and where they are several the pieces."""
        return f"{self.machine}, in {self.pieces} pieces" if self.pieces > 1 else self.machine


@dataclass(frozen=True)
class Time:
    """Of the trainings that both did."""

    trainings: int
    paper_hours: float
    seconds: float
    faster: float | None  # paper_hours / seconds


@dataclass(frozen=True)
class Summary:
    """The result of a reproduction in a few numbers."""

    quick: bool
    seeds: int
    cells: Mapping[str, Mapping[str, int]]  # protocol -> verdict -> the paper's "Ours" numbers that got it
    control: Mapping[str, Mapping[str, tuple[int, int]]]  # protocol -> Diag, Pure -> better than Ours, of so many
    different: Mapping[str, int]  # protocol -> numbers of ours behind all of them, each once
    claims: Mapping[str, Mapping[str, int]]  # a or c -> answer -> claims
    times: Mapping[str, Time]  # a or c
    qubits: Mapping[str, Mapping[str, Mapping[str, float]]]  # problem -> method -> physical qubits: paper, ours
    machines: Sequence[str]
    jobs: int
    done: int
    grid: Grid | None  # where the folder says that its jobs were run in one go

    @property
    def rival(self) -> tuple[float, float] | None:
        """Qubits of the learned QUBO and of the next best, of the problem where they are nearest; Diag is no rival."""
        pairs = []
        for methods in self.qubits.values():
            others = [pair["ours"] for method, pair in methods.items() if method not in ("Ours", "Diag")]
            if "Ours" in methods and others:
                pairs.append((methods["Ours"]["ours"], min(others)))
        return min(pairs, key=lambda pair: (pair[1] / pair[0], *pair), default=None)


@dataclass(frozen=True)
class Report:
    """All that the page shows."""

    paper: Paper
    items: Sequence[Item]
    found: Measured
    compared: Sequence[Compared]
    claims: Sequence[Checked]
    speeds: Mapping[Protocol, Sequence[Speed]]  # under (a) and (c)
    quick: bool
    seeds: int
    grid: Grid | None

    @property
    def records(self) -> list[Mapping[str, Any]]:
        """Those of all items."""
        return [record for item in self.items for record in item.records]

    def of_table(self, table: PaperTable) -> list[Compared]:
        return [each for each in self.compared if each.table is table]

    def guess(self, table: PaperTable) -> str:
        """What random guessing gives in a table, "" where that means nothing; of rotations it is measured."""
        cell = self.found.get("rotation", {}).get(("L5 H78", "guess"))
        return table.guess.replace("{rotation}", cell.text() if cell else "(not measured)")

    def counted_in(self, item: Item) -> list[Compared]:
        """The numbers that the summary counts and that this item shows."""
        names = {view.name for view in item.entry.views}
        return [each for each in self.compared if each.counted and each.table.view in names]

    def claims_of(self, item: Item) -> list[Checked]:
        """The claims whose first table is shown in this item."""
        names = {view.name for view in item.entry.views}
        return [checked for checked in self.claims if checked.pairs_table(self.paper).view in names]

    def better_in(self, item: Item) -> str:
        """How many of an item's counted numbers are better, under each protocol."""
        mine = self.counted_in(item)
        found = [str(sum(each.verdict(protocol) == "better" for each in mine)) for protocol in PROTOCOLS]
        return f"{' / '.join(found)} of {len(mine)}" if mine else "–"

    def holding_in(self, item: Item) -> str:
        """How many of an item's claims hold, under (a) and (c)."""
        mine = self.claims_of(item)
        found = [str(sum(each.found(source) == "holds" for each in mine)) for source in ("a", "c")]
        return f"{' / '.join(found)} of {len(mine)}" if mine else "–"

    @property
    def left_over(self) -> tuple[list[PaperTable], list[Checked]] | None:
        """Tables and claims that no item shows: nothing is passed over in silence."""
        names = {view.name for item in self.items for view in item.entry.views}
        tables = [table for table in self.paper.tables if table.view not in names]
        claims = [checked for checked in self.claims if checked.pairs_table(self.paper).view not in names]
        return (tables, claims) if tables or claims else None

    @property
    def code(self) -> str:
        """One sentence on how many records were made by this code."""
        return code_note(by_code(self.records))

    @property
    def summary(self) -> Summary:
        answered: dict[str, dict[str, int]] = {}
        for source in ("a", "c"):
            answers = [checked.found(source) for checked in self.claims]
            answered[source] = {answer: answers.count(answer) for answer in ANSWERS}
        methods = ("Diag", "Pure")
        return Summary(
            quick=self.quick,
            seeds=self.seeds,
            cells={each: {str(v): count for v, count in counts(self.compared, each).items()} for each in PROTOCOLS},
            different={each: different(self.compared, each) for each in PROTOCOLS},
            control={each: {m: control(self.compared, each, m) for m in methods} for each in PROTOCOLS},
            claims=answered,
            times={each: _time(total(speeds)) for each, speeds in self.speeds.items()},
            qubits=_qubits(self.compared),
            machines=sorted({machine for item in self.items for machine in item.machines}),
            jobs=sum(len(item.outcomes) for item in self.items),
            done=len(self.records),
            grid=self.grid,
        )


def _time(speed: Speed) -> Time:
    return Time(speed.trainings, speed.paper_hours, speed.seconds, speed.ratio)


def _qubits(compared: Sequence[Compared]) -> dict[str, dict[str, dict[str, float]]]:
    found: dict[str, dict[str, dict[str, float]]] = {}
    for each in compared:
        ours = each.numbers["c"]
        if each.metric == "physical_mean" and ours is not None:
            both = {"paper": float(each.paper), "ours": ours.mean}
            found.setdefault(each.row, {})[each.column] = both
    return found


def gather(results: Path, quick: bool, seeds: int) -> Report:
    """Read the result files and compare them with the paper."""
    items = collect(results, seeds, quick)
    found, source = measured(items), paper()
    compared, claims = compare(source, found), check_claims(source, found)
    timed = [] if quick else compared  # a quick run trains too short for its times to mean anything
    fast: dict[Protocol, Sequence[Speed]] = {each: speeds(source, timed, each) for each in ("a", "c")}
    return Report(source, items, found, compared, claims, fast, quick, seeds, _grid(results, items))


def _grid(results: Path, items: Sequence[Item]) -> Grid | None:
    """What one command took, where it did what these items ask for."""
    outcomes = [outcome for item in items for outcome in item.outcomes]
    made = all_pieces(Store(results), [outcome.job for outcome in outcomes])
    if made is None or not all(outcome.record for outcome in outcomes):
        return None
    return Grid(float(made["seconds"]), str(made["machine"]), len(made.get("pieces", [1])))
