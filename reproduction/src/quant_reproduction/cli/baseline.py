"""Score a method without learning on the same instances: Direct, QGM, AQM, ICP, Procrustes, greedy and local search."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from quant_reproduction.baselines import BASELINES, evaluate_baseline
from quant_reproduction.cli.common import Output, add_draw, count, metric_rows, read_options
from qubolearn.errors import QubolearnError, unknown_name
from qubolearn.problems import problem_type
from qubolearn.provenance import provenance
from qubolearn.solvers import make_solver

EPILOG = """examples:
  quant baseline direct willow --k 4
  quant baseline qgm-inserted randgraph --k 4 --solver annealing:seed=0
  quant baseline icp pointset --noise 0.1
  quant baseline procrustes rotation --noise 0.2
  quant baseline local-search maxcut --nodes 16"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("method", metavar="METHOD", help=", ".join(BASELINES))
    parser.add_argument("problem", metavar="PROBLEM", help="a problem type; --OPTION VALUE sets its options")
    add_draw(parser)
    parser.add_argument("--instances", type=count, default=1000, metavar="N", help="instances to score [1000]")
    parser.set_defaults(options=[])


def run(args: argparse.Namespace, output: Output) -> None:
    if args.method not in BASELINES:
        raise unknown_name("baseline", args.method, BASELINES)
    kind = problem_type(args.problem)
    problem = kind(**read_options(kind, list(_settings(args.options))))
    began = time.perf_counter()
    found = evaluate_baseline(args.method, problem, make_solver(args.solver), args.instances, args.seed, args.split)
    seconds = time.perf_counter() - began
    title = f"{args.method} on {problem}, seed {args.seed}"
    output.table(title, [f"on {found.instances} {args.split} instances", ""], metric_rows(found))
    header = {"baseline": args.method, "problem": problem.name, "solver": args.solver, "seed": args.seed}
    output.result(**header, split=args.split, seconds=seconds, **found.as_dict(), **provenance())


def _settings(words: Sequence[str]) -> list[str]:
    """Turn ``--name value``, ``--name=value``, ``--name`` and ``--no-name`` into ``name=value``."""
    settings: list[str] = []
    for word in words:
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            on = not name.startswith("no-")
            settings.append(f"{name.removeprefix('no-').replace('-', '_')}={value if equals else on}")
        elif settings and settings[-1].endswith("=True"):
            settings[-1] = settings[-1].removesuffix("True") + word
        else:
            raise QubolearnError(f"unrecognized argument: {word}; expected --OPTION VALUE")
    return settings
