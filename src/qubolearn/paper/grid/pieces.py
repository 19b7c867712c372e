"""How long all jobs of a folder took, in however many pieces they were run: ``DIR/grid.json``."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from qubolearn.files import read_json, write_json
from qubolearn.paper.grid.jobs import Engine, Event, Job, Started, Store, digest
from qubolearn.provenance import code, provenance

__all__ = ["Pieces", "all_pieces"]

FILE = "grid.json"


class Pieces:
    """Told of every event of a run of jobs, it keeps the seconds of this piece beside those of the pieces before.

    A piece is written with every job that is done, before its record is: one that is killed counts up to its last job.
    Where the folder holds records that no piece made, the time of the whole is not known, and nothing is written.
    """

    def __init__(self, store: Store, jobs: Sequence[Job], seeds: int, engine: Engine) -> None:
        self._path, self._began = store.folder / FILE, time.monotonic()
        self._whole = {"jobs": len(jobs), "seeds": seeds, "keys": digest(jobs)}
        done = sum(store.get(job) is not None for job in jobs)
        self._before = _known(store, self._whole["keys"]) if done else []
        self._kept = done < len(jobs) and sum(piece["jobs"] for piece in self._before) >= done
        self._mine: set[Job] = set()
        self._jobs, self._made = 0, provenance()
        where = {"processes": engine.workers, "on_gpu": engine.on_gpu, "machine": self._made["machine"]}
        self._piece = {"began": datetime.now(UTC).isoformat(timespec="seconds"), **where, **code()}

    def watch(self, event: Event) -> None:
        """Count a job that was started here and has a record now."""
        if isinstance(event, Started):
            self._mine.add(event.job)
        elif event.record is not None and event.job in self._mine:
            self._jobs += 1
            self.write()

    def write(self) -> None:
        """Say how long it has been until now."""
        if not (self._kept and self._jobs):
            return
        piece = {**self._piece, "jobs": self._jobs, "seconds": round(time.monotonic() - self._began, 1)}
        pieces = [*self._before, piece]
        seconds = round(sum(piece["seconds"] for piece in pieces), 1)
        self._path.parent.mkdir(parents=True, exist_ok=True)  # nothing else may be there yet
        write_json(self._path, {**self._whole, "seconds": seconds, "pieces": pieces, **self._made})


def _known(store: Store, keys: object) -> list[dict[str, Any]]:
    path = store.folder / FILE
    found = read_json(path) if path.is_file() else {}
    return list(found.get("pieces", [])) if found.get("keys") == keys else []


def all_pieces(store: Store, jobs: Sequence[Job]) -> Mapping[str, Any] | None:
    """What ``grid.json`` says, where its pieces together made all of these jobs."""
    path = store.folder / FILE
    found = read_json(path) if path.is_file() else {}
    made = sum(piece["jobs"] for piece in found["pieces"]) if "pieces" in found else found.get("jobs", 0)
    return found if found.get("keys") == digest(jobs) and made >= len(jobs) else None
