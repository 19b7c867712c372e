"""Small grids, and jobs that hurt their worker.

``python grids.py ...`` is quant with one more item, ``tiny``.
With HOLD=3 seeds from 3 on never end, so that something is left
to stop.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from quant_reproduction.cli import main
from quant_reproduction.grid.entries import ENTRIES
from quant_reproduction.grid.jobs import Job, Outcome
from quant_reproduction.grid.tasks import TASKS
from quant_reproduction.grid.views import Entry, View

OVERRIDES = {"topology": "dense", "hidden": 16, "epochs": 25}
OVERRIDES |= {"instances": 1000, "batch_size": 50, "validation": 20}
GRAPHS = {"name": "randgraph", "k": 3}
OPTIONS = {"problem": GRAPHS, "protocol": "best", "overrides": OVERRIDES, "instances": 200}
VIEW = View("tiny", "A tiny grid", ("accuracy",))
TINY = Entry("A tiny grid", "", [Job("tiny", "L5 H16", "quant", 0, "train", OPTIONS)], (VIEW,))


def held(seed: int, **options: Any) -> dict[str, Any]:
    """Run ``train`` for seeds below HOLD, else never return."""
    if seed >= int(os.environ["HOLD"]):
        time.sleep(1000)
    return TRAIN(seed, **options)


TRAIN = TASKS["train"]
if "HOLD" in os.environ:  # here and in workers, which import this module
    cast(dict[str, Any], TASKS)["train"] = held


def job(seed: int, **options: Any) -> Job:
    return Job("item", "L5 H78", "quant, best", seed, "note", options)


def done(job: Job, **metrics: Any) -> Outcome:
    """Return an outcome without work."""
    return Outcome(job, {"key": job.key, "job": asdict(job), "metrics": metrics, "seconds": 0.0})


def accident(job: Job) -> Outcome:
    """Record the call; kill the worker for seeds 1 and, once, 2."""
    with Path(job.options["notes"]).open("a") as notes:
        notes.write(f"{job.seed}\n")
    runs = Path(job.options["notes"]).read_text().split().count(str(job.seed))
    if job.seed == 1 or (job.seed == 2 and runs == 1):
        print("last words", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    return done(job, pid=os.getpid())


def forever(job: Job) -> Outcome:
    """Return at once for seed 0, never for others."""
    if job.seed:
        time.sleep(1000)
    return done(job, pid=os.getpid())


def visible(job: Job) -> Outcome:
    """Return the GPUs that a job may see, instead of work."""
    time.sleep(0.3)  # so that no worker takes more than its share
    outcome = done(job)
    return Outcome(
        job, {**(outcome.record or {}), "gpus": os.environ.get("CUDA_VISIBLE_DEVICES"), "at": os.getpid()}
    )


def metrics(folder: Path) -> dict[int, Mapping[str, Any]]:
    """Return the metrics of the tiny grid by seed, without times."""
    path = folder / "tiny.jsonl"
    records = map(json.loads, path.read_text().splitlines() if path.exists() else [])
    return {record["job"]["seed"]: plain(record["metrics"]) for record in records}


def plain(value: Any) -> Any:
    """Return metrics without times."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items() if not name.endswith("seconds")}
    return value


def wait_until(happened: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def processes(group: int) -> list[int]:
    """Return the living processes of a group or session."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its_group, session = stat.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if group in (int(its_group), int(session)) and state != "Z":
            found.append(int(stat.parent.name))
    return found


if __name__ == "__main__":
    cast(dict[str, Entry], ENTRIES)["tiny"] = TINY
    sys.exit(main())
