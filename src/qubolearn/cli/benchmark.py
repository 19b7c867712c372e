"""Measure our solvers and the peers side by side, on the same QUBOs, in one run."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from qubolearn.cli.output import Output
from qubolearn.cli.train import pick_device
from qubolearn.errors import QubolearnError, unknown_name
from qubolearn.files import make_folder, write_json
from qubolearn.provenance import code, provenance

#: name -> (module and function of qubolearn.benchmarks, what it measures)
BENCHMARKS = {
    "exact": ("solving.exact", "exhaustive search and log Z, against dimod.ExactSolver"),
    "exact-gpu": ("solving.exact_on_gpu", "exhaustive search on an NVIDIA GPU"),
    "exact-groups": ("solving.exact_with_groups", "exact search and sums over one-hot groups"),
    "anneal": ("solving.anneal", "against neal, and OpenJij and simulated-bifurcation if installed: qubolearn[peers]"),
    "anneal-large": ("large_annealing.records", "dense and sparse QUBOs of 64 to 5,640 bits, against neal"),
    "anneal-gpu": ("gpu.annealing", "100 QUBOs on an NVIDIA GPU, beside all cores of the CPU"),
    "cores": ("cores.records", "one QUBO on one core and on all: seconds to the lowest energy known"),
    "avx2": ("avx2.records", "our kernels compiled with and without AVX-512"),
    "curves": ("curves.records", "time to a target energy against n, ours and all peers; minutes on 16 cores"),
    "quantum": ("solving.quantum", "simulated quantum annealing"),
    "train": ("training.training", "an epoch of the paper's protocol, against the same loop with neal per instance"),
    "train-gpu": ("training.training_on_gpu", "a step on an NVIDIA GPU, kernel by kernel and as a CUDA graph"),
    "fit": ("own_loop.own_loop", "a user's own network through fit, against a loop written by hand"),
    "many": ("many_runs.many_runs", "trainings together by fit_many, beside one (datasets shapes2d, modelnet)"),
    "protocol": ("training.protocol", "a whole training of point sets as in the paper; minutes (dataset shapes2d)"),
    "protocol-gpu": ("training.protocol_on_gpu", "the same on an NVIDIA GPU"),
    "sudoku-rules": ("solving.sudoku_rules", "tempering of puzzles with 17 and 24 hints (dataset sudoku)"),
    "sudoku-gpu": ("gpu.sudoku", "9,000 puzzles on an NVIDIA GPU (dataset sudoku)"),
    "losses": ("many_bits.many_bits", "losses for many bits against n; minutes on all cores"),
}
EPILOG = "WHAT is one of:\n" + "\n".join(f"  {name:<15}{text}" for name, (_, text) in BENCHMARKS.items())
EPILOG += """

What couplings buy is reproduced: qubolearn reproduce maxcut knapsack sudoku visual-sudoku willow10 scene snakes

examples:
  qubolearn benchmark exact
  qubolearn benchmark anneal --quick --out results/benchmarks
  qubolearn benchmark curves --figure curves.svg             draw what was measured before"""
#: benchmark -> module and function below qubolearn.paper.report that draw its file
FIGURES = {"curves": "curves:curves_figure", "losses": "many_bits:losses_figure"}


def add_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    parser.add_argument("what", metavar="WHAT", help="what to measure, see below")
    parser.add_argument("--quick", action="store_true", help="the smallest size only")
    parser.add_argument("--out", metavar="DIR", help="also write DIR/WHAT.json, with versions and machine")
    parser.add_argument(
        "--figure",
        metavar="FILE.svg",
        help=f"of {' and '.join(FIGURES)}: measure nothing, draw DIR/WHAT.json [results/benchmarks]",
    )


def run(args: argparse.Namespace, output: Output) -> None:
    if args.what not in BENCHMARKS:
        raise unknown_name("benchmark", args.what, BENCHMARKS)
    if args.figure:
        _draw(args, output)
        return
    from qubolearn.benchmarks import columns
    from qubolearn.benchmarks.processes import Planned

    if args.what.endswith("-gpu"):
        pick_device("cuda")
    records = []
    module, function = BENCHMARKS[args.what][0].split(".")
    found = getattr(import_module(f"qubolearn.benchmarks.{module}"), function)(args.quick)
    total, found = found if isinstance(found, Planned) else (None, found)
    with output.progress(f"benchmark {args.what}", total or 1) as bar:
        for record in found:
            records.append(record)
            note = ", ".join(f"{name}={record[name]}" for name in ("family", "n", "problem", "loss") if name in record)
            bar.update(bar.task_ids[0], note=note, advance=1 if total else 0)
    names = columns(records)
    rows = [[_number(record.get(name, "")) for name in names] for record in records]
    output.table(f"benchmark {args.what}", names, rows)
    when = {"date": datetime.now(UTC).isoformat(timespec="seconds"), **code()}
    result: dict[str, Any] = {"benchmark": args.what, "records": records, **when, **provenance()}
    if args.out:
        folder = Path(args.out)
        make_folder(folder)
        write_json(folder / f"{args.what}.json", result)
        output.say(f"written: {folder / args.what}.json")
    output.result(**result)


def _draw(args: argparse.Namespace, output: Output) -> None:
    """A figure from the file that a run wrote."""
    from qubolearn import plots

    path = Path(args.figure)
    if args.what not in FIGURES or path.suffix not in (".svg", ".png"):
        drawn = " and ".join(FIGURES)
        raise QubolearnError(f"--figure {path} of {args.what}; {drawn} are drawn, into a file .svg or .png")
    module, _, function = FIGURES[args.what].partition(":")
    draw = getattr(import_module(f"qubolearn.paper.report.{module}"), function)
    plots.save(draw(Path(args.out or "results/benchmarks")), path)
    output.say(str(path))
    output.result(files=[str(path)])


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
