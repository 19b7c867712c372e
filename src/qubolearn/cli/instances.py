"""Write instances of a problem to an .npz file: p [count, m], x_true [count, n] and the answer."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from qubolearn.cli.options import add_draw, add_problem, count, problem_from
from qubolearn.cli.output import Output
from qubolearn.files import write_output
from qubolearn.randomness import stream

EPILOG = """examples:
  qubolearn instances randgraph --k 4 --count 100 --seed 1 --out four.npz"""


def add_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    parser.add_argument("--out", required=True, metavar="FILE.npz", help="where to write")
    parser.add_argument("--count", type=count, default=100, metavar="N", help="how many [100]")
    add_draw(parser)
    add_problem(parser, argv)


def run(args: argparse.Namespace, output: Output) -> None:
    problem = problem_from(args)
    from qubolearn.problems.files import write_instances

    instances = problem.sample(args.count, stream(args.seed, args.split), args.split)
    write_instances(Path(args.out), instances, write_output)
    output.say(f"{args.count} instances of {problem} in {args.out}")
    output.result(problem=problem.name, count=args.count, seed=args.seed, out=args.out)
