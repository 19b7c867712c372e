"""The commands evaluate and compare."""

from __future__ import annotations

import argparse
import ast
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, get_type_hints

from qubolearn.cli.options import add_device, add_draw, add_run, add_solver, open_run, pick_device
from qubolearn.cli.output import Output, metric_rows
from qubolearn.errors import QubolearnError, convert, unknown_name
from qubolearn.problems import Problem
from qubolearn.provenance import provenance
from qubolearn.solvers import make_solver

if TYPE_CHECKING:
    from torch import Tensor


def _add_scoring(parser: argparse.ArgumentParser) -> None:
    add_solver(parser)
    add_draw(parser, "--instances", 2000, "instances to score")
    add_device(parser)


def add_evaluate(parser: argparse.ArgumentParser, _: str | None) -> None:
    add_run(parser)
    _add_scoring(parser)
    text = "change an option of the problem"
    parser.add_argument("--set", action="append", default=[], metavar="OPTION=VALUE", help=text)
    parser.add_argument("--project", action="store_true", help="report the metric after projection to valid answers")


def run_evaluate(args: argparse.Namespace, output: Output) -> None:
    """Score a trained run on unseen instances, with any solver and seed.

    examples:
      qubolearn evaluate runs/k4 --instances 5000 --seed 7
      qubolearn evaluate runs/k4 --solver annealing:reads=20,sweeps=50,seed=1
      qubolearn evaluate runs/k4 --solver quantum:seed=1          simulated quantum annealing
      qubolearn evaluate runs/k4 --set noise=0.2                  another option than in training
      qubolearn evaluate runs/mine --problem my_file.py:MyProblem
    """
    here = open_run(args.run, args)
    solver = None if args.solver == "auto" else make_solver(args.solver)  # the problem may have its own default
    problem, device = change_options(here.problem, args.set), pick_device(args.device)
    from qubolearn.evaluation import evaluate

    network = here.network().to(device)
    with output.progress(f"{problem.name}, {args.solver}", 1):
        found = evaluate(network, problem, solver, args.instances, args.seed, args.split, device)
    headline = f"{problem.metric}_projected" if args.project else problem.metric
    if headline not in found.metrics:
        raise QubolearnError(f"{problem.name} has no projection; omit --project")
    extra = [(name, f"{value:.4g}") for name, value in found.info.items() if isinstance(value, float)]
    title = f"{problem}, solver {args.solver} ({found.info.get('source', 'unknown')}), seed {args.seed}"
    output.table(title, [f"on {found.instances} {args.split} instances", ""], [*metric_rows(found), *extra])
    header = {"problem": problem.name, "head": here.recipe.head, "solver": args.solver}
    result = {**header, "seed": args.seed, "headline": found.metrics[headline], **found.as_dict(), **provenance()}
    output.result(seconds=found.info["solve_seconds"], **result)


def change_options(problem: Problem, settings: Sequence[str]) -> Problem:
    """Return a problem with options replaced, each given as ``name=value``; its size must stay the same."""
    known = [field.name for field in fields(problem)]  # type: ignore[arg-type]
    hints, changes = get_type_hints(type(problem)), dict[str, Any]()
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise QubolearnError(f"--set {setting!r} is not OPTION=VALUE")
        if name not in known:
            raise unknown_name(f"option of {problem.name}", name, known)
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            value = text
        changes[name] = convert(value, hints[name], f"--set {name}")
    changed: Problem = replace(problem, **changes) if changes else problem  # type: ignore[type-var]
    if (changed.input_size, changed.bits) != (problem.input_size, problem.bits):
        raise QubolearnError(f"{changed} differs in size from the run's {problem}; train a run for it")
    return changed


def add_compare(parser: argparse.ArgumentParser, _: str | None) -> None:
    add_run(parser, "+", "run folders of the same problem")
    _add_scoring(parser)


def run_compare(args: argparse.Namespace, output: Output) -> None:
    """Score runs of one problem on the same unseen instances.

    For two runs, the mean difference per instance and its 95 % interval are shown as well. Instances that are hard for
    both runs cancel, so it is more precise than the two scores.

    examples:
      qubolearn compare runs/coupled runs/uncoupled
      qubolearn compare runs/seed-* --instances 5000 --json
    """
    from qubolearn.evaluation import evaluate

    solver, device = None if args.solver == "auto" else make_solver(args.solver), pick_device(args.device)
    runs = [open_run(folder, args) for folder in args.runs]
    problem, found = runs[0].problem, []
    for folder, here in zip(args.runs, runs, strict=True):
        if here.problem != problem:
            raise QubolearnError(f"{folder} is of {here.problem}, {args.runs[0]} of {problem}; compare runs of one")
    with output.progress(f"{problem.name}, {args.solver}", len(runs)) as bar:
        for here in runs:
            found.append(evaluate(here.network(), problem, solver, args.instances, args.seed, args.split, device))
            bar.advance(bar.task_ids[0])
    means = [{n: value for n, value in each.metrics.items() if not n.endswith("_median")} for each in found]
    difference = paired(found[0].scores, found[1].scores) if len(found) == 2 else {}
    change = {name: f"{each['mean']:+.4g} ± {each['interval']:.2g}" for name, each in difference.items()}
    rows = [[name, *(f"{mean[name]:.4g}" for mean in means), change.get(name, "")] for name in means[0]]
    instances = found[0].instances
    title = f"{problem} on the same {instances} {args.split} instances, solver {args.solver}, seed {args.seed}"
    output.table(title, ["", *args.runs, "second - first, ± 95 %" if difference else ""], rows)
    header = {"problem": problem.name, "metric": problem.metric, "solver": args.solver, "instances": instances}
    compared = [{"run": folder, **mean} for folder, mean in zip(args.runs, means, strict=True)]
    output.result(**header, split=args.split, seed=args.seed, runs=compared, difference=difference, **provenance())


def paired(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> dict[str, dict[str, float]]:
    """Return the mean of second - first for each metric ``[instances]``, half of its 95 % interval, and counts.

    >>> import torch
    >>> first, second = {"accuracy": torch.tensor([0.0, 1, 0, 1])}, {"accuracy": torch.tensor([1.0, 1, 1, 0])}
    >>> paired(first, second)["accuracy"]["mean"]
    0.25
    """
    found = {}
    for name in first:
        change = second[name].double() - first[name].double()
        error = change.std().item() / math.sqrt(len(change)) if len(change) > 1 else 0.0
        found[name] = {
            "mean": change.mean().item(),
            "interval": 1.96 * error,
            "higher": int((change > 0).sum()),
            "lower": int((change < 0).sum()),
        }
    return found
