"""Result files -> the items of the report: what was asked for, what was found, what is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qubolearn.errors import QubolearnError
from qubolearn.paper.grid.entries import ENTRIES, Entry
from qubolearn.paper.grid.jobs import Job, Outcome, Store
from qubolearn.paper.grid.views import Cell

__all__ = ["Item", "Measured", "collect", "measured"]

#: What the page relies on in every record.
RECORD: Mapping[str, Any] = {"metrics": dict, "seconds": (int, float), "machine": str, "versions": dict}

Measured = Mapping[str, Mapping[tuple[str, str], Cell]]  # view -> (row, column) -> cell


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
        """Names of the jobs without a record, each once for all its seeds."""
        gone = [outcome.job for outcome in self.outcomes if outcome.record is None]
        return list(dict.fromkeys(f"{job.row}, {job.column}" for job in gone))

    @property
    def errors(self) -> list[str]:
        """What the failed jobs said, each once."""
        return list(dict.fromkeys(outcome.error for outcome in self.outcomes if outcome.error))

    @property
    def seeds(self) -> list[int]:
        """The seeds that have records."""
        return sorted({outcome.job.seed for outcome in self.outcomes if outcome.record is not None})

    @property
    def training_seconds(self) -> float:
        return float(sum(record["metrics"].get("training_seconds", 0.0) for record in self.records))

    @property
    def seconds(self) -> float:
        return float(sum(record["seconds"] for record in self.records))

    @property
    def machines(self) -> list[str]:
        return sorted({str(record["machine"]) for record in self.records})

    @property
    def versions(self) -> dict[str, list[str]]:
        """package -> the versions that records were made with."""
        found: dict[str, set[str]] = {}
        for record in self.records:
            for package, version in record["versions"].items():
                found.setdefault(package, set()).add(str(version))
        return {package: sorted(versions) for package, versions in found.items()}

    @property
    def figures(self) -> list[tuple[Job, Mapping[str, Any]]]:
        """The figures of each row and column; of several seeds, which look alike, the first."""
        found: dict[tuple[str, str, str], tuple[Job, Mapping[str, Any]]] = {}
        for label in self.entry.figures:
            for outcome in self.outcomes:
                figure = (outcome.record or {}).get("metrics", {}).get(label, {}).get("figure")
                if figure is not None:
                    found.setdefault((label, outcome.job.row, outcome.job.column), (outcome.job, figure))
        return list(found.values())


def collect(results: Path, seeds: int, quick: bool) -> list[Item]:
    """Every entry with the records that the folder holds of its jobs."""
    store = Store(results)
    return [
        Item(name, entry, tuple(_outcome(store, job) for job in entry.jobs(seeds, quick)))
        for name, entry in ENTRIES.items()
    ]


def _outcome(store: Store, job: Job) -> Outcome:
    """The record of a job, or the first line of its log where it failed."""
    record, log = store.get(job), store.log(job)
    for name, kind in RECORD.items():
        if record is not None and not isinstance(record.get(name), kind):
            raise QubolearnError(f"{store.path(job)} is damaged: no {name} in it; delete it and reproduce it")
    if record is not None or not log.is_file():
        return Outcome(job, record)
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return Outcome(job, None, lines[0] if lines else "it failed without a word")


def measured(items: Sequence[Item]) -> Measured:
    """The cells of every view."""
    return {view.name: view.cells(item.outcomes) for item in items for view in item.entry.views}
