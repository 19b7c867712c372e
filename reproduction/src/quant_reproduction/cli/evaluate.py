"""Score three runs of rotation, for alpha, beta and gamma, one after the other on whole rotations."""

from __future__ import annotations

import argparse
from dataclasses import replace

from quant_reproduction.cli.common import Output, add_draw, change_options, count, metric_rows
from qubolearn.errors import QubolearnError
from qubolearn.provenance import provenance

EPILOG = """example:
  quant evaluate runs/alpha runs/beta runs/gamma --set noise=0.2    another option than in training"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs=3, metavar="DIR", help="run folders of the stages alpha, beta and gamma")
    add_draw(parser)
    parser.add_argument("--instances", type=count, default=2000, metavar="N", help="instances to score [2000]")
    parser.add_argument(
        "--set", action="append", default=[], metavar="OPTION=VALUE", help="change an option of the problem"
    )
    parser.add_argument("--device", default="cpu", metavar="NAME", help="cpu or cuda [cpu]")


def run(args: argparse.Namespace, output: Output) -> None:
    from quant_reproduction.grid.answers import evaluate_stages
    from quant_reproduction.problems.rotation import Rotation
    from qubolearn import Run
    from qubolearn.solvers import make_solver

    runs = [Run.open(folder) for folder in args.runs]
    problems = [change_options(each.problem, args.set) for each in runs]
    stages = [problem for problem in problems if isinstance(problem, Rotation)]
    if len(stages) < 3:
        raise QubolearnError(f"expected three runs of rotation, got {', '.join(each.name for each in problems)}")
    solver = None if args.solver == "auto" else make_solver(args.solver)
    networks = [each.network().to(args.device) for each in runs]
    found = evaluate_stages(networks, stages, solver, args.instances, args.seed, args.split, args.device)
    whole = replace(stages[0], stage="all")
    title = f"{whole}, solver {args.solver} ({found.info['source']}), seed {args.seed}"
    output.table(title, [f"on {found.instances} {args.split} instances", ""], metric_rows(found))
    header = {"problem": whole.name, "head": runs[0].recipe.head, "solver": args.solver, "split": args.split}
    result = {**header, "seed": args.seed, "headline": found.metrics[whole.metric], **found.as_dict(), **provenance()}
    output.result(seconds=found.info["solve_seconds"], **result)
