"""Fill tables of the paper, and ours beside them: trains and scores every cell for several seeds.

Finished jobs are kept as JSON files and never run again; stop at any time and run the same command to go on.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from qubolearn.cli.output import Output
from qubolearn.errors import QubolearnError
from qubolearn.experiments.entries import ENTRIES, entry
from qubolearn.experiments.jobs import Outcome, Store, run_jobs
from qubolearn.experiments.summary import cells, markdown

EPILOG = """examples:
  qubolearn reproduce --list
  qubolearn reproduce randgraph --quick
  qubolearn reproduce randgraph randgraph-scale --seeds 3 --out results"""


def add_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    parser.add_argument("items", nargs="*", metavar="ITEM", help=f"{', '.join(ENTRIES)}, or all")
    parser.add_argument("--list", action="store_true", help="say what the items are")
    parser.add_argument("--quick", action="store_true", help="a short run of every item that shows that it works")
    parser.add_argument("--seeds", type=int, default=None, metavar="N", help="seeds per cell [3, quick: 1]")
    parser.add_argument("--out", default=None, metavar="DIR", help="folder of the results [results, quick: runs/quick]")
    parser.add_argument("--processes", type=int, default=None, metavar="N", help="jobs at a time [one per core]")


def run(args: argparse.Namespace, output: Output) -> int:
    if args.list or not args.items:
        output.table("items", ["name", "what it fills"], [(name, made.title) for name, made in ENTRIES.items()])
        output.result(items=list(ENTRIES))
        return 0
    seeds = args.seeds if args.seeds is not None else (1 if args.quick else 3)
    if seeds < 1:
        raise QubolearnError(f"--seeds {seeds}; want at least 1")
    names = list(ENTRIES) if args.items == ["all"] else args.items
    store = Store(Path(args.out or ("runs/quick" if args.quick else "results")))
    jobs = [job for name in names for job in entry(name).jobs(seeds, args.quick)]
    failed: list[Outcome] = []
    processes = args.processes or min(os.cpu_count() or 1, len(jobs))
    with output.progress("jobs", len(jobs)) as bar:

        def report(outcome: Outcome) -> None:
            bar.advance(bar.task_ids[0])
            bar.update(bar.task_ids[0], note=f"{outcome.job.item} {outcome.job.row} {outcome.job.column}")
            if outcome.error:
                failed.append(outcome)
                output.errors.print(f"failed: {outcome.job.item} {outcome.job.filename}: {outcome.error}", markup=False)

        outcomes = run_jobs(jobs, store, processes, report)
    for name in names:
        mine = [outcome for outcome in outcomes if outcome.job.item == name]
        (store.folder / name).mkdir(parents=True, exist_ok=True)
        output.say(f"{entry(name).title}\n{markdown(entry(name), mine)}")
    summary = {
        name: {
            f"{row} | {column}": list(cell.values)
            for (row, column), cell in cells(entry(name), [o for o in outcomes if o.job.item == name]).items()
        }
        for name in names
    }
    output.result(jobs=len(jobs), failed=[outcome.job.filename for outcome in failed], results=summary)
    return 1 if failed else 0
