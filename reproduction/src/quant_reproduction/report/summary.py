"""Reads a folder of results and compares it with the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quant_reproduction.grid.entries import ENTRIES
from quant_reproduction.grid.jobs import Job, Outcome, Store, all_pieces
from quant_reproduction.grid.paper import PROTOCOLS, Paper, PaperTable, paper
from quant_reproduction.grid.views import Entry
from quant_reproduction.report import compare
from quant_reproduction.report.claims import ANSWERS, RERUNS, Checked, check_claims
from quant_reproduction.report.compare import Compared, Measured, find_view
from qubolearn.errors import QubolearnError

#: Fields that every record must have, with their types.
RECORD: Mapping[str, Any] = {"metrics": dict, "seconds": (int, float), "machine": str, "versions": dict}

#: Counts of verdicts; 25 % includes 10 %.
COUNTED = ("within 10 %", "within 25 %", *compare.VERDICTS[1:])


@dataclass(frozen=True)
class Item:
    """An entry with the outcomes of its jobs."""

    name: str
    entry: Entry
    outcomes: tuple[Outcome, ...]

    @property
    def records(self) -> list[Mapping[str, Any]]:
        return [outcome.record for outcome in self.outcomes if outcome.record is not None]

    @property
    def missing(self) -> list[str]:
        """Names of the cells without a record, each once."""
        return list(dict.fromkeys(f"{o.job.row}, {o.job.column}" for o in self.outcomes if o.record is None))

    @property
    def errors(self) -> list[str]:
        """Messages of the failed jobs, each once."""
        return list(dict.fromkeys(outcome.error for outcome in self.outcomes if outcome.error))

    @property
    def training_seconds(self) -> float:
        return float(sum(record["metrics"].get("training_seconds", 0.0) for record in self.records))

    @property
    def seconds(self) -> float:
        return float(sum(record["seconds"] for record in self.records))

    @property
    def figures(self) -> list[tuple[Job, Mapping[str, Any]]]:
        """Figures of each row and column, of the first seed."""
        found: dict[tuple[str, str, str], tuple[Job, Mapping[str, Any]]] = {}
        for label in self.entry.figures:
            for outcome in self.outcomes:
                figure = (outcome.record or {}).get("metrics", {}).get(label, {}).get("figure")
                if figure is not None:
                    found.setdefault((label, outcome.job.row, outcome.job.column), (outcome.job, figure))
        return list(found.values())


def collect(results: Path, seeds: int, quick: bool) -> list[Item]:
    """Return every entry with the records that a folder has of its jobs."""
    store = Store(results)
    return [
        Item(name, entry, tuple(_outcome(store, job) for job in entry.jobs(seeds, quick)))
        for name, entry in ENTRIES.items()
    ]


def _outcome(store: Store, job: Job) -> Outcome:
    record, log = store.get(job), store.log(job)
    for name, kind in RECORD.items():
        if record is not None and not isinstance(record.get(name), kind):
            raise QubolearnError(
                f"{job.item}.jsonl is damaged: expected a field {name!r} for {job.name}; delete its line and rerun it"
            )
    if record is not None or not log.is_file():
        return Outcome(job, record)
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return Outcome(job, None, lines[0] if lines else "failed without a message")


@dataclass(frozen=True)
class Summary:
    """The result of a reproduction in a few numbers."""

    quick: bool
    seeds: int
    close: Mapping[str, int]  # protocol -> "Ours" numbers within 10 %
    cells: Mapping[str, Mapping[str, int]]  # protocol -> verdict -> count
    control: Mapping[str, Mapping[str, tuple[int, int]]]  # protocol -> method -> better, measured
    different: Mapping[str, int]  # protocol -> our distinct numbers
    claims: Mapping[str, Mapping[str, int]]  # a, r or c -> answer -> claims
    qubits: Mapping[str, Mapping[str, Mapping[str, float]]]  # problem -> method -> paper, ours
    machines: Sequence[str]
    jobs: int
    done: int
    grid: Mapping[str, Any] | None  # if one command ran all jobs of the folder

    def verdicts(self) -> list[tuple[str, ...]]:
        """Return one row per protocol: its name, and the numbers that ``COUNTED`` names."""
        counts = {each: (self.close[each], *self.cells[each].values()) for each in PROTOCOLS}
        return [(f"({each}) {name}", *map(str, counts[each])) for each, name in PROTOCOLS.items()]

    def answers(self) -> dict[str, str]:
        """Return how many claims hold and do not, by protocol."""
        shown = {each: of.items() for each, of in self.claims.items()}
        return {each: ", ".join(f"{name}: {n}" for name, n in of if n) for each, of in shown.items()}


@dataclass(frozen=True)
class Report:
    """All data that the page and the tables show."""

    results: Path
    paper: Paper
    items: Sequence[Item]
    found: Measured
    compared: Sequence[Compared]
    claims: Sequence[Checked]
    quick: bool
    seeds: int
    grid: Mapping[str, Any] | None

    @property
    def records(self) -> list[Mapping[str, Any]]:
        """The records of all items."""
        return [record for item in self.items for record in item.records]

    def of_table(self, table: PaperTable) -> list[Compared]:
        return [each for each in self.compared if each.table is table]

    def text(self, view: str, row: str, column: str) -> str:
        """Return the text of one of our cells."""
        cell = self.found.get(view, {}).get((row, column))
        return cell.text() if cell else "(not measured)"

    def claims_of(self, item: Item) -> list[Checked]:
        """Return the claims whose first table is shown in this item."""
        return [each for each in self.claims if find_view(each.pairs[0].table.view)[0] == item.name]

    @property
    def summary(self) -> Summary:
        answers = {source: [each.answer(source) for each in self.claims] for source in RERUNS}
        qubits: dict[str, dict[str, dict[str, float]]] = {}
        for each in self.compared:
            ours = each.numbers["c"]
            if each.metric == "physical_mean" and ours is not None:
                qubits.setdefault(each.row, {})[each.column] = {"paper": float(each.paper), "ours": ours.mean}
        return Summary(
            quick=self.quick,
            seeds=self.seeds,
            close={each: compare.count_close(self.compared, each) for each in PROTOCOLS},
            cells={each: {**compare.count_verdicts(self.compared, each)} for each in PROTOCOLS},
            different={each: compare.count_different(self.compared, each) for each in PROTOCOLS},
            control={each: compare.count_controls(self.compared, each) for each in PROTOCOLS},
            claims={each: {answer: of.count(answer) for answer in ANSWERS} for each, of in answers.items()},
            qubits=qubits,
            machines=sorted({str(record["machine"]) for record in self.records}),
            jobs=sum(len(item.outcomes) for item in self.items),
            done=len(self.records),
            grid=self.grid,
        )


def gather(results: Path, quick: bool, seeds: int) -> Report:
    """Read the result files and compare them with the paper."""
    items, source = collect(results, seeds, quick), paper()
    found = {view.name: view.cells(item.outcomes) for item in items for view in item.entry.views}
    compared, claims = compare.compare(source, found), check_claims(source, found)
    outcomes, grid = [outcome for item in items for outcome in item.outcomes], None
    made = all_pieces(Store(results), [outcome.job for outcome in outcomes])
    if made is not None and all(outcome.record for outcome in outcomes):
        grid = {"seconds": made["seconds"], "machine": made["machine"], "pieces": len(made["pieces"])}
    return Report(results, source, items, found, compared, claims, quick, seeds, grid)
