"""Score a method without learning on the same instances: Direct, QGM, AQM, ICP, Procrustes, greedy and local search."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from qubolearn.cli.options import add_draw, add_problem, add_solver, count, problem_from
from qubolearn.cli.output import Output, metric_rows
from qubolearn.errors import unknown_name
from qubolearn.paper.baselines import BASELINES, evaluate_baseline
from qubolearn.provenance import provenance
from qubolearn.solvers import make_solver

EPILOG = """examples:
  qubolearn baseline direct willow --k 4
  qubolearn baseline qgm-inserted randgraph --k 4 --solver annealing:seed=0
  qubolearn baseline icp pointset --noise 0.1
  qubolearn baseline procrustes rotation --noise 0.2
  qubolearn baseline local-search maxcut --nodes 16"""


def add_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    parser.add_argument("method", metavar="METHOD", help=", ".join(BASELINES))
    add_solver(parser)
    parser.add_argument("--instances", type=count, default=1000, metavar="N", help="instances to score [1000]")
    add_draw(parser)
    add_problem(parser, argv, position=1)


def run(args: argparse.Namespace, output: Output) -> None:
    if args.method not in BASELINES:
        raise unknown_name("baseline", args.method, BASELINES)
    problem = problem_from(args)
    began = time.perf_counter()
    with output.progress(f"{args.method} on {problem.name}", 1):
        found = evaluate_baseline(args.method, problem, make_solver(args.solver), args.instances, args.seed, args.split)
    seconds = time.perf_counter() - began
    title = f"{args.method} on {problem}, seed {args.seed}"
    output.table(title, [f"on {found.instances} {args.split} instances", ""], metric_rows(found))
    header = {"baseline": args.method, "problem": problem.name, "solver": args.solver, "seed": args.seed}
    output.result(**header, split=args.split, seconds=seconds, **found.as_dict(), **provenance())
