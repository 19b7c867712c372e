"""A grid of small jobs, each stored as a line of JSON when done: a record.

A job that has a record is not run again: its key is what was requested.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import time
import traceback
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from qubolearn.errors import QubolearnError
from qubolearn.files import lock_folder, make_folder, read_json, read_text, write_atomic, write_json
from qubolearn.provenance import code, provenance, source_digest

if TYPE_CHECKING:
    from torch import Tensor


Place = tuple[str, str, int]  # row, column, seed
MAX_RECORDS, MAX_BYTES = 2**28, 2**20  # bytes of one file that is read, and written
PACKAGE = Path(__file__).parents[1]
ONLY_SHOW = ("cli", "report")  # no number depends on these parts
OLD_ROWS = {"11 labels a cell": "11 labels per cell"}  # stored -> now
OLD_OPTIONS = {"neighbors": "neighbours", "standardize": "standardise"}  # names now -> names in keys


@dataclass(frozen=True)
class Job:
    """One cell of a table for one seed: a task and its options."""

    item: str  # the table or figure that it belongs to
    row: str
    column: str
    seed: int
    task: str  # a name in TASKS
    options: Mapping[str, Any]  # plain JSON

    def __hash__(self) -> int:
        return hash((self.item, self.row, self.column, self.seed))  # options may be a dict

    @property
    def key(self) -> str:
        """Return a digest of task, given options and seed, but not of the code."""
        text = json.dumps([self.task, self.options, self.seed], sort_keys=True)
        for name, old in OLD_OPTIONS.items():
            text = text.replace(f'"{name}":', f'"{old}":')
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def name(self) -> str:
        """Return the name for people."""
        return f"{self.item} {self.row}, {self.column}, seed {self.seed}"

    @property
    def slug(self) -> str:
        """Return the name for files."""
        return "".join(letter if letter.isalnum() or letter in "-.=" else "_" for letter in self.name.lower())

    @property
    def place(self) -> Place:
        """Return what distinguishes the jobs of an item."""
        return self.row, self.column, self.seed


@dataclass(frozen=True)
class Outcome:
    """A job with its record, or with its error in one line."""

    job: Job
    record: Mapping[str, Any] | None
    error: str | None = None
    log: str = field(default="", repr=False)  # more about the error


class Store:
    """A folder of records: ``folder/ITEM.jsonl`` has one line of JSON per finished job.

    Lines are appended under a lock of the folder. A process that is killed while it writes leaves
    at most a torn last line, which readers skip and the next writer removes.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._read: dict[str, tuple[object, dict[Place, dict[str, Any]]]] = {}

    def paths(self, item: str) -> list[Path]:
        """Return the files of an item: ITEM.jsonl, ITEM.2.jsonl ..., below a mebibyte each."""
        found = [self.folder / f"{item}.jsonl"]
        while (more := self.folder / f"{item}.{len(found) + 1}.jsonl").exists():
            found.append(more)
        return found

    def log(self, job: Job) -> Path:
        """Return the path of a failed job's log."""
        return self.folder / "logs" / f"{job.slug}.log"

    def get(self, job: Job) -> Mapping[str, Any] | None:
        """Return a job's record, unless it had other options."""
        for path in self.paths(job.item):
            record = self._records(path).get(job.place)
            if record is not None and record.get("key") == job.key:
                return record
        return None

    def put(self, outcome: Outcome) -> None:
        """Store a job's record in place of an older one, or its log."""
        job, log = outcome.job, self.log(outcome.job)
        make_folder(self.folder if outcome.record is not None else log.parent)
        if outcome.record is None:
            write_atomic(log, f"{outcome.error}\n\n{outcome.log}".encode())
            return
        with lock_folder(self.folder, wait=True):
            paths, line = self.paths(job.item), _line(outcome.record)
            for path in paths:
                if job.place in (known := self._records(path)):
                    lines = [line if place == job.place else _line(record) for place, record in known.items()]
                    write_atomic(path, b"".join(lines))
                    break
            else:
                if paths[-1].exists() and paths[-1].stat().st_size + len(line) > MAX_BYTES:
                    paths.append(self.folder / f"{job.item}.{len(paths) + 1}.jsonl")
                _append(paths[-1], line)
        log.unlink(missing_ok=True)

    def _records(self, path: Path) -> dict[Place, dict[str, Any]]:
        """Return the records of a file by place; cached."""
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
    """Append a line, after removing a torn last one."""
    with open(path, "ab") as file:
        whole = path.read_bytes().rfind(b"\n") + 1
        file.truncate(whole)
        file.write(line)
        file.flush()
        os.fsync(file.fileno())


def _parse(path: Path) -> dict[Place, dict[str, Any]]:
    found: dict[Place, dict[str, Any]] = {}
    lines = read_text(path, MAX_RECORDS).split("\n")[:-1]  # the rest is nothing, or torn
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
            row, column, seed = (record["job"][name] for name in ("row", "column", "seed"))
            found[OLD_ROWS.get(row, row), column, seed] = record
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
    from quant_reproduction.grid.tasks import TASKS  # imports torch

    began = time.perf_counter()
    try:
        with files_read() as data:
            metrics = TASKS[job.task](job.seed, **job.options)
        seconds = round(time.perf_counter() - began, 3)
        date = datetime.now(UTC).isoformat(timespec="seconds")
        made = {"date": date, **code(), "source": record_digest(), "data": data, **provenance()}
        record = {"key": job.key, "job": asdict(job), "metrics": metrics, "seconds": seconds, **made}
        json.dumps(record, allow_nan=False)  # what cannot be stored is this job's error
    except Exception as error:
        kind = "" if isinstance(error, QubolearnError) else f"{type(error).__name__}: "
        return Outcome(job, None, " ".join(f"{kind}{error}".split()), traceback.format_exc())
    return Outcome(job, record)


@cache
def record_digest() -> str:
    """Return a digest of both packages, without the code that only shows results."""
    found = hashlib.sha256(source_digest().encode())
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.relative_to(PACKAGE).parts[0] not in ONLY_SHOW:
            found.update(path.relative_to(PACKAGE).as_posix().encode() + path.read_bytes())
    return found.hexdigest()[:12]


def add_piece(store: Store, jobs: Sequence[Job], before: int, piece: Mapping[str, Any]) -> None:
    """Add jobs to ``grid.json``, unless others made some records."""
    path, keys = store.folder / "grid.json", digest(jobs)
    found = read_json(path) if before and path.is_file() else {}
    pieces = found.get("pieces", []) if found.get("keys") == keys else []
    if piece["jobs"] and sum(each["jobs"] for each in pieces) >= before:
        pieces = [*pieces, {**piece, **code()}]
        seconds = round(sum(each["seconds"] for each in pieces), 1)
        made = {"jobs": len(jobs), "keys": keys, "seconds": seconds, "pieces": pieces}
        write_json(path, {**made, **provenance()})


def all_pieces(store: Store, jobs: Sequence[Job]) -> Mapping[str, Any] | None:
    """Return ``grid.json`` if its pieces together made all of these jobs."""
    path = store.folder / "grid.json"
    found = read_json(path) if path.is_file() else {}
    made = sum(piece["jobs"] for piece in found.get("pieces", []))
    return found if found.get("keys") == digest(jobs) and made >= len(jobs) else None


#: Instances whose scores a record keeps.
KEPT = 200
STEPS = 100  # scores are kept in hundredths


def packed(scores: Tensor) -> str:
    """Return the first scores in hundredths: 16 bits each, deflated, in base 64."""
    kept = (scores[:KEPT].double().cpu().numpy() * STEPS).round().clip(0, 2**16 - 1)
    return base64.b64encode(zlib.compress(kept.astype("<u2").tobytes(), 9)).decode()


def unpacked(text: str) -> np.ndarray[Any, Any]:
    """Return the scores that :func:`packed` stored."""
    try:
        raw = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), 2 * KEPT)
        scores: np.ndarray[Any, Any] = np.frombuffer(raw, "<u2") / STEPS
    except (ValueError, zlib.error) as error:
        raise QubolearnError(f"scores of a record are damaged ({error}); reproduce it again") from error
    return scores
