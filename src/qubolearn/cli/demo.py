"""The tour: train quant, diag and pure on graph matching, compare them on unseen graphs and draw pictures.

RandGraph with k=4 on 8 Chimera qubits (one K4,4 cell), networks of 5 layers and 78 hidden units, preset best.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qubolearn.cli.options import count, seed
from qubolearn.cli.output import Output, percent
from qubolearn.cli.plot import draw
from qubolearn.cli.train import pick_device, score, train_with_progress
from qubolearn.errors import missing_extra
from qubolearn.files import write_json
from qubolearn.provenance import provenance
from qubolearn.training.recipes import preset

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from qubolearn.training.runs import Run


def add_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    parser.add_argument("--out", default="runs/demo", metavar="DIR", help="where runs and pictures go [runs/demo]")
    parser.add_argument("--epochs", type=count, default=60, metavar="N", help="length of each training [60]")
    parser.add_argument("--seed", type=seed, default=0, metavar="S", help="seed of all three trainings [0]")


def run(args: argparse.Namespace, output: Output) -> None:
    from qubolearn.training.runs import Run

    began, folder = time.perf_counter(), Path(args.out)
    device = pick_device("cpu")
    runs, results = [], []
    for method in ("quant", "diag", "pure"):
        problem, recipe = preset("best", "randgraph", k=4, method=method, epochs=args.epochs, seed=args.seed)
        here = Run.create(folder / method, problem, recipe)
        output.say(f"training {method} ...")
        seconds = train_with_progress(here, device, output)
        _, result = score(here, device, 2000, seconds)
        write_json(here.folder / "result.json", result, checksum=True)
        runs.append(here)
        results.append(result)
    rows = [
        (r["method"], percent(r["accuracy"]), percent(r["accuracy_projected"]), f"{r['seconds']:.1f} s")
        for r in results
    ]
    headers = ["method", "accuracy", "projected", "training"]
    output.table("RandGraph k=4, 8 Chimera qubits, 2000 unseen graphs", headers, rows)
    written = _draw(runs, results, folder) if find_spec("matplotlib") else []
    for path in written:
        output.say(str(path))
    if not written:
        output.say(f"no pictures: {missing_extra('drawing', 'plots')}")
    output.result(
        accuracy={r["method"]: r["accuracy"] for r in results},
        accuracy_projected={r["method"]: r["accuracy_projected"] for r in results},
        seconds=round(time.perf_counter() - began, 3),
        pictures=[str(path) for path in written],
        **provenance(),
    )


def _draw(runs: Sequence[Run], results: Sequence[Mapping[str, Any]], folder: Path) -> list[Path]:
    from qubolearn import plots

    measured = {
        "as solved": [100 * result["accuracy"] for result in results],
        "projected": [100 * result["accuracy_projected"] for result in results],
    }
    bars = plots.comparison([result["method"] for result in results], measured, "accuracy, % of 2000")
    pictures = {"comparison.png": bars, "pipeline.png": _pipeline(runs[0])}
    return [*draw(runs, folder), *(plots.save(picture, folder / name) for name, picture in pictures.items())]


def _pipeline(here: Run) -> Figure:
    import torch

    from qubolearn import plots
    from qubolearn.randomness import stream
    from qubolearn.solvers import ExhaustiveSearch

    instances = here.problem.sample(1, stream(0, "test"), "test")
    with torch.no_grad():
        A = here.network()(instances.p)
    x_star = ExhaustiveSearch()(A, 1).states[:, 0]
    return plots.pipeline(instances.p[0], A[0], x_star[0], here.problem.decode(x_star)[0])
