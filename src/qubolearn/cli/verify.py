"""``qubolearn reproduce --verify N``: make records again and compare them with the stored ones."""

from __future__ import annotations

import argparse
import math
import secrets
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.markup import escape

from qubolearn.cli import reproduce
from qubolearn.cli.output import Output
from qubolearn.cli.train import stop_on_signals
from qubolearn.errors import QubolearnError
from qubolearn.paper.grid.jobs import Job, Outcome, Store, run_jobs
from qubolearn.paper.grid.verify import AGAIN, choose, judge
from qubolearn.provenance import code, provenance

__all__ = ["verify"]


def verify(args: argparse.Namespace, grid: Sequence[Job], store: Store, output: Output) -> int:
    """Make records of these jobs again; 1 where a number is beyond tolerance and spread, or a job fails."""
    import torch

    from qubolearn.cli.grid_progress import GridProgress

    records = {job: record for job in grid if (record := store.get(job))}
    seed = secrets.randbelow(10**6) if args.seed is None else args.seed
    gpu = args.device != "cpu" and torch.cuda.is_available()
    jobs, left_out = choose(records, args.verify, seed, args.most_seconds, gpu)
    for reason, count in left_out.items():
        output.errors.print(f"{count} of {len(records)} records are left out: {reason}")
    if not jobs:
        raise QubolearnError(f"no record in {store.folder} can be made again; run qubolearn reproduce, or see --list")
    engine = reproduce.engine_of(args, len(jobs))
    with TemporaryDirectory() as folder, stop_on_signals() as caught, GridProgress(output, jobs, engine) as progress:
        outcomes = run_jobs(jobs, Store(Path(folder)), engine, progress.watch, lambda: bool(caught))
    cells = defaultdict(list)
    for job, record in records.items():
        cells[cell_of(job)].append(record["metrics"])
    rows = [compared(records[each.job], each, cells[cell_of(each.job)], args.tolerance) for each in outcomes]
    table = [[row["job"], row["again"], f"{row['difference']:.1e}", escape(row["where"])] for row in rows]
    output.table(
        f"{len(rows)} records made again, chosen by --seed {seed}", ["record", "again", "difference", "where"], table
    )
    counts = Counter(row["again"] for row in rows)
    shown = [f"{counts[name]} {said}" for name, said in AGAIN.items() if counts[name] or name in ("equal", "beyond")]
    output.say(f"{', '.join(shown)}; the tolerance is {100 * args.tolerance:g} %")
    plain = [{**row, "difference": row["difference"] if row["difference"] < math.inf else None} for row in rows]
    made = {"date": datetime.now(UTC).isoformat(timespec="seconds"), **code(), **provenance()}
    choice = {"seed": seed, "tolerance": args.tolerance, "most_seconds": args.most_seconds, "left_out": left_out}
    output.result(records=plain, of=len(records), **choice, **counts, **made)
    if caught:
        output.errors.print(f"stopped; {len(rows)} of {len(jobs)} records were made again")
        return 128 + caught[0]
    return 1 if counts["beyond"] or counts["failed"] else 0


def cell_of(job: Job) -> tuple[str, str, str]:
    """What the seeds of a cell have in common."""
    return job.item, job.row, job.column


def compared(
    record: Mapping[str, Any], outcome: Outcome, seeds: Sequence[Mapping[str, Any]], tolerance: float
) -> dict[str, Any]:
    """Compare a record with the new outcome of its job; ``seeds`` are the metrics of all seeds of its cell."""
    if outcome.record is None:
        return {"job": outcome.job.name, "again": "failed", "difference": math.inf, "where": outcome.error}
    return {"job": outcome.job.name, **judge(record["metrics"], outcome.record["metrics"], seeds, tolerance)._asdict()}
