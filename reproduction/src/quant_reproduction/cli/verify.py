"""``quant reproduce --verify N``: rerun records and compare them with the stored ones."""

from __future__ import annotations

import argparse
import math
import random
import re
import secrets
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple

from quant_reproduction.cli.common import Output, progress, stop_on_signals
from quant_reproduction.grid.jobs import Job, Outcome, Store, record_digest
from quant_reproduction.grid.runner import run_jobs
from qubolearn.errors import QubolearnError
from qubolearn.provenance import code, provenance

__all__ = ["AGAIN", "MOST_SECONDS", "TOLERANCE", "Again", "Judged", "choose", "difference", "judge", "verify"]


def verify(
    args: argparse.Namespace, grid: Sequence[Job], store: Store, output: Output, pool_of: Callable[..., Any]
) -> int:
    """Rerun records of these jobs; return 1 if a number is beyond tolerance and spread, or a job fails."""
    import torch

    records = {job: record for job in grid if (record := store.get(job))}
    seed = secrets.randbelow(10**6) if args.seed is None else args.seed
    gpu = args.device != "cpu" and torch.cuda.is_available()
    jobs, skipped = choose(records, args.verify, seed, args.most_seconds, gpu)
    for reason, number in skipped.items():
        output.errors.print(f"skipping {number} of {len(records)} records: {reason}")
    if not jobs:
        raise QubolearnError(f"no record in {store.folder} can be rerun; run quant reproduce, or see --list")
    again, workers = TemporaryDirectory(), pool_of(args, len(jobs))
    with again as folder, stop_on_signals() as caught, workers as pool, progress(output, len(jobs)) as watch:
        outcomes = run_jobs(jobs, Store(Path(folder)), pool, watch, lambda: bool(caught))
    cells = defaultdict(list)
    for job, record in records.items():
        cells[job.item, job.row, job.column].append(record["metrics"])

    def compare(outcome: Outcome) -> dict[str, Any]:
        job = outcome.job
        if outcome.record is None:
            return {"job": job.name, "again": "failed", "difference": math.inf, "where": outcome.error}
        seeds = cells[job.item, job.row, job.column]
        found = judge(records[job]["metrics"], outcome.record["metrics"], seeds, args.tolerance)
        return {"job": job.name, **found._asdict()}

    rows = [compare(outcome) for outcome in outcomes]
    table = [[row["job"], row["again"], f"{row['difference']:.1e}", row["where"]] for row in rows]
    output.table(
        f"{len(rows)} records rerun, chosen by --seed {seed}", ["record", "again", "difference", "where"], table
    )
    counts = Counter(row["again"] for row in rows)
    shown = [f"{counts[name]} {text}" for name, text in AGAIN.items() if counts[name] or name in ("equal", "beyond")]
    output.say(f"{', '.join(shown)}; the tolerance is {100 * args.tolerance:g} %")
    plain = [{**row, "difference": row["difference"] if row["difference"] < math.inf else None} for row in rows]
    date = datetime.now(UTC).isoformat(timespec="seconds")
    choice = {"seed": seed, "tolerance": args.tolerance, "most_seconds": args.most_seconds, "left_out": skipped}
    made = {"date": date, **code(), "source": record_digest(), **provenance()}
    output.result(records=plain, of=len(records), **choice, **counts, **made)
    if caught:
        output.errors.print(f"stopped; {len(rows)} of {len(jobs)} records were rerun")
        return 128 + caught[0]
    return 1 if counts["beyond"] or counts["failed"] else 0


#: Relative difference up to which numbers count as reproduced: machines and versions round differently.
TOLERANCE = 0.01
#: Records that would take longer here are not chosen, unless requested.
MOST_SECONDS = 120.0
#: Numbers are compared relative to the larger one, but never to less than this: 1e-7 and 2e-7 degrees are both none.
SMALL = 1e-3
#: How sure the interval of a cell's spread is, for all numbers of a record together.
LEVEL = 0.99
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")

Again = Literal["equal", "close", "spread", "alone", "beyond", "failed"]
#: Outcomes of a record that was rerun.
AGAIN: Mapping[Again, str] = {
    "equal": "equal in all digits",
    "close": "within the tolerance",
    "spread": "within the spread of the cell's seeds and splits",
    "alone": "different, of a cell with one seed, which has no spread",
    "beyond": "beyond all that",
    "failed": "failed",
}


class Judged(NamedTuple):
    """The outcome of a record, and its number with the largest relative difference."""

    again: Again
    difference: float
    where: str


def choose(
    records: Mapping[Job, Mapping[str, Any]], count: int, seed: int, most_seconds: float, gpu: bool
) -> tuple[list[Job], Mapping[str, int]]:
    """Return ``count`` random jobs, and how many were skipped because they would take longer than ``most_seconds``.

    What ran on a GPU says nothing about its seconds on a CPU: without a ``gpu`` these follow from steps and bits.
    """
    from quant_reproduction.grid.cost import SECONDS_PER_STEP_AND_BIT, effort  # not at the top: it needs torch

    left_out, fit = Counter[str](), []
    for job, record in records.items():
        there = "cores, " in record["machine"]  # the GPU is named behind the cores
        training = record["metrics"].get("training_seconds", 0.0)  # by another job of its run, if that is longer
        seconds = effort(job) * SECONDS_PER_STEP_AND_BIT if there and not gpu else max(record["seconds"], training)
        if seconds > most_seconds:
            where = "on a GPU, and on a CPU would take" if there and not gpu else "and took"
            left_out[f"made {where} more than {most_seconds:g} s"] += 1
        else:
            fit.append(job)
    return random.Random(seed).sample(fit, min(count, len(fit))), left_out


def judge(old: Any, new: Any, seeds: Sequence[Any], tolerance: float = TOLERANCE) -> Judged:
    """Compare the metrics of a record that was rerun with the old ones.

    Args:
        old, new: metrics.
        seeds: metrics of all seeds of the same cell, the old ones among them.
        tolerance: of the relative difference.

    The spread is Student's interval for one more seed, over the values of all seeds, and holds with 99 % for all
    numbers of a record together. Three seeds say little about a spread: their interval is wide.

    >>> seeds = [{"test": {"accuracy": value}} for value in (0.7, 0.75, 0.8, 0.72)]
    >>> [judge(seeds[0], {"test": {"accuracy": value}}, seeds).again for value in (0.7, 0.705, 0.82, 0.2)]
    ['equal', 'close', 'spread', 'beyond']
    """
    far, where = difference(old, new)
    if far <= tolerance:
        return Judged("close" if far else "equal", far, where if far else "")
    off = {name: far for name, far in _differences(old, new, "") if far > tolerance}
    if any(math.isinf(far) for far in off.values()):
        return Judged("beyond", far, where)
    if len(seeds) < 2:
        return Judged("alone", far, where)
    fresh, known = _scalars(new), [_scalars(each) for each in seeds]
    values = {name: [each[name] for each in known if name in each] for name in fresh if name in off}
    known_spread = {name: some for name, some in values.items() if len(some) > 1}  # a metric may be of one seed alone
    outside = [name for name, some in known_spread.items() if not _within(some, fresh, name)]
    if outside or not values:
        return Judged("beyond", far, where if not outside else max(outside, key=off.__getitem__))
    return Judged("spread" if len(known_spread) == len(values) else "alone", far, where)


def _within(values: Sequence[float], fresh: Mapping[str, float], name: str) -> bool:
    """Return True if a number is within the interval of one more seed."""
    from scipy.special import stdtrit  # not at the top: help of commands waits for nothing

    n = len(values)
    quantile = float(stdtrit(n - 1, 1 - (1 - LEVEL) / 2 / len(fresh)))
    half = quantile * statistics.stdev(values) * math.sqrt(1 + 1 / n)
    return abs(fresh[name] - statistics.fmean(values)) <= half


def _scalars(metrics: Any, name: str = "") -> dict[str, float]:
    """All single numbers by name, but for times."""
    if isinstance(metrics, Mapping):
        parts = [_scalars(value, f"{name} {key}".strip()) for key, value in metrics.items() if _compared(key)]
        return {key: value for part in parts for key, value in part.items()}
    return {name: float(metrics)} if isinstance(metrics, (int, float)) else {}


def _compared(key: str) -> bool:
    return key not in ("device", "scores", "trained_together") and not key.endswith("seconds")


def difference(old: Any, new: Any) -> tuple[float, str]:
    """The largest relative difference between the metrics of two records, and the name of the number that has it.

    0 means equal digits. A list of numbers is compared relative to its largest one. Infinite where a metric is gone or
    a text has other words; times, devices, packed scores and metrics of the new record alone are not compared.

    >>> difference({"test": {"accuracy": 0.5, "seconds": 3}}, {"test": {"accuracy": 0.375, "seconds": 4, "more": 1}})
    (0.25, 'test accuracy')
    """
    return max(((far, name) for name, far in _differences(old, new, "")), default=(0.0, ""))


def _differences(old: Any, new: Any, name: str) -> Iterator[tuple[str, float]]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in old:
            if _compared(key):
                yield from _differences(old[key], new.get(key), f"{name} {key}".strip())
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        if all(isinstance(value, (int, float)) for value in (*old, *new)):
            yield name, _relative(old, new)
        else:
            for index, both in enumerate(zip(old, new, strict=True)):
                yield from _differences(*both, f"{name} {index}")
    elif isinstance(old, str) and isinstance(new, str) and NUMBER.sub("#", old) == NUMBER.sub("#", new):
        numbers = zip(*(map(float, NUMBER.findall(text)) for text in (old, new)), strict=True)
        yield name, max((_relative([a], [b]) for a, b in numbers), default=0.0)
    elif isinstance(old, (int, float)) and isinstance(new, (int, float)):
        yield name, _relative([old], [new])
    else:
        yield name, 0.0 if old == new else math.inf


def _relative(old: Sequence[float], new: Sequence[float]) -> float:
    largest = max((abs(value) for value in (*old, *new)), default=0.0)
    return max((abs(a - b) for a, b in zip(old, new, strict=True)), default=0.0) / max(largest, SMALL)
