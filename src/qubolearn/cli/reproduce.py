"""Reproduce tables and figures of the paper, and ours beside them: trains and scores every cell for several seeds.

Finished jobs are kept as JSON files and never run again; stop at any time and run the same command to go on. At the
end an HTML page shows all results of the folder; DIR/grid.json says how long they took, in however many pieces.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from qubolearn.cli.options import count, seed
from qubolearn.cli.output import Output, damage_said
from qubolearn.cli.train import stop_on_signals
from qubolearn.errors import QubolearnError, unknown_name
from qubolearn.paper.grid.engines import JOBS_PER_GPU, LocalEngine, RayEngine, cores, room_on_gpu
from qubolearn.paper.grid.engines.local import Device
from qubolearn.paper.grid.engines.stacks import StackEngine, places_for_stacks
from qubolearn.paper.grid.entries import ENTRIES, SEEDS, Entry
from qubolearn.paper.grid.jobs import Engine, Job, Outcome, Store, by_code, code_note, run_jobs
from qubolearn.paper.grid.pieces import Pieces, all_pieces
from qubolearn.paper.grid.verify import MOST_SECONDS, TOLERANCE
from qubolearn.problems.data import data_folder

EPILOG = """examples:
  qubolearn reproduce --list
  qubolearn reproduce randgraph --quick
  qubolearn reproduce all --seeds 3 --out results
  qubolearn reproduce --verify 3 --most-seconds 60                   make three of the records again and compare
  qubolearn reproduce all --engine ray --address 10.0.0.1:6379       on a cluster

A job that fails does not stop the others; DIR/ITEM/JOB.log says what happened. Datasets lie in QUBOLEARN_DATA: an item
that is named needs its own, `all` leaves out what has none and says so.
On a cluster (ray start on each machine, also on this one) every node needs the same qubolearn[ray], and the datasets;
results come back to this machine, which alone writes them. Nodes may join and die meanwhile.
One training that outgrows a machine: torchrun ... -m qubolearn train, see qubolearn train --help.

Exit codes: 0 done, 1 some jobs failed or differ from their records, 2 bad input or missing data, 130 interrupted, 143
terminated."""


def add_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    parser.add_argument("items", nargs="*", metavar="ITEM", help=f"{', '.join(ENTRIES)}, or all")
    parser.add_argument("--list", action="store_true", help="say what the items are, what they need and what is done")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--full", action="store_true", help="everything [this is the default]")
    length.add_argument("--quick", action="store_true", help="a short run of every item, to show that it works")
    parser.add_argument("--seeds", type=count, default=None, metavar="N", help=f"seeds per cell [{SEEDS}, quick: 1]")
    parser.add_argument("--out", default=None, metavar="DIR", help="folder of the results [results, quick: runs/quick]")
    parser.add_argument("--engine", choices=("local", "ray"), default="local", help="where jobs run [local]")
    parser.add_argument(
        "--address", default=None, help="address of a Ray cluster [RAY_ADDRESS, or a cluster started on this machine]"
    )
    parser.add_argument(
        "--processes",
        type=count,
        default=None,
        metavar="N",
        help=f"jobs at a time [one per core, {JOBS_PER_GPU} with --device cuda; ray: all that the cluster has]",
    )
    parser.add_argument(
        "--device",
        choices=("cpu", "cuda", "auto"),
        default="auto",
        help="device of the jobs; auto: if there is a GPU, simulations of many qubits and trainings on large batches "
        "or of the permutation-aware network use it, all others the cores [auto; ray: cpu unless cuda is asked for]",
    )
    again = parser.add_argument_group("making records again")
    again.add_argument("--verify", type=count, metavar="N", help="make N random records again and compare")
    again.add_argument("--seed", type=seed, metavar="S", help="seed of the choice [another each time]")
    again.add_argument(
        "--most-seconds", type=float, default=MOST_SECONDS, metavar="M", help=f"skip slower records [{MOST_SECONDS:g}]"
    )
    again.add_argument(
        "--tolerance", type=float, default=TOLERANCE, metavar="R", help=f"relative tolerance of numbers [{TOLERANCE}]"
    )


def run(args: argparse.Namespace, output: Output) -> int:
    seeds = args.seeds if args.seeds is not None else (1 if args.quick else SEEDS)
    store = Store(Path(args.out or ("runs/quick" if args.quick else "results")))
    grid = {name: ENTRIES[name].jobs(seeds, args.quick) for name in chosen_items(args.items or ["all"])}
    if args.verify is not None:
        from qubolearn.cli.verify import verify

        with_data = [job for name in grid if not missing_data(ENTRIES[name], args.quick) for job in grid[name]]
        return verify(args, with_data, store, output)
    if args.list or not args.items:
        with damage_said(store.folder):
            return list_items(grid, store, args.quick, output)
    named = "all" not in args.items
    missing = leave_out_what_lacks_data(grid, store, named, args.quick) if args.engine == "local" else {}
    for name, reason in missing.items():
        output.errors.print(f"{name} is left out: {reason}")
    jobs = [job for name in grid for job in grid[name]]
    engine, began = engine_of(args, len(jobs)), time.monotonic()
    from qubolearn.cli.grid_progress import GridProgress

    # on a cluster the time would not be that of this machine
    timed = args.engine == "local" and not named and not missing
    pieces = Pieces(store, jobs, seeds, engine) if timed else None
    with stop_on_signals() as caught, GridProgress(output, jobs, engine, pieces) as progress:
        outcomes = run_jobs(jobs, store, engine, progress.watch, lambda: bool(caught), command=command(args, seeds))
    if pieces is not None:
        pieces.write()
    failed = [outcome for outcome in outcomes if outcome.record is None]
    result: dict[str, Any] = {
        "jobs": len(jobs),
        "done": len(outcomes) - len(failed),
        "failed": [{"job": o.job.name, "error": o.error, "log": str(store.log(o.job))} for o in failed],
        "missing_data": missing,
        "seconds": round(time.monotonic() - began, 1),
        "out": str(store.folder),
    }
    tell_failures(failed, store, output)
    if len(outcomes) < len(jobs):
        output.result(**result)
        kept = f"stopped; {result['done']} of {len(jobs)} jobs are done and kept in {store.folder}"
        output.errors.print(f"{kept}; to go on, run the same command again")
        return 128 + caught[0]
    tables = show(grid, outcomes, output)
    whole = all_pieces(store, jobs) if timed and not failed else None
    if whole is not None:
        result["whole"] = {"seconds": whole["seconds"], "pieces": len(whole.get("pieces", [1]))}
        output.say(f"all {len(jobs)} jobs: {result['whole']['seconds']} s in pieces: {result['whole']['pieces']}")
    page = write_page(store, args.quick, seeds, output)
    output.result(**result, report=page, results=tables)
    return 1 if failed else 0


def command(args: argparse.Namespace, seeds: int) -> str:
    """The command as records store it: everything that decides their numbers, without folders and addresses."""
    words = ["qubolearn reproduce", *args.items, *(["--quick"] if args.quick else []), f"--seeds {seeds}"]
    return " ".join([*words, *([] if args.device == "auto" else [f"--device {args.device}"])])


def chosen_items(words: Sequence[str]) -> list[str]:
    """Names of entries, each once; ``all`` is all of them."""
    for word in words:
        if word != "all" and word not in ENTRIES:
            raise unknown_name("item", word, [*ENTRIES, "all"])
    return list(ENTRIES) if "all" in words else list(dict.fromkeys(words))


def list_items(grid: Mapping[str, Sequence[Job]], store: Store, quick: bool, output: Output) -> int:
    """What there is to do, where in the paper it stands, how much of it is done, and how much by other code."""
    plain: dict[str, Any] = {}
    all_codes = Counter[str]()
    wide = 2 + max(len(made.paper) for made in ENTRIES.values())
    header = f"{'item':<18}{'in the paper':<{wide}}{'jobs done':<12}{'by other code':<15}what it shows"
    output.say(f"{header} (done: in {store.folder})")
    for name, jobs in grid.items():
        made = ENTRIES[name]
        records = [record for job in jobs if (record := store.get(job))]
        code = by_code(records)
        all_codes.update(code)
        lacking, data = missing_data(made, quick), made.needs(quick)
        needs = f" [needs the dataset {data}{': missing' if lacking else ''}]" if data else ""
        counted = f"{f'{len(records)} of {len(jobs)}':<12}{code['other'] + code['unknown']:<15}"
        output.say(f"{name:<18}{made.paper or 'beyond it':<{wide}}{counted}{made.title}{needs}")
        counts = {"jobs": len(jobs), "done": len(records), "code": code, "data": data, "missing_data": lacking}
        plain[name] = {"title": made.title, "paper": made.paper, **counts}
    output.say(code_note(all_codes))
    output.result(items=plain)
    return 0


def missing_data(made: Entry, quick: bool) -> str:
    """How to get an entry's dataset if it is missing."""
    try:
        if data := made.needs(quick):
            data_folder(data)
    except QubolearnError as error:
        return f"{error}, or run it with --quick, which generates its data" if made.generated else str(error)
    return ""


def leave_out_what_lacks_data(grid: dict[str, list[Job]], store: Store, named: bool, quick: bool) -> dict[str, str]:
    """Leave out items without data but for their finished jobs, and say why. Named items must have their data."""
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


def engine_of(args: argparse.Namespace, jobs: int) -> Engine:
    """Where the jobs will run."""
    device: Device = "cuda" if args.device == "cuda" else "cpu"
    if args.engine == "ray":
        return RayEngine(args.address, args.processes, device)
    if args.address:
        raise QubolearnError(f"--address {args.address} is of a Ray cluster; use it with --engine ray")
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise QubolearnError("--device cuda, but torch finds no GPU here; use cpu")
    workers = args.processes or (JOBS_PER_GPU if device == "cuda" else cores())
    on_gpu = room_on_gpu() if args.device == "auto" else 0
    local = LocalEngine(max(1, min(workers, jobs)), device, on_gpu)
    stacks = places_for_stacks() if on_gpu else 0
    return StackEngine(local, stacks) if stacks else local


def show(grid: Mapping[str, object], outcomes: Sequence[Outcome], output: Output) -> dict[str, dict[str, Any]]:
    """Print the tables; and as plain values: table -> "row | column" -> values of each metric over the seeds."""
    plain = {}
    for name in grid:
        mine = [outcome for outcome in outcomes if outcome.job.item == name]
        output.say(f"{ENTRIES[name].title}\n{ENTRIES[name].markdown(mine)}")
        for view in ENTRIES[name].views:
            cells = view.cells(mine).items()
            plain[view.name] = {f"{row} | {column}": cell.values for (row, column), cell in cells}
    return plain


def write_page(store: Store, quick: bool, seeds: int, output: Output) -> str:
    """The report of all results in the folder."""
    from qubolearn.paper.report import write_report

    page = store.folder / "report.html"
    write_report(store.folder, page, quick, seeds)
    output.say(f"report: {page}")
    return str(page)


def tell_failures(failed: Sequence[Outcome], store: Store, output: Output) -> None:
    """Print each error of an item once, however many jobs had it."""
    groups: dict[tuple[str, str | None], list[Job]] = {}
    for outcome in failed:
        groups.setdefault((outcome.job.item, outcome.error), []).append(outcome.job)
    for (_, error), jobs in groups.items():
        more = f" and {len(jobs) - 1} more" if len(jobs) > 1 else ""
        output.errors.print(f"failed: {jobs[0].name}{more}: {error} (log: {store.log(jobs[0])})")
