"""A grid of small jobs, each a pure function of its description, stored as one JSON file when done.

A finished job is never run again unless its description or qubolearn's version changed; a killed grid goes on where
it was; a failed job is reported and does not stop the others.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from qubolearn.errors import QubolearnError
from qubolearn.experiments.tasks import TASKS, spelled_out
from qubolearn.provenance import provenance
from qubolearn.runs import read_json, write_json
from qubolearn.version import VERSION

__all__ = ["Job", "Outcome", "Store", "run_jobs"]


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
        return hash((self.item, self.row, self.column, self.key))  # options may be a dict, which has no hash

    @property
    def key(self) -> str:
        """Changes when the job would compute something else: presets and defaults are spelled out in it."""
        text = json.dumps([self.task, self.options, spelled_out(self.options), self.seed, VERSION], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def filename(self) -> str:
        words = f"{self.row}--{self.column}--seed{self.seed}".lower()
        return "".join(letter if letter.isalnum() or letter in "-.=" else "_" for letter in words) + ".json"


@dataclass(frozen=True)
class Outcome:
    """A job and what came of it: its stored record, or the error in one line."""

    job: Job
    record: Mapping[str, Any] | None
    error: str | None = None


@dataclass(frozen=True)
class Store:
    """A folder of results: ``folder/item/row--column--seed0.json``."""

    folder: Path

    def path(self, job: Job) -> Path:
        return self.folder / job.item / job.filename

    def get(self, job: Job) -> Mapping[str, Any] | None:
        """The record of a finished job, unless it is of another description."""
        path = self.path(job)
        if not path.is_file():
            return None
        record = read_json(path)
        return record if record.get("key") == job.key else None

    def put(self, job: Job, metrics: Mapping[str, Any], seconds: float) -> Mapping[str, Any]:
        path = self.path(job)
        path.parent.mkdir(parents=True, exist_ok=True)
        record = {"key": job.key, "job": asdict(job), "metrics": metrics, "seconds": round(seconds, 3), **provenance()}
        write_json(path, record)
        return record


def run_jobs(
    jobs: Sequence[Job], store: Store, processes: int = 1, report: Callable[[Outcome], None] = lambda outcome: None
) -> list[Outcome]:
    """All jobs, those that are stored already included; in the order of ``jobs``."""
    outcomes: dict[Job, Outcome] = {}
    for outcome in _outcomes(jobs, store, processes):
        outcomes[outcome.job] = outcome
        report(outcome)
    return [outcomes[job] for job in jobs]


def _outcomes(jobs: Sequence[Job], store: Store, processes: int) -> Iterator[Outcome]:
    left = []
    for job in jobs:
        record = store.get(job)
        if record is None:
            left.append(job)
        else:
            yield Outcome(job, record)
    if processes == 1:
        for job in left:
            yield run_job(job, store)
        return
    # spawn, since forked children of a process that has used threads or CUDA may hang
    threads = max(1, (os.cpu_count() or 1) // processes)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, spawn, initializer=torch.set_num_threads, initargs=(threads,)) as pool:
        for future in as_completed([pool.submit(run_job, job, store) for job in left]):
            yield future.result()


def run_job(job: Job, store: Store) -> Outcome:
    """Run one job and store its record; an error becomes part of the outcome."""
    began = time.perf_counter()
    try:
        metrics = TASKS[job.task](job.seed, **job.options)
    except QubolearnError as error:
        return Outcome(job, None, str(error))
    except Exception as error:
        traceback.print_exc()
        return Outcome(job, None, f"{type(error).__name__}: {error}")
    return Outcome(job, store.put(job, metrics, time.perf_counter() - began))
