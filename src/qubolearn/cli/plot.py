"""Draw what runs learned: Hamming histograms and couplings over training, and their curves together."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from qubolearn.cli.options import add_problem_of_run, open_run
from qubolearn.cli.output import Output

if TYPE_CHECKING:
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

    written = [plots.save(plots.curves(runs), folder / f"curves.{suffix}")]
    for here in runs:
        name = here.folder.name
        written.append(plots.save(plots.hamming_over_training(here), folder / f"{name}-hamming.{suffix}"))
        written.append(plots.save(plots.couplings_over_training(here), folder / f"{name}-couplings.{suffix}"))
    return written
