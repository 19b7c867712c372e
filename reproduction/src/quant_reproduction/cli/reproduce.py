"""``quant reproduce``: run jobs, or rerun records and compare."""

from __future__ import annotations

import argparse
import math
import os
import random
import re
import secrets
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple

from quant_reproduction.cli import concise_errors, progress, results_folder, stop_on_signals
from quant_reproduction.datasets.files import data_folder
from quant_reproduction.grid import runner
from quant_reproduction.grid.entries import ENTRIES
from quant_reproduction.grid.jobs import Job, Outcome, Store, add_piece, all_pieces, record_digest
from quant_reproduction.grid.runner import LocalPool, run_jobs
from quant_reproduction.grid.views import SEEDS, Entry
from qubolearn.cli.options import Output, count, seed
from qubolearn.errors import QubolearnError, unknown_name
from qubolearn.provenance import code, provenance

#: The paper's items under (a), (b) and (c); training through raw reads takes longer than all others.
PAPER = [n for n, each in ENTRIES.items() if each.paper and not n.startswith(("released", "training-raw"))]
EXAMPLES = {
    "reproduce": """examples:
  quant reproduce --list
  quant reproduce randgraph --quick
  quant reproduce all --seeds 3 --out reproduction/results
  quant reproduce all --part 2/4 --minutes 8                     one of four machines; run it again to resume
  quant reproduce --key 52d43a1c83f0b9de                         remake one record and compare
  quant reproduce --verify 3 --max-seconds 60                    rerun three of the records and compare

A job that fails does not stop the others; its log is in DIR/logs. Datasets are in QUBOLEARN_DATA: an item that is named
needs its own, `all` skips those without and prints why. Parts run on several machines; their ITEM.jsonl files are
joined by cat, line by line.

Exit codes: 0 done, 1 some jobs failed or differ from their records, 2 bad input or missing data, 130 interrupted, 143
terminated."""
}


def add_reproduce(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    text = f"{', '.join(ENTRIES)}; paper: those of the paper but (r) and training-raw; or all"
    parser.add_argument("items", nargs="*", metavar="ITEM", help=text)
    parser.add_argument("--list", action="store_true", help="list items, datasets and progress")
    parser.add_argument("--quick", action="store_true", help="a short run of every item, to show it works")
    parser.add_argument("--seeds", type=count, metavar="N", help=f"seeds per cell [{SEEDS}, quick: 1]")
    text = "folder of the records [reproduction/results, quick: runs/quick]"
    parser.add_argument("--out", metavar="DIR", help=text)
    parser.add_argument("--part", type=part, default=(0, 1), metavar="I/N", help="every N-th job [1/1]")
    parser.add_argument("--minutes", type=float, default=math.inf, metavar="M", help="stop after this time")
    text = f"jobs at a time on the cores [all that are free], or with --device cuda [{runner.JOBS_PER_GPU}]"
    parser.add_argument("--processes", type=count, metavar="N", help=text)
    text = "auto: large simulations and training runs use a GPU if there is one, all others the cores [auto]"
    parser.add_argument("--device", choices=("cpu", "cuda", "auto"), default="auto", help=text)
    again = parser.add_argument_group("rerunning records")
    again.add_argument("--key", help="rerun the record with this key and compare")
    again.add_argument("--verify", type=count, metavar="N", help="rerun N random records and compare")
    again.add_argument("--seed", type=seed, metavar="S", help="seed of the choice [random]")
    text = f"skip slower records [{MAX_SECONDS:g}]"
    again.add_argument("--max-seconds", type=float, default=MAX_SECONDS, metavar="M", help=text)


def part(text: str) -> tuple[int, int]:
    """Return (0, 4) for 1/4."""
    first, _, parts = text.partition("/")
    if not 1 <= int(first) <= int(parts):
        raise argparse.ArgumentTypeError(f"expected I/N with 1 <= I <= N, got {text}")
    return int(first) - 1, int(parts)


def run_reproduce(args: argparse.Namespace, output: Output) -> int:
    """Reproduce tables and figures of the paper, and ours alongside them: train and score every cell for several seeds.

    Finished jobs are stored and never run again; stop at any time and run the same command to resume. At the end an
    HTML page shows all records of the folder; DIR/grid.json has the time they took."""
    seeds = args.seeds if args.seeds is not None else (1 if args.quick else SEEDS)
    store = Store(results_folder(args.out, args.quick))
    grid = {name: ENTRIES[name].jobs(seeds, args.quick) for name in chosen_items(args.items or ["all"])}
    if args.verify is not None or args.key:
        jobs = [job for name in grid if not missing_data(ENTRIES[name], args.quick) for job in grid[name]]
        return verify(args, jobs, store, output)
    if args.list or not args.items:
        with concise_errors(store.folder):
            return list_items(grid, store, args.quick, output)
    named = not {"all", "paper"} & set(args.items)
    missing = skip_missing_data(grid, store, named, args.quick)
    for name, reason in missing.items():
        output.errors.print(f"skipping {name}: {reason}")
    first, parts = args.part
    grid = {name: jobs[first::parts] for name, jobs in grid.items()}
    jobs = [job for name in grid for job in grid[name]]
    before, began = sum(store.get(job) is not None for job in jobs), time.monotonic()
    end, loads = began + 60 * args.minutes, dict[int, float]()

    def stop() -> bool:
        loads[int(time.monotonic())] = os.getloadavg()[0]
        return bool(caught) or time.monotonic() > end

    suffix = " --quick" * args.quick + (f" --device {args.device}" if args.device != "auto" else "")
    with stop_on_signals() as caught, pool_of(args, len(jobs)) as pool, progress(output, len(jobs)) as watch:
        outcomes = run_jobs(jobs, store, pool, watch, stop, suffix)
    seconds = round(time.monotonic() - began, 1)
    failed = [outcome for outcome in outcomes if outcome.record is None]
    done = len(outcomes) - len(failed)
    if not named and not missing and parts == 1 and loads:
        load = {"mean_load": round(statistics.fmean(loads.values()), 1), "peak_load": max(loads.values())}
        add_piece(store, jobs, before, {"jobs": done - before, "seconds": seconds, **load})
    errors = [{"job": o.job.name, "error": o.error, "log": str(store.log(o.job))} for o in failed]
    result: dict[str, Any] = {"jobs": len(jobs), "done": done, "failed": errors, "missing_data": missing}
    result |= {"seconds": seconds, "out": str(store.folder)}
    report_failures(failed, store, output)
    if len(outcomes) < len(jobs):
        output.result(**result)
        kept = f"stopped; {done} of {len(jobs)} jobs are done and stored in {store.folder}"
        output.errors.print(f"{kept}; run the same command again to resume")
        return 128 + caught[0] if caught else 1
    tables = show(grid, outcomes, output)
    if (whole := all_pieces(store, jobs)) and not failed:
        result["whole"] = {"seconds": whole["seconds"], "pieces": len(whole["pieces"])}
    from quant_reproduction.report import write_report

    page = store.folder / "report.html"
    write_report(store.folder, page, args.quick, seeds)
    output.say(f"report: {page}")
    output.result(**result, report=str(page), results=tables)
    return 1 if failed else 0


def chosen_items(words: Sequence[str]) -> list[str]:
    """Return the names of entries, each once."""
    groups = {"all": list(ENTRIES), "paper": PAPER}
    for word in words:
        if word not in ENTRIES and word not in groups:
            raise unknown_name("item", word, [*ENTRIES, *groups])
    return list(dict.fromkeys(name for word in words for name in groups.get(word, [word])))


def list_items(grid: Mapping[str, Sequence[Job]], store: Store, quick: bool, output: Output) -> int:
    """Print the items: where in the paper, and how many jobs are done."""
    plain: dict[str, Any] = {}
    wide = 2 + max(len(entry.paper) for entry in ENTRIES.values())
    output.say(f"{'item':<18}{'in the paper':<{wide}}{'done':<12}what it shows ({store.folder})")
    for name, jobs in grid.items():
        entry = ENTRIES[name]
        done = sum(store.get(job) is not None for job in jobs)
        lacking, data = missing_data(entry, quick), entry.needs(quick).replace(" ", " and ")
        needs = f" [needs the dataset {data}{': missing' if lacking else ''}]" if data else ""
        paper, counted = entry.paper or "beyond it", f"{done} of {len(jobs)}"
        output.say(f"{name:<18}{paper:<{wide}}{counted:<12}{entry.title}{needs}")
        counts = {"jobs": len(jobs), "done": done, "data": data, "missing_data": lacking}
        plain[name] = {"title": entry.title, "paper": entry.paper, **counts}
    output.result(items=plain)
    return 0


def missing_data(entry: Entry, quick: bool) -> str:
    """Return how to get an entry's dataset if it is missing."""
    try:
        for name in entry.needs(quick).split():
            data_folder(name)
    except QubolearnError as error:
        return f"{error}, or run it with --quick, which generates its data" if entry.generated else str(error)
    return ""


def skip_missing_data(grid: dict[str, list[Job]], store: Store, named: bool, quick: bool) -> dict[str, str]:
    """Reduce items without data to their finished jobs, and return why."""
    reasons: dict[str, str] = {}
    for name, jobs in grid.items():
        reason = missing_data(ENTRIES[name], quick)
        done = [job for job in jobs if store.get(job) is not None] if reason else jobs
        if len(done) < len(jobs):
            if named:
                raise QubolearnError(f"{name}: {reason}")
            reasons[name] = reason
            grid[name] = done
    return reasons


def pool_of(args: argparse.Namespace, jobs: int) -> LocalPool:
    """Return the worker processes that the options request."""
    import torch

    if args.device == "cuda":
        if not torch.cuda.is_available():
            raise QubolearnError("--device cuda, but torch finds no GPU here; use cpu")
        return LocalPool(min(args.processes or runner.JOBS_PER_GPU, jobs or 1), "cuda")
    on_gpu = runner.room_on_gpu() if args.device == "auto" else 0
    free = max(1, runner.cores() - min(on_gpu, runner.BUSY_PER_GPU))  # no more busy jobs than cores
    return LocalPool(min(args.processes or free, jobs or 1), "cpu", on_gpu)


def show(grid: Mapping[str, object], outcomes: Sequence[Outcome], output: Output) -> dict[str, Any]:
    """Print the tables; return table -> "row | column" -> values."""
    from quant_reproduction.report.tables import cells_table

    plain = {}
    for name in grid:
        output.say(f"\n{ENTRIES[name].title}")
        for view in ENTRIES[name].views:
            cells = view.cells([outcome for outcome in outcomes if outcome.job.item == name])
            output.say(f"\n{view.title}\n\n{cells_table(cells)}" if cells else "")
            plain[view.name] = {f"{row} | {column}": cell.values for (row, column), cell in cells.items()}
    return plain


def report_failures(failed: Sequence[Outcome], store: Store, output: Output) -> None:
    """Print each error of an item once, with its number of jobs."""
    groups: dict[tuple[str, str | None], list[Job]] = {}
    for outcome in failed:
        groups.setdefault((outcome.job.item, outcome.error), []).append(outcome.job)
    for (_, error), jobs in groups.items():
        more = f" and {len(jobs) - 1} more" if len(jobs) > 1 else ""
        output.errors.print(f"failed: {jobs[0].name}{more}: {error} (log: {store.log(jobs[0])})")


def verify(args: argparse.Namespace, grid: Sequence[Job], store: Store, output: Output) -> int:
    """Rerun records; return 1 if one is beyond tolerance or fails."""
    import torch

    records = {job: record for job in grid if (record := store.get(job))}
    seed = secrets.randbelow(10**6) if args.seed is None else args.seed
    gpu = args.device != "cpu" and torch.cuda.is_available()
    if args.key:
        jobs, skipped = [job for job in records if job.key == args.key], Counter[str]()
    else:
        jobs, skipped = choose(records, args.verify, seed, args.max_seconds, gpu)
    for reason, number in skipped.items():
        output.errors.print(f"skipping {number} of {len(records)} records: {reason}")
    if not jobs:
        which = f"has the key {args.key}, or its dataset is missing" if args.key else "can be rerun"
        raise QubolearnError(f"no record in {store.folder} {which}; run quant reproduce, or see --list")
    again, workers = TemporaryDirectory(), pool_of(args, len(jobs))
    os.environ["QUBOLEARN_RELEASED"] = again.name  # nothing trained before is taken
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
        found = judge(records[job]["metrics"], outcome.record["metrics"], seeds, TOLERANCE)
        return {"job": job.name, **found._asdict()}

    rows = [compare(outcome) for outcome in outcomes]
    table = [[row["job"], row["again"], f"{row['difference']:.1e}", row["where"]] for row in rows]
    title = "" if args.key else f"{len(rows)} records rerun, chosen by --seed {seed}"
    output.table(title, ["record", "again", "difference", "where"], table)
    counts = Counter(row["again"] for row in rows)
    shown = [f"{counts[name]} {text}" for name, text in AGAIN.items() if counts[name]]
    output.say(f"{', '.join(shown)}; the tolerance is {100 * TOLERANCE:g} %")
    plain = [row | ({"difference": None} if math.isinf(row["difference"]) else {}) for row in rows]
    date = datetime.now(UTC).isoformat(timespec="seconds")
    choice = {"seed": seed, "tolerance": TOLERANCE, "most_seconds": args.max_seconds, "left_out": skipped}
    made = {"date": date, **code(), "source": record_digest(), **provenance()}
    output.result(records=plain, of=len(records), **choice, **counts, **made)
    if caught:
        output.errors.print(f"stopped; {len(rows)} of {len(jobs)} records were rerun")
        return 128 + caught[0]
    return 1 if counts["beyond"] or counts["failed"] else 0


#: Relative difference up to which numbers count as reproduced.
TOLERANCE = 0.01
#: Records that would take longer here are not chosen.
MAX_SECONDS = 120.0
#: Numbers are compared relative to the larger one, at least to this.
SMALL = 1e-3
#: Confidence for all numbers of a record together.
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
    """The outcome of a record, and its largest difference."""

    again: Again
    difference: float
    where: str


def choose(
    records: Mapping[Job, Mapping[str, Any]], count: int, seed: int, max_seconds: float, gpu: bool
) -> tuple[list[Job], Counter[str]]:
    """Return ``count`` random jobs, and how many would take too long."""
    left_out, fit = Counter[str](), []
    for job, record in records.items():
        there = "cores, " in record["machine"]  # the GPU is named behind the cores
        # another job of its run may have trained its network
        seconds = max(record["seconds"], record["metrics"].get("training_seconds", 0.0))
        if there and not gpu:
            seconds = runner.effort(job) * runner.SECONDS_PER_STEP_AND_BIT
        if seconds > max_seconds:
            where = "on a GPU, and on a CPU would take" if there and not gpu else "and took"
            left_out[f"made {where} more than {max_seconds:g} s"] += 1
        else:
            fit.append(job)
    return random.Random(seed).sample(fit, min(count, len(fit))), left_out


def judge(old: Any, new: Any, seeds: Sequence[Any], tolerance: float = TOLERANCE) -> Judged:
    """Compare the metrics of a record that was rerun with the old ones and those of all seeds.

    The spread is Student's 99 % interval for one more seed, for all numbers of a record together.
    """
    far, where = difference(old, new)
    if far <= tolerance:
        return Judged("close" if far else "equal", far, where if far else "")
    off = {name: far for name, far in _differences(old, new) if far > tolerance}
    if any(math.isinf(far) for far in off.values()):
        return Judged("beyond", far, where)
    if len(seeds) < 2:
        return Judged("alone", far, where)
    known, fresh = [dict(_leaves(each)) for each in seeds], dict(_leaves(new))
    numeric = [name for name in off if isinstance(fresh[name], (int, float))]
    values = {name: [each[name] for each in known if name in each] for name in numeric}
    known_spread = {name: some for name, some in values.items() if len(some) > 1}
    numbers = sum(isinstance(value, (int, float)) for value in fresh.values())
    outside = [name for name, some in known_spread.items() if not _within(some, fresh[name], numbers)]
    if outside or not values:
        return Judged("beyond", far, where if not outside else max(outside, key=off.__getitem__))
    return Judged("spread" if len(known_spread) == len(values) else "alone", far, where)


def _within(values: Sequence[float], fresh: float, numbers: int) -> bool:
    from scipy.special import stdtrit  # slow: help need not wait

    n = len(values)
    quantile = float(stdtrit(n - 1, 1 - (1 - LEVEL) / 2 / numbers))
    return abs(fresh - statistics.fmean(values)) <= quantile * statistics.stdev(values) * math.sqrt(1 + 1 / n)


def difference(old: Any, new: Any) -> tuple[float, str]:
    """Return the largest relative difference between two records, and its name.

    Infinite if a metric is gone or a text differs; times, devices and new metrics are not compared.
    """
    return max(((far, name) for name, far in _differences(old, new)), default=(0.0, ""))


def _differences(old: Any, new: Any) -> Iterator[tuple[str, float]]:
    found = dict(_leaves(new))
    for name, value in _leaves(old):
        figure, inside, _ = name.partition("figure ")
        if not inside or f"{figure}figure title" in found:  # some are no longer drawn
            yield name, _relative(value, found.get(name))


def _leaves(metrics: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(metrics, Mapping):
        for key, value in metrics.items():
            if key not in ("device", "scores", "trained_together") and not key.endswith("seconds"):
                yield from _leaves(value, f"{name} {key}".strip())
    elif isinstance(metrics, list) and not all(isinstance(value, (int, float)) for value in metrics):
        for index, value in enumerate(metrics):
            yield from _leaves(value, f"{name} {index}")
    else:
        yield name, metrics


def _relative(old: Any, new: Any) -> float:
    if isinstance(old, str) and isinstance(new, str) and NUMBER.sub("#", old) == NUMBER.sub("#", new):
        numbers = zip(*(map(float, NUMBER.findall(text)) for text in (old, new)), strict=True)
        return max((_relative(*both) for both in numbers), default=0.0)
    a, b = (value if isinstance(value, list) else [value] for value in (old, new))
    if len(a) != len(b) or not all(isinstance(value, (int, float)) for value in (*a, *b)):
        return 0.0 if old == new else math.inf
    largest = max((abs(value) for value in (*a, *b)), default=0.0)
    return max((abs(x - y) for x, y in zip(a, b, strict=True)), default=0.0) / max(largest, SMALL)
