"""Score runs of one problem on the same unseen instances, side by side.

Of two runs also their difference, instance by instance: its mean and the 95 % interval of the mean. Instances that are
hard for both runs cancel, so it tells more than the two scores.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from qubolearn.cli.options import add_draw, add_problem_of_run, add_solver, count, open_run
from qubolearn.cli.output import Output
from qubolearn.cli.train import pick_device
from qubolearn.errors import QubolearnError
from qubolearn.provenance import provenance
from qubolearn.solvers import make_solver

if TYPE_CHECKING:
    from torch import Tensor

    from qubolearn.training.runs import Run

__all__ = ["paired"]

EPILOG = """examples:
  qubolearn compare runs/quant runs/diag
  qubolearn compare runs/seed-* --instances 5000 --json"""


def add_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run folders of the same problem")
    add_solver(parser)
    add_problem_of_run(parser)
    parser.add_argument("--instances", type=count, default=2000, metavar="N", help="instances to score [2000]")
    add_draw(parser)
    parser.add_argument("--device", default=None, metavar="NAME", help="cpu or cuda [cuda where there is one]")


def run(args: argparse.Namespace, output: Output) -> None:
    solver = None if args.solver == "auto" else make_solver(args.solver)
    runs = [open_run(folder, args) for folder in args.runs]
    problem = runs[0].problem
    for folder, here in zip(args.runs, runs, strict=True):
        if here.problem != problem:
            raise QubolearnError(f"{folder} is of {here.problem}, {args.runs[0]} of {problem}; want the same instances")
    with output.progress(f"{problem.name}, {args.solver}", len(runs)) as bar:
        scores = []
        for here in runs:
            scores.append(_scores(here, solver, args))
            bar.advance(bar.task_ids[0])
    means = [{name: value.mean().item() for name, value in score.items()} for score in scores]
    difference = paired(*scores) if len(scores) == 2 else {}
    rows = [[name, *(f"{mean[name]:.4g}" for mean in means), *_interval(difference.get(name))] for name in means[0]]
    instances = len(next(iter(scores[0].values())))
    title = f"{problem} on the same {instances} {args.split} instances, solver {args.solver}, seed {args.seed}"
    output.table(title, ["", *args.runs, *(["second - first, ± 95 %"] if difference else [])], rows)
    header = {"problem": problem.name, "metric": problem.metric, "solver": args.solver, "instances": instances}
    compared = [{"run": folder, **mean} for folder, mean in zip(args.runs, means, strict=True)]
    output.result(**header, split=args.split, seed=args.seed, runs=compared, difference=difference, **provenance())


def _scores(here: Run, solver: Any, args: argparse.Namespace) -> dict[str, Tensor]:
    """Every metric of every instance ``[instances]``; the instances depend on the seed and the split alone."""
    from qubolearn.evaluation import solve_instances
    from qubolearn.problems import Problem
    from qubolearn.randomness import stream

    problem, device = here.problem, pick_device(args.device)
    instances = min(args.instances, problem.available(args.split) or args.instances)
    data = problem.sample(instances, stream(args.seed, args.split, device=device), args.split)
    bits, _ = solve_instances(here.network().to(device), data.p, solver, problem)
    scores = dict(problem.score(problem.decode(bits), data))
    if type(problem).project is not Problem.project:
        projected = problem.score(problem.decode(problem.project(bits, data.p)), data)
        scores |= {f"{name}_projected": value for name, value in projected.items()}
    return {name: value.double().cpu() for name, value in scores.items()}


def paired(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> dict[str, dict[str, float]]:
    """Of each metric ``[instances]``: the mean of second - first, half of its 95 % interval, and who was better where.

    >>> import torch
    >>> first, second = {"accuracy": torch.tensor([0.0, 1, 0, 1])}, {"accuracy": torch.tensor([1.0, 1, 1, 0])}
    >>> paired(first, second)["accuracy"]["mean"]
    0.25
    """
    found = {}
    for name in first:
        change = second[name] - first[name]
        error = change.std().item() / math.sqrt(len(change)) if len(change) > 1 else 0.0
        found[name] = {
            "mean": change.mean().item(),
            "interval": 1.96 * error,
            "higher": int((change > 0).sum()),
            "lower": int((change < 0).sum()),
        }
    return found


def _interval(change: Mapping[str, float] | None) -> list[str]:
    return [f"{change['mean']:+.4g} ± {change['interval']:.2g}"] if change else []
