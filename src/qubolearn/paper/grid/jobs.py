"""A grid of small jobs, each stored as one JSON file when done: a record.

A job that has a record is not run again, whatever became of the code since: its key is what was asked for, and the
record says which code, data and machine answered. A killed grid goes on where it was; a failed job is reported and
does not stop the others. Where jobs run is an engine's business (:mod:`qubolearn.paper.grid.engines`); the process
that calls :func:`run_jobs` alone writes the results.
"""

from __future__ import annotations

import hashlib
import json
import time
import traceback
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from qubolearn.errors import QubolearnError
from qubolearn.files import read_json, write_atomic, write_json
from qubolearn.provenance import code, provenance, source_digest

__all__ = [
    "Engine",
    "Event",
    "Events",
    "InThisProcess",
    "Job",
    "Outcome",
    "Started",
    "Store",
    "Work",
    "by_code",
    "code_note",
    "digest",
    "run_job",
    "run_jobs",
]


@dataclass(frozen=True)
class Job:
    """One cell of a table for one seed: which task, with which options."""

    item: str  # the table or figure that it belongs to
    row: str
    column: str
    seed: int
    task: str  # a name in TASKS
    options: Mapping[str, Any]  # plain JSON

    def __hash__(self) -> int:
        return hash((self.item, self.row, self.column, self.seed))  # options may be a dict, which has no hash

    @property
    def key(self) -> str:
        """What was asked for: task, options as given, seed. New defaults and other code do not change it."""
        text = json.dumps([self.task, self.options, self.seed], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def name(self) -> str:
        """What people call it: 'randgraph L5 H78, quant, best, seed 0'."""
        return f"{self.item} {self.row}, {self.column}, seed {self.seed}"

    @property
    def filename(self) -> str:
        words = f"{self.row}--{self.column}--seed{self.seed}".lower()
        return "".join(letter if letter.isalnum() or letter in "-.=" else "_" for letter in words) + ".json"


@dataclass(frozen=True)
class Started:
    """A job has been given to a worker; where one died over it before, ``note`` says so."""

    job: Job
    note: str = ""


@dataclass(frozen=True)
class Outcome:
    """A job and what came of it: its record, or the error in one line."""

    job: Job
    record: Mapping[str, Any] | None
    error: str | None = None
    log: str = field(default="", repr=False)  # what is known of an error beyond that line


Work = Callable[[Job], Outcome]


Event = Started | Outcome
Events = Generator[Event, None, None]


class Engine(Protocol):
    """Where jobs run."""

    @property
    def workers(self) -> int:
        """How many jobs run at a time, as far as that is known."""

    @property
    def on_gpu(self) -> int:
        """How many of them run on a GPU beside the others, where one is for those jobs alone that suit it."""

    def run(self, jobs: Sequence[Job], work: Work, stop: Callable[[], bool]) -> Events:
        """Start jobs in their order, and tell of each when it starts and when it has ended: one outcome for each.

        Where ``stop`` answers True or the generator is closed, running jobs are ended without an outcome.
        """


class InThisProcess:
    """The plainest engine: one job after the other, here."""

    workers, on_gpu = 1, 0

    def run(self, jobs: Sequence[Job], work: Work, stop: Callable[[], bool]) -> Events:
        for job in jobs:
            if stop():
                return
            yield Started(job)
            yield work(job)


@dataclass(frozen=True)
class Store:
    """A folder of results: ``folder/item/row--column--seed0.json``."""

    folder: Path

    def path(self, job: Job) -> Path:
        return self.folder / job.item / job.filename

    def log(self, job: Job) -> Path:
        """Where a failed job's log is kept until the job is done."""
        return self.path(job).with_suffix(".log")

    def get(self, job: Job) -> Mapping[str, Any] | None:
        """The record of a finished job, unless it answers another question."""
        path = self.path(job)
        if not path.is_file():
            return None
        record = read_json(path)
        return record if record.get("key") == job.key else None

    def put(self, outcome: Outcome) -> None:
        """Keep the record of a job that is done, or the log of one that failed."""
        path, log = self.path(outcome.job), self.log(outcome.job)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise QubolearnError(f"cannot use the folder {path.parent}: {error.strerror}") from error
        if outcome.record is None:
            write_atomic(log, f"{outcome.error}\n\n{outcome.log}".encode())
        else:
            write_json(path, outcome.record)
            log.unlink(missing_ok=True)


def digest(jobs: Iterable[Job]) -> str:
    """Changes when any of the jobs asks for something else."""
    return hashlib.sha256(" ".join(job.key for job in jobs).encode()).hexdigest()[:16]


def run_jobs(
    jobs: Sequence[Job],
    store: Store,
    engine: Engine | None = None,
    watch: Callable[[Event], None] = lambda event: None,
    stop: Callable[[], bool] = lambda: False,
    work: Work | None = None,
    command: str = "",
) -> list[Outcome]:
    """The outcomes of all jobs, those that are stored already included, in the order of ``jobs``.

    The longest are run first, so that no long one is left at the end. Where ``stop`` answers True, what has not ended
    has no outcome. New records say that ``command`` made them.
    """
    from qubolearn.paper.grid.schedule import Pace

    outcomes: dict[Job, Outcome] = {}
    pace = Pace()
    for job in dict.fromkeys(jobs):
        record = store.get(job)
        if record is not None:
            outcomes[job] = Outcome(job, record)
            pace.learn(job, record)
            watch(outcomes[job])
    left = sorted((job for job in dict.fromkeys(jobs) if job not in outcomes), key=pace.seconds, reverse=True)
    with closing((engine or InThisProcess()).run(left, work or run_job, stop)) as events:
        for event in events:
            if isinstance(event, Outcome):
                if event.record is not None and command:
                    event = replace(event, record={**event.record, "command": command})
                outcomes[event.job] = event
            watch(event)
            if isinstance(event, Outcome):  # after watch, which may count it: a kill in between counts it twice
                store.put(event)
    return [outcomes[job] for job in jobs if job in outcomes]


def run_job(job: Job, **more: Any) -> Outcome:
    """Run one job; an error becomes part of the outcome. ``more`` goes to its task, beside the job's options."""
    from qubolearn.paper.grid.tasks import TASKS  # not at the top: these need torch, and lists of jobs do not
    from qubolearn.problems.data import files_read

    began = time.perf_counter()
    try:
        with files_read() as data:
            metrics = TASKS[job.task](job.seed, **job.options, **more)
        seconds = round(time.perf_counter() - began + (more["made"][1] if "made" in more else 0.0), 3)
        made = {"date": datetime.now(UTC).isoformat(timespec="seconds"), **code(), "data": data, **provenance()}
        record = {"key": job.key, "job": asdict(job), "metrics": metrics, "seconds": seconds, **made}
        json.dumps(record, allow_nan=False)  # what cannot be stored is this job's error, not the grid's
    except QubolearnError as error:
        return Outcome(job, None, " ".join(str(error).split()), traceback.format_exc())
    except Exception as error:
        return Outcome(job, None, " ".join(f"{type(error).__name__}: {error}".split()), traceback.format_exc())
    return Outcome(job, record)


def by_code(records: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """How many records were made by ``this`` code, by ``other`` code, or do not say by which: ``unknown``.

    Records made before they held a digest of the source are unknown. None of this makes a record invalid.
    """
    sources = Counter(record.get("source") for record in records)
    this, unknown = sources.pop(source_digest(), 0), sources.pop(None, 0)
    return {"this": this, "other": sources.total(), "unknown": unknown}


def code_note(counts: Mapping[str, int]) -> str:
    """The counts of :func:`by_code` in one sentence.

    >>> code_note({"this": 3, "other": 1, "unknown": 444})
    'Of 448 records 3 were made by this code, 1 by other code, and 444 do not say by which.'
    """
    this, other, unknown = counts["this"], counts["other"], counts["unknown"]
    said = f"{this} were made by this code, {other} by other code, and {unknown} do not say by which"
    return f"Of {this + other + unknown} records {said}."
