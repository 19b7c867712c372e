"""Say what a run folder or a model file holds: problem, recipe, score and versions; --save makes a file to share.

A model file is one safetensors file that evaluate, solve, export and compare take in place of a run folder. Its weights
are read and checked; nothing in it is executed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path

from qubolearn.cli.options import add_problem_of_run, open_run
from qubolearn.cli.output import Output
from qubolearn.errors import printable

EPILOG = """examples:
  qubolearn info runs/k4 --save k4.safetensors
  qubolearn info k4.safetensors
  qubolearn evaluate k4.safetensors"""


def add_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    parser.add_argument("run", metavar="RUN", help="run folder or model file")
    add_problem_of_run(parser)
    parser.add_argument(
        "--save", metavar="FILE", help="write the trained model to this file, which ends in .safetensors"
    )


def run(args: argparse.Namespace, output: Output) -> None:
    here = open_run(args.run, args)
    network = here.network()  # so that what is said of a file has been checked against its weights
    score, trained = here.scored(), here.trained_with()
    options: dict[str, object] = asdict(here.problem) if is_dataclass(here.problem) else {}
    weights = sum(tensor.numel() for tensor in network.state_dict().values())
    rows: list[tuple[str, object]] = [("problem", here.problem), ("bits", here.problem.bits), ("weights", weights)]
    rows += [*asdict(here.recipe).items(), *((f"score: {name}", value) for name, value in score.items())]
    rows += [(f"trained with {name}", value) for name, value in trained["versions"].items()]
    output.table(args.run, ["", ""], [(printable(name), printable(str(value))) for name, value in rows])
    if args.save:
        here.save(Path(args.save))
        output.say(f"saved: {args.save}")
    described = {"problem": {"name": here.problem.name, **options}, "recipe": asdict(here.recipe), "score": score}
    output.result(run=args.run, finished=here.finished, weights=weights, **described, **trained, saved=args.save)
