"""The tour, without any data folder: what couplings buy on max-cut and Sudoku, and the paper's graph matching.

Max-cut of 8 nodes: a cut and its complement are both right, which bits without couplings cannot say. Sudoku: the rules
are learned from generated grids as one QUBO of 729 bits, and solve puzzles. RandGraph with k=4 on 8 Chimera qubits:
quant, diag and pure as in the paper, preset best.
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
    from matplotlib.axes import Axes
    from torch import Tensor

    from qubolearn.training.runs import Run

Result = dict[str, Any]
PUZZLES, HINTS = 10, 30
#: Epochs of max-cut, Sudoku and RandGraph.
EPOCHS = (10, 2, 30)


def add_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    parser.add_argument("--out", default="runs/demo", metavar="DIR", help="where runs and pictures go [runs/demo]")
    lengths = ", ".join(map(str, EPOCHS))
    parser.add_argument("--epochs", type=count, metavar="N", help=f"length of every training, at most [{lengths}]")
    parser.add_argument("--seed", type=seed, default=0, metavar="S", help="seed of all trainings [0]")


def run(args: argparse.Namespace, output: Output) -> None:
    began, folder = time.perf_counter(), Path(args.out)
    lengths = [min(args.epochs or own, own) for own in EPOCHS]
    cut_runs, cuts = _methods("maxcut", folder / "maxcut", lengths[0], args.seed, output)
    rows = [(r["method"], percent(r["accuracy"]), percent(r["ratio"]), f"{r['seconds']:.1f} s") for r in cuts]
    title = "Max-cut of 8 nodes, 2000 unseen graphs"
    output.table(title, ["method", "optimal", "edges cut, of the most", "training"], rows)
    soft, sudoku = _sudoku(lengths[1], args.seed, output)
    runs, graphs = _methods("randgraph", folder, lengths[2], args.seed, output, k=4)
    rows = [
        (r["method"], percent(r["accuracy"]), percent(r["accuracy_projected"]), f"{r['seconds']:.1f} s") for r in graphs
    ]
    title = "RandGraph k=4, 8 Chimera qubits, 2000 unseen graphs"
    output.table(title, ["method", "accuracy", "projected", "training"], rows)
    written = _draw(runs, graphs, cut_runs, cuts, soft, folder) if find_spec("matplotlib") else []
    for path in written:
        output.say(str(path))
    if not written:
        output.say(f"no pictures: {missing_extra('drawing', 'plots')}")
    output.result(
        maxcut={r["method"]: r["accuracy"] for r in cuts},
        sudoku=sudoku,
        accuracy={r["method"]: r["accuracy"] for r in graphs},
        accuracy_projected={r["method"]: r["accuracy_projected"] for r in graphs},
        seconds=round(time.perf_counter() - began, 3),
        pictures=[str(path) for path in written],
        **provenance(),
    )


def _methods(
    name: str, folder: Path, epochs: int, seed: int, output: Output, **options: Any
) -> tuple[list[Run], list[Result]]:
    """Train and score quant, diag and pure."""
    from qubolearn.training.runs import Run

    device, runs, results = pick_device("cpu"), [], []
    for method in ("quant", "diag", "pure"):
        problem, recipe = preset("best", name, method=method, epochs=epochs, seed=seed, **options)
        here = Run.create(folder / method, problem, recipe)
        output.say(f"training {method} on {name} ...")
        seconds = train_with_progress(here, device, output)
        _, result = score(here, device, 2000, seconds)
        write_json(here.folder / "result.json", result, checksum=True)
        runs.append(here)
        results.append(result)
    return runs, results


def _sudoku(epochs: int, seed: int, output: Output) -> tuple[Tensor, Result]:
    """Learn the rules, and solve puzzles with them and with the biases alone."""
    from qubolearn.paper.couplings.sudoku import learn_rules, rules_found
    from qubolearn.problems.sudoku import Sudoku, solve_puzzles
    from qubolearn.randomness import stream
    from qubolearn.solvers.tempering import ParallelTempering

    output.say("learning the rules of Sudoku from 6000 generated grids ...")
    network, hard, seconds = learn_rules(seed, epochs=epochs)
    soft, told = network.soft().detach(), rules_found(hard.A, 9)
    problem = Sudoku(hints=HINTS, unique=True)
    test = problem.sample(PUZZLES, stream(seed, "test"), "test")
    puzzles = test.p.long()
    answers = solve_puzzles(hard.A, puzzles, ParallelTempering(sweeps=20_000, target="bound", seed=seed))
    solved = int(problem.score(answers.grids, test)["accuracy"].sum())
    guess = soft.diagonal().reshape(81, 9).argmin(1) + 1  # without couplings each cell takes the digit of least bias
    biases = int(problem.score(guess.where(puzzles == 0, puzzles), test)["accuracy"].sum())
    low, high = hard.gaps[0]
    rows = [
        ("given", "one digit a cell (one-hot groups), 6000 solved grids"),
        ("couplings that are rules", f"{told['rules']} of {told['of']}"),
        ("couplings that are none", str(told["others"])),
        ("gap between other couplings and rules", f"{low:.2f} to {high:.2f}"),
        ("learned in", f"{seconds:.1f} s"),
        (f"puzzles of about {HINTS} hints solved with couplings", f"{solved} of {PUZZLES}"),
        ("solved with biases alone", f"{biases} of {PUZZLES}"),
    ]
    output.table("Sudoku, 729 bits", ["", ""], rows)
    told |= {"gap": [low, high], "seconds": round(seconds, 3)}
    return soft, {**told, "puzzles": PUZZLES, "solved": solved, "solved_by_biases": biases}


def _draw(
    runs: Sequence[Run],
    graphs: Sequence[Mapping[str, Any]],
    cut_runs: Sequence[Run],
    cuts: Sequence[Mapping[str, Any]],
    soft: Tensor,
    folder: Path,
) -> list[Path]:
    from qubolearn import plots

    measured = {
        "as solved": [100 * result["accuracy"] for result in graphs],
        "projected": [100 * result["accuracy_projected"] for result in graphs],
    }
    methods = [result["method"] for result in graphs]
    optimal = {"max-cut, 8 nodes": [100 * result["accuracy"] for result in cuts]}
    pictures: dict[str, Axes | Sequence[Axes]] = {
        "maxcut-answers.png": plots.answers(cut_runs[0]),
        "maxcut.png": plots.comparison(methods, optimal, "optimal cuts, % of 2000"),
        "sudoku-rules.png": plots.grid_couplings(soft, 9, [0, 40, 65]),
        "comparison.png": plots.comparison(methods, measured, "accuracy, % of 2000"),
        "pipeline.png": _pipeline(runs[0]),
    }
    return [*draw(runs, folder), *(plots.save(picture, folder / name) for name, picture in pictures.items())]


def _pipeline(here: Run) -> list[Axes]:
    import torch

    from qubolearn import plots
    from qubolearn.randomness import stream
    from qubolearn.solvers import ExhaustiveSearch

    instances = here.problem.sample(1, stream(0, "test"), "test")
    with torch.no_grad():
        A = here.network()(instances.p)
    x_star = ExhaustiveSearch()(A, 1).states[:, 0]
    return plots.pipeline(instances.p[0], A[0], x_star[0], here.problem.decode(x_star)[0])
