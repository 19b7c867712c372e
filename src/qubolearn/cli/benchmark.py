"""Measure our solvers and the peers side by side, on the same QUBOs, in one run.

exact: exhaustive search and partition function against dimod.ExactSolver; exact-gpu: on an NVIDIA GPU; anneal: against
neal, and OpenJij and simulated-bifurcation where installed (pip install 'qubolearn[peers]'); anneal-large: dense and
sparse QUBOs of 64 to 5,640 bits against neal; anneal-gpu: 100 QUBOs on an NVIDIA GPU beside all cores of the CPU;
quantum: simulated quantum annealing; train: one epoch of the paper's protocol against the same loop with neal per
instance; fit: a user's own network through fit against a loop written by hand; many: trainings of both cloud problems
taken together by fit_many, beside one (needs shapes2d and modelnet); protocol: a whole training of point
sets under the paper's protocol, minutes on two cores (needs the dataset shapes2d); protocol-gpu: on an NVIDIA GPU;
train-gpu: a step on one, kernel by kernel and as a CUDA graph, and on the CPU; sudoku-rules: tempering of puzzles with
17 and 24 hints (needs the dataset sudoku); sudoku-gpu: 9,000 puzzles on an NVIDIA GPU; exact-groups: exact search and
sums over one-hot groups; couplings: quant, diag, pure and a classical rival on max-cut, knapsack and Sudoku, three
seeds, minutes on two cores; losses: losses for many bits against n, minutes on all
cores (--figure draws it).

curves: time to a target energy against n, one thread each, minutes on 16 cores: ours, the samplers of dwave-samplers,
OpenJij and simulated-bifurcation; --figure draws what was written. avx2: our kernels compiled without AVX-512.

sudoku: rules that are learned from solved grids on the test sets of SATNet and RRN, visual-sudoku: hints as pictures,
three seeds each (need the dataset sudoku, but for --quick; minutes on an NVIDIA GPU, an hour without).

willow10: all ten keypoints of Willow images, with couplings and without, over ten splits (needs the dataset willow);
scene: labels of pictures beside scikit-learn's classifier chains, over several splits, and snakes: cells of grids (both
need the dataset structured; with --quick they generate a small one where it is missing).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from qubolearn.cli.options import count
from qubolearn.cli.output import Output
from qubolearn.cli.train import pick_device
from qubolearn.errors import QubolearnError, unknown_name
from qubolearn.files import make_folder, write_json
from qubolearn.provenance import provenance

EPILOG = """examples:
  qubolearn benchmark exact
  qubolearn benchmark anneal --quick --out results/benchmarks"""

#: name -> function of qubolearn.benchmarks
BENCHMARKS = {
    "exact": "exact",
    "exact-gpu": "exact_on_gpu",
    "exact-groups": "exact_with_groups",
    "sudoku-rules": "sudoku_rules",
    "couplings": "couplings",
    "losses": "losses_for_many_bits",
    "sudoku": "sudoku_sets",
    "visual-sudoku": "visual_sudoku_sets",
    "sudoku-gpu": "sudoku_on_gpu",
    "anneal": "anneal",
    "anneal-large": "anneal_large",
    "anneal-gpu": "anneal_on_gpu",
    "curves": "time_curves",
    "avx2": "instruction_sets",
    "quantum": "quantum",
    "train": "training",
    "fit": "fit_by_hand",
    "many": "many",
    "train-gpu": "training_on_gpu",
    "protocol": "protocol",
    "protocol-gpu": "protocol_on_gpu",
    "willow10": "willow_matching",
    "scene": "scene_labels",
    "snakes": "snake_grids",
}
#: benchmark -> module and function below qubolearn.paper.report that draw its file
FIGURES = {"curves": "curves:curves_figure", "losses": "many_bits:losses_figure"}
#: Those whose splits or seeds can be made in processes of their own.
PARALLEL = ("willow10", "scene", "snakes")


def add_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    parser.add_argument("what", metavar="WHAT", help=", ".join(BENCHMARKS))
    parser.add_argument("--jobs", type=count, default=1, metavar="N", help=f"processes, for {', '.join(PARALLEL)} [1]")
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
    from qubolearn import benchmarks
    from qubolearn.benchmarks.processes import Planned
    from qubolearn.benchmarks.rows import rows_of

    if args.what.endswith("-gpu"):
        pick_device("cuda")
    records = []
    jobs = {"jobs": args.jobs} if args.what in PARALLEL else {}
    found = getattr(benchmarks, BENCHMARKS[args.what])(args.quick, **jobs)
    total, found = found if isinstance(found, Planned) else (None, found)
    with output.progress(f"benchmark {args.what}", total or 1) as bar:
        for record in found:
            records.append(record)
            note = ", ".join(f"{name}={record[name]}" for name in ("family", "n", "problem", "loss") if name in record)
            bar.update(bar.task_ids[0], note=note, advance=1 if total else 0)
    names = benchmarks.columns(records)
    rows = [[_number(record.get(name, "")) for name in names] for record in records]
    output.table(f"benchmark {args.what}", names, rows)
    result: dict[str, Any] = {"benchmark": args.what, "records": records, **provenance()}
    if (lines := rows_of(args.what, records)) is not None:
        result["rows"] = lines
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
