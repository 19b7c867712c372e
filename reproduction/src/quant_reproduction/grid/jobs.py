"""A grid of small jobs, each stored as a line of JSON when done: a record.

A job that has a record is not run again: its key is what was requested, and the record states which code, data and
machine made it. :mod:`quant_reproduction.grid.runner` runs the others.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from qubolearn.errors import QubolearnError
from qubolearn.files import lock_folder, make_folder, read_json, read_text, write_atomic, write_json
from qubolearn.provenance import code, provenance, source_digest

__all__ = [
    "Job",
    "Outcome",
    "Place",
    "Store",
    "add_piece",
    "all_pieces",
    "by_code",
    "code_note",
    "digest",
    "record_digest",
    "run_job",
]

Place = tuple[str, str, int]  # row, column, seed
MAX_RECORDS = 2**28  # bytes of one file
PACKAGE = Path(__file__).parents[1]
ONLY_SHOW = ("cli", "report")  # no number in a record depends on these parts of the package


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
        """Return a digest of task, options as given, and seed. New defaults and other code do not change it."""
        text = json.dumps([self.task, self.options, self.seed], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def name(self) -> str:
        """Return the name for people: 'randgraph L5 H78, quant, best, seed 0'."""
        return f"{self.item} {self.row}, {self.column}, seed {self.seed}"

    @property
    def slug(self) -> str:
        """Return the name for files."""
        return "".join(letter if letter.isalnum() or letter in "-.=" else "_" for letter in self.name.lower())

    @property
    def place(self) -> Place:
        """Return what distinguishes the jobs of an item."""
        return self.row, self.column, self.seed

    @property
    def file(self) -> str:
        """Return the file of the item's records."""
        return f"{self.item}.jsonl"


@dataclass(frozen=True)
class Outcome:
    """A job with its record, or with its error in one line."""

    job: Job
    record: Mapping[str, Any] | None
    error: str | None = None
    log: str = field(default="", repr=False)  # more about the error


class Store:
    """A folder of records: ``folder/ITEM.jsonl`` has one line of JSON per finished job.

    Lines are appended under a lock of the folder, so several processes may write. A process that is killed while it
    writes leaves at most a torn last line, which readers skip and the next writer removes.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._read: dict[str, tuple[object, dict[Place, dict[str, Any]]]] = {}

    def path(self, job: Job) -> Path:
        return self.folder / job.file

    def log(self, job: Job) -> Path:
        """Return the path of a failed job's log, which is kept until the job is done."""
        return self.folder / "logs" / f"{job.slug}.log"

    def get(self, job: Job) -> Mapping[str, Any] | None:
        """Return the record of a finished job, unless its job had other options."""
        record = self._records(self.path(job)).get(job.place)
        return record if record is not None and record.get("key") == job.key else None

    def put(self, outcome: Outcome) -> None:
        """Store the record of a finished job in place of an older one, or the log of a failed job."""
        job, log = outcome.job, self.log(outcome.job)
        make_folder(self.folder if outcome.record is not None else log.parent)
        if outcome.record is None:
            write_atomic(log, f"{outcome.error}\n\n{outcome.log}".encode())
            return
        with lock_folder(self.folder, wait=True):
            path = self.path(job)
            known = self._records(path)
            line = _line(outcome.record)
            if job.place in known:
                lines = [line if place == job.place else _line(record) for place, record in known.items()]
                write_atomic(path, b"".join(lines))
            else:
                _append(path, line)
        log.unlink(missing_ok=True)

    def _records(self, path: Path) -> dict[Place, dict[str, Any]]:
        """Return the records of a file by place; the file is read again only if it has changed."""
        try:
            found = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return {}
        stamp = (found.st_ino, found.st_size, found.st_mtime_ns)
        if path.name not in self._read or self._read[path.name][0] != stamp:
            self._read[path.name] = stamp, _parse(path)
        return self._read[path.name][1]


def _line(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def _append(path: Path, line: bytes) -> None:
    """Append a line, after removing what a killed process left of its last one."""
    with open(path, "ab") as file:
        whole = path.read_bytes().rfind(b"\n") + 1
        file.truncate(whole)
        file.write(line)
        file.flush()
        os.fsync(file.fileno())


def _parse(path: Path) -> dict[Place, dict[str, Any]]:
    found: dict[Place, dict[str, Any]] = {}
    lines = read_text(path, MAX_RECORDS).split("\n")[:-1]  # what follows the last line end is nothing, or torn
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
            found[record["job"]["row"], record["job"]["column"], record["job"]["seed"]] = record
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise QubolearnError(
                f"{path} is damaged in line {number} ({type(error).__name__}); delete the line and reproduce it"
            ) from error
    return found


def digest(jobs: Iterable[Job]) -> str:
    """Return a digest that changes if any of the jobs has other options."""
    return hashlib.sha256(" ".join(job.key for job in jobs).encode()).hexdigest()[:16]


def run_job(job: Job) -> Outcome:
    """Run one job; an error becomes part of the outcome."""
    from quant_reproduction.datasets.files import files_read
    from quant_reproduction.grid.tasks import TASKS  # not at the top: these need torch, and lists of jobs do not

    began = time.perf_counter()
    try:
        with files_read() as data:
            metrics = TASKS[job.task](job.seed, **job.options)
        seconds = round(time.perf_counter() - began, 3)
        date = datetime.now(UTC).isoformat(timespec="seconds")
        made = {"date": date, **code(), "source": record_digest(), "data": data, **provenance()}
        record = {"key": job.key, "job": asdict(job), "metrics": metrics, "seconds": seconds, **made}
        json.dumps(record, allow_nan=False)  # what cannot be stored is this job's error, not the grid's
    except QubolearnError as error:
        return Outcome(job, None, " ".join(str(error).split()), traceback.format_exc())
    except Exception as error:
        return Outcome(job, None, " ".join(f"{type(error).__name__}: {error}".split()), traceback.format_exc())
    return Outcome(job, record)


@cache
def record_digest() -> str:
    """Return a digest of the source of qubolearn and of this package, without what only prints and draws."""
    found = hashlib.sha256(source_digest().encode())
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.relative_to(PACKAGE).parts[0] not in ONLY_SHOW:
            found.update(path.relative_to(PACKAGE).as_posix().encode() + path.read_bytes())
    return found.hexdigest()[:12]


def by_code(records: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Count the records made by ``this`` code, by ``other`` code, and by ``unknown`` code; all of them are valid."""
    sources = Counter(record.get("source") for record in records)
    this, unknown = sources.pop(record_digest(), 0), sources.pop(None, 0)
    return {"this": this, "other": sources.total(), "unknown": unknown}


def code_note(counts: Mapping[str, int]) -> str:
    """Return the counts of :func:`by_code` as one sentence.

    >>> code_note({"this": 3, "other": 1, "unknown": 444})
    'Of 448 records 3 were made by this code, 1 by other code, and 444 by unknown code.'
    """
    this, other, unknown = counts["this"], counts["other"], counts["unknown"]
    text = f"{this} were made by this code, {other} by other code, and {unknown} by unknown code"
    return f"Of {this + other + unknown} records {text}."


def add_piece(store: Store, jobs: Sequence[Job], before: int, piece: Mapping[str, Any]) -> None:
    """Add the jobs and seconds of a command to ``grid.json``, which has the time of all jobs of a folder.

    If other commands made some of the ``before`` records that were there, the time of the whole is not known.
    """
    path, keys = store.folder / "grid.json", digest(jobs)
    found = read_json(path) if before and path.is_file() else {}
    pieces = found.get("pieces", []) if found.get("keys") == keys else []
    if piece["jobs"] and sum(each["jobs"] for each in pieces) >= before:
        pieces = [*pieces, {**piece, **code()}]
        seconds = round(sum(each["seconds"] for each in pieces), 1)
        write_json(path, {"jobs": len(jobs), "keys": keys, "seconds": seconds, "pieces": pieces, **provenance()})


def all_pieces(store: Store, jobs: Sequence[Job]) -> Mapping[str, Any] | None:
    """Return ``grid.json`` if its pieces together made all of these jobs."""
    path = store.folder / "grid.json"
    found = read_json(path) if path.is_file() else {}
    made = sum(piece["jobs"] for piece in found.get("pieces", []))
    return found if found.get("keys") == digest(jobs) and made >= len(jobs) else None
