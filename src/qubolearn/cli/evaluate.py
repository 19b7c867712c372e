"""Score a trained run on instances that it never saw, with any solver and seed."""

from __future__ import annotations

import argparse
import ast
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, get_type_hints

from qubolearn.cli.options import add_draw, add_problem_of_run, add_solver, count, open_run
from qubolearn.cli.output import Output, metric_rows
from qubolearn.cli.train import pick_device
from qubolearn.errors import QubolearnError, unknown_name
from qubolearn.problems import Problem
from qubolearn.provenance import provenance
from qubolearn.solvers import make_solver
from qubolearn.typed import check_option

if TYPE_CHECKING:
    from qubolearn.evaluation import Evaluation
    from qubolearn.training.runs import Run

EPILOG = """examples:
  qubolearn evaluate runs/k4 --instances 5000 --seed 7
  qubolearn evaluate runs/k4 --solver annealing:reads=20,sweeps=50,seed=1
  qubolearn evaluate runs/k4 --solver quantum:seed=1          simulated quantum annealing
  qubolearn evaluate runs/alpha runs/beta runs/gamma --set noise=0.2
                                                              three stages, and another option than in training
  qubolearn evaluate runs/mine --problem my_file.py:MyProblem"""


def add_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    parser.add_argument("runs", nargs="+", metavar="DIR", help="run folder; three for the stages of rotation")
    add_solver(parser)
    add_problem_of_run(parser)
    parser.add_argument("--instances", type=count, default=2000, metavar="N", help="instances to score [2000]")
    add_draw(parser)
    parser.add_argument(
        "--set", action="append", default=[], metavar="OPTION=VALUE", help="change an option of the problem"
    )
    parser.add_argument("--project", action="store_true", help="report the metric after projection to valid answers")
    parser.add_argument("--device", default=None, metavar="NAME", help="cpu or cuda [cuda where there is one]")


def run(args: argparse.Namespace, output: Output) -> None:
    runs = [open_run(folder, args) for folder in args.runs]
    problem, found = _evaluate(args, runs, output)
    headline = f"{problem.metric}_projected" if args.project else problem.metric
    if headline not in found.metrics:
        raise QubolearnError(f"{problem.name} has no projection; leave out --project")
    extra = [(name, f"{value:.4g}") for name, value in found.info.items() if isinstance(value, float)]
    source = found.info.get("source", "unknown")
    title = f"{problem}, solver {args.solver} ({source}), seed {args.seed}"
    output.table(title, [f"on {found.instances} {args.split} instances", ""], [*metric_rows(found), *extra])
    header = {"problem": problem.name, "method": runs[0].recipe.method, "solver": args.solver, "split": args.split}
    result = {**header, "seed": args.seed, "headline": found.metrics[headline], **found.as_dict(), **provenance()}
    output.result(seconds=found.info["solve_seconds"], **result)


def _evaluate(args: argparse.Namespace, runs: Sequence[Run], output: Output) -> tuple[Problem, Evaluation]:
    from qubolearn.evaluation import evaluate
    from qubolearn.paper.problems.rotation import Rotation
    from qubolearn.paper.staged import evaluate_stages

    device = pick_device(args.device)
    solver = None if args.solver == "auto" else make_solver(args.solver)  # the problem may have one of its own
    problems = [change_options(here.problem, args.set) for here in runs]
    networks = [here.network().to(device) for here in runs]
    with output.progress(f"{problems[0].name}, {args.solver}", 1):
        if len(runs) == 1:
            return problems[0], evaluate(
                networks[0], problems[0], solver, args.instances, args.seed, args.split, device
            )
        if not all(isinstance(problem, Rotation) for problem in problems):
            raise QubolearnError(f"{len(runs)} runs; only the three stages of rotation are evaluated together")
        stages = [problem for problem in problems if isinstance(problem, Rotation)]
        found = evaluate_stages(networks, stages, solver, args.instances, args.seed, args.split, device)
        return replace(stages[0], stage="all"), found


def change_options(problem: Problem, settings: Sequence[str]) -> Problem:
    """A run's problem with options replaced, each given as ``name=value``; its size must stay the same."""
    known = [field.name for field in fields(problem)]  # type: ignore[arg-type]
    hints, changes = get_type_hints(type(problem)), dict[str, Any]()
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise QubolearnError(f"--set {setting!r} is not OPTION=VALUE")
        if name not in known:
            raise unknown_name(f"option of {problem.name}", name, known)
        try:
            changes[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            changes[name] = text
        check_option(changes[name], hints[name], f"--set {name}")
    changed: Problem = replace(problem, **changes) if changes else problem  # type: ignore[type-var]
    if (changed.input_size, changed.bits) != (problem.input_size, problem.bits):
        raise QubolearnError(f"{changed} has another size than the run's {problem}; train a run for it")
    return changed
