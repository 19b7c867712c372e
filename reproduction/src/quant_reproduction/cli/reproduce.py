"""Reproduce tables and figures of the paper, and ours alongside them: train and score every cell for several seeds.

Finished jobs are stored and never run again; stop at any time and run the same command to resume. At the end an HTML
page shows all records of the folder; DIR/grid.json has the time they took.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from quant_reproduction.cli.common import Output, concise_errors, count, progress, results_folder, seed, stop_on_signals
from quant_reproduction.cli.verify import MOST_SECONDS, TOLERANCE, verify
from quant_reproduction.datasets.files import data_folder
from quant_reproduction.grid.entries import ENTRIES, SEEDS, Entry
from quant_reproduction.grid.jobs import Job, Outcome, Store, add_piece, all_pieces, by_code, code_note
from quant_reproduction.grid.runner import JOBS_PER_GPU, LocalPool, RayPool, cores, room_on_gpu, run_jobs
from qubolearn.errors import QubolearnError, unknown_name

EPILOG = """examples:
  quant reproduce --list
  quant reproduce randgraph --quick
  quant reproduce all --seeds 3 --out reproduction/results
  quant reproduce --verify 3 --most-seconds 60                   rerun three of the records and compare
  quant reproduce all --engine ray --address 10.0.0.1:6379       on a cluster

A job that fails does not stop the others; its log is in DIR/logs. Datasets are in QUBOLEARN_DATA: an item that is named
needs its own, `all` skips those without and prints why.
On a cluster (ray start on each machine, also on this one) every node needs the same packages and the datasets; this
machine alone writes results. Nodes may join and die meanwhile.

Exit codes: 0 done, 1 some jobs failed or differ from their records, 2 bad input or missing data, 130 interrupted, 143
terminated."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("items", nargs="*", metavar="ITEM", help=f"{', '.join(ENTRIES)}, or all")
    parser.add_argument("--list", action="store_true", help="list items, datasets and progress")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--full", action="store_true", help="everything [default]")
    length.add_argument("--quick", action="store_true", help="a short run of every item, to show that it works")
    parser.add_argument("--seeds", type=count, metavar="N", help=f"seeds per cell [{SEEDS}, quick: 1]")
    parser.add_argument("--out", metavar="DIR", help="folder of the records [reproduction/results, quick: runs/quick]")
    parser.add_argument("--engine", choices=("local", "ray"), default="local", help="where jobs run [local]")
    parser.add_argument("--address", help="address of a Ray cluster [RAY_ADDRESS, or a new one on this machine]")
    parser.add_argument(
        "--processes", type=count, metavar="N", help=f"jobs at a time [one per core, {JOBS_PER_GPU} with --device cuda]"
    )
    parser.add_argument(
        "--device",
        choices=("cpu", "cuda", "auto"),
        default="auto",
        help="auto: simulations of many qubits and training on large batches or of the permutation-aware network use a "
        "GPU if there is one, all others the cores [auto; ray: cpu]",
    )
    again = parser.add_argument_group("rerunning records")
    again.add_argument("--verify", type=count, metavar="N", help="rerun N random records and compare")
    again.add_argument("--seed", type=seed, metavar="S", help="seed of the choice [random]")
    again.add_argument(
        "--most-seconds", type=float, default=MOST_SECONDS, metavar="M", help=f"skip slower records [{MOST_SECONDS:g}]"
    )
    again.add_argument(
        "--tolerance", type=float, default=TOLERANCE, metavar="R", help=f"relative tolerance of numbers [{TOLERANCE}]"
    )


def run(args: argparse.Namespace, output: Output) -> int:
    seeds = args.seeds if args.seeds is not None else (1 if args.quick else SEEDS)
    store = Store(results_folder(args.out, args.quick))
    grid = {name: ENTRIES[name].jobs(seeds, args.quick) for name in chosen_items(args.items or ["all"])}
    if args.verify is not None:
        jobs = [job for name in grid if not missing_data(ENTRIES[name], args.quick) for job in grid[name]]
        return verify(args, jobs, store, output, pool_of)
    if args.list or not args.items:
        with concise_errors(store.folder):
            return list_items(grid, store, args.quick, output)
    named = "all" not in args.items
    missing = skip_missing_data(grid, store, named, args.quick) if args.engine == "local" else {}
    for name, reason in missing.items():
        output.errors.print(f"skipping {name}: {reason}")
    jobs = [job for name in grid for job in grid[name]]
    before, began = sum(store.get(job) is not None for job in jobs), time.monotonic()
    with stop_on_signals() as caught, pool_of(args, len(jobs)) as pool, progress(output, len(jobs)) as watch:
        outcomes = run_jobs(jobs, store, pool, watch, lambda: bool(caught), command(args, seeds))
    seconds = round(time.monotonic() - began, 1)
    failed = [outcome for outcome in outcomes if outcome.record is None]
    done = len(outcomes) - len(failed)
    if args.engine == "local" and not named and not missing:  # on a cluster the time would not be this machine's
        add_piece(store, jobs, before, {"jobs": done - before, "seconds": seconds})
    result: dict[str, Any] = {
        "jobs": len(jobs),
        "done": done,
        "failed": [{"job": o.job.name, "error": o.error, "log": str(store.log(o.job))} for o in failed],
        "missing_data": missing,
        "seconds": seconds,
        "out": str(store.folder),
    }
    report_failures(failed, store, output)
    if len(outcomes) < len(jobs):
        output.result(**result)
        kept = f"stopped; {done} of {len(jobs)} jobs are done and stored in {store.folder}"
        output.errors.print(f"{kept}; run the same command again to resume")
        return 128 + caught[0]
    tables = show(grid, outcomes, output)
    if (whole := all_pieces(store, jobs)) and not failed:
        result["whole"] = {"seconds": whole["seconds"], "pieces": len(whole["pieces"])}
    from quant_reproduction.report import write_report

    page = store.folder / "report.html"
    write_report(store.folder, page, args.quick, seeds)
    output.say(f"report: {page}")
    output.result(**result, report=str(page), results=tables)
    return 1 if failed else 0


def command(args: argparse.Namespace, seeds: int) -> str:
    """Return the command as records store it: everything that decides their numbers, without folders and addresses."""
    words = ["quant reproduce", *args.items, *(["--quick"] if args.quick else []), f"--seeds {seeds}"]
    return " ".join([*words, *([] if args.device == "auto" else [f"--device {args.device}"])])


def chosen_items(words: Sequence[str]) -> list[str]:
    """Return the names of entries, each once; ``all`` is all of them."""
    for word in words:
        if word != "all" and word not in ENTRIES:
            raise unknown_name("item", word, [*ENTRIES, "all"])
    return list(ENTRIES) if "all" in words else list(dict.fromkeys(words))


def list_items(grid: Mapping[str, Sequence[Job]], store: Store, quick: bool, output: Output) -> int:
    """Print the items: where in the paper, how many jobs are done, and how many of them by other code."""
    plain: dict[str, Any] = {}
    all_codes = Counter[str]()
    wide = 2 + max(len(entry.paper) for entry in ENTRIES.values())
    header = f"{'item':<18}{'in the paper':<{wide}}{'jobs done':<12}{'by other code':<15}what it shows"
    output.say(f"{header} (done: in {store.folder})")
    for name, jobs in grid.items():
        entry = ENTRIES[name]
        records = [record for job in jobs if (record := store.get(job))]
        code = by_code(records)
        all_codes.update(code)
        lacking, data = missing_data(entry, quick), entry.needs(quick)
        needs = f" [needs the dataset {data}{': missing' if lacking else ''}]" if data else ""
        counted = f"{f'{len(records)} of {len(jobs)}':<12}{code['other'] + code['unknown']:<15}"
        output.say(f"{name:<18}{entry.paper or 'beyond it':<{wide}}{counted}{entry.title}{needs}")
        counts = {"jobs": len(jobs), "done": len(records), "code": code, "data": data, "missing_data": lacking}
        plain[name] = {"title": entry.title, "paper": entry.paper, **counts}
    output.say(code_note(all_codes))
    output.result(items=plain)
    return 0


def missing_data(entry: Entry, quick: bool) -> str:
    """Return how to get an entry's dataset if it is missing."""
    try:
        if data := entry.needs(quick):
            data_folder(data)
    except QubolearnError as error:
        return f"{error}, or run it with --quick, which generates its data" if entry.generated else str(error)
    return ""


def skip_missing_data(grid: dict[str, list[Job]], store: Store, named: bool, quick: bool) -> dict[str, str]:
    """Reduce items without data to their finished jobs, and return why. Named items must have their data."""
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


def pool_of(args: argparse.Namespace, jobs: int) -> LocalPool | RayPool:
    """Return the workers that the options ask for."""
    if args.engine == "ray":
        return RayPool(args.address, args.processes, "cuda" if args.device == "cuda" else "cpu")
    if args.address:
        raise QubolearnError(f"--address {args.address} is of a Ray cluster; use it with --engine ray")
    import torch

    if args.device == "cuda":
        if not torch.cuda.is_available():
            raise QubolearnError("--device cuda, but torch finds no GPU here; use cpu")
        return LocalPool(min(args.processes or JOBS_PER_GPU, jobs or 1), "cuda")
    on_gpu = room_on_gpu() if args.device == "auto" else 0
    return LocalPool(min(args.processes or cores(), jobs or 1), "cpu", on_gpu)


def show(grid: Mapping[str, object], outcomes: Sequence[Outcome], output: Output) -> dict[str, dict[str, Any]]:
    """Print the tables, and return them as plain values: table -> "row | column" -> values of each metric."""
    plain = {}
    for name in grid:
        mine = [outcome for outcome in outcomes if outcome.job.item == name]
        output.say(f"{ENTRIES[name].title}\n{ENTRIES[name].markdown(mine)}")
        for view in ENTRIES[name].views:
            cells = view.cells(mine).items()
            plain[view.name] = {f"{row} | {column}": cell.values for (row, column), cell in cells}
    return plain


def report_failures(failed: Sequence[Outcome], store: Store, output: Output) -> None:
    """Print each error of an item once, with the number of jobs that had it."""
    groups: dict[tuple[str, str | None], list[Job]] = {}
    for outcome in failed:
        groups.setdefault((outcome.job.item, outcome.error), []).append(outcome.job)
    for (_, error), jobs in groups.items():
        more = f" and {len(jobs) - 1} more" if len(jobs) > 1 else ""
        output.errors.print(f"failed: {jobs[0].name}{more}: {error} (log: {store.log(jobs[0])})")
