"""Draw what runs learned: Hamming histograms and couplings over training, and their curves together.

Problems that can draw an instance with its answer, such as max-cut and snakes, are shown with unseen ones; of Sudokus
also the couplings that were learned, where the rules can be seen.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from qubolearn.cli.options import add_problem_of_run, open_run
from qubolearn.cli.output import Output

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from qubolearn.training.runs import Run

EPILOG = """examples:
  qubolearn plot runs/k4
  qubolearn plot runs/quant runs/diag runs/pure --out pictures --format svg"""


def add_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    parser.add_argument("runs", nargs="+", metavar="DIR", help="run folders of trainings")
    add_problem_of_run(parser)
    parser.add_argument("--out", metavar="FOLDER", help="where to write [the first DIR]")
    parser.add_argument("--format", choices=["png", "svg"], default="png", help="file format [png]")


def run(args: argparse.Namespace, output: Output) -> None:
    runs = [open_run(folder, args) for folder in args.runs]
    written = draw(runs, Path(args.out or args.runs[0]), args.format)
    for path in written:
        output.say(str(path))
    output.result(files=[str(path) for path in written])


def draw(runs: Sequence[Run], folder: Path, suffix: str = "png") -> list[Path]:
    """All pictures of runs into a folder."""
    from qubolearn import plots

    scored = [here for here in runs if here.problem.available("validation") != 0]  # the others have no scores
    written = [plots.save(plots.curves(scored), folder / f"curves.{suffix}")] if scored else []
    for here in runs:
        name = here.folder.name
        made: dict[str, Callable[[Run], list[Axes]]] = (
            {"hamming": plots.hamming_over_training} if here in scored else {}
        )
        if here in scored and plots.keeps_couplings(here):
            made["couplings"] = plots.couplings_over_training
        if hasattr(here.problem, "picture"):
            made["answers"] = plots.answers
        for what, draws in made.items():
            written.append(plots.save(draws(here), folder / f"{name}-{what}.{suffix}"))
        for what, picture in _sudoku(here):
            written.append(plots.save(picture, folder / f"{name}-{what}.{suffix}"))
    return written


def _sudoku(here: Run) -> Iterator[tuple[str, list[Axes]]]:
    """A test puzzle with its answer, and the learned couplings of three cells, where a run is of Sudokus."""
    from qubolearn import plots
    from qubolearn.evaluation import solve_instances
    from qubolearn.networks import SharedQubo
    from qubolearn.problems.sudoku import Sudoku
    from qubolearn.randomness import stream

    problem = here.problem
    if not isinstance(problem, Sudoku):
        return
    network = here.network()
    test = problem.sample(1, stream(0, "test"), "test")
    states, _ = solve_instances(network, test.p, problem=problem)
    answer = problem.decode(states)
    solved = bool(problem.score(answer, test)["accuracy"])
    yield "puzzle", plots.sudoku(problem.shown(test.p)[0], answer[0], solved)
    if isinstance(network, SharedQubo):
        cells = [0, problem.size**2 // 2, problem.size**2 - problem.size]
        yield "couplings", plots.grid_couplings(network.soft().detach(), problem.size, cells)
