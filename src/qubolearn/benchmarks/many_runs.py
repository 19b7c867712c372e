"""What many trainings at once cost beside one: the paper's protocol of both cloud problems, step by step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from qubolearn.benchmarks import timed
from qubolearn.problems import Problem, make_problem
from qubolearn.training.fast import make_steps
from qubolearn.training.fast.stacked import StackedSteps
from qubolearn.training.recipes import Recipe, recipe_for
from qubolearn.training.session import surroundings
from qubolearn.training.steps import Task
from qubolearn.training.train import task_of

__all__ = ["many_runs"]

#: Steps after which weights are compared; later the least rounding decides about single bits.
COMPARED, SPAN = 40, 20


def many_runs(quick: bool) -> Iterator[dict[str, Any]]:
    """Microseconds a step of 1, 12, 36, 72 and 144 trainings at once, on a GPU where there is one.

    Runs differ in seed and in λ_unique. ``over_one`` is the time of all of them beside that of one through ``fit``;
    ``difference`` is the largest one between weights of a run among the others and alone, and ``moved`` how far the
    weights have come by then.
    """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    counts = (3,) if quick else (1, 12, 36, 72, 144)
    for problem, few in _protocols(quick):
        recipe = recipe_for("paper", problem, **few)
        with surroundings(device):
            one = _seconds_alone(problem, recipe, device, quick)
            yield {"problem": problem.name, "device": device, "runs": 1, "engine": "fit", "us": 1e6 * one}
            for count in counts:
                found = _together(problem, recipe, count, device, quick)
                record = {"problem": problem.name, "device": device, "runs": count, "engine": "fit_many"}
                yield {**record, **found, "over_one": found["us"] / (1e6 * one)}


def _together(problem: Problem, recipe: Recipe, count: int, device: str, quick: bool) -> dict[str, float]:
    """What steps of so many runs cost, and how near they are to those of single ones."""
    tasks = _tasks(problem, recipe, count, device)
    before = _weights(tasks)
    steps = StackedSteps(tasks)
    for step in range(0, COMPARED, SPAN):
        steps.advance([step] * count, SPAN)
    moved = float((_weights(tasks) - before).abs().max())
    difference = _difference(tasks, problem, recipe, device)
    seconds = _seconds(lambda at, end: steps.advance([at] * count, end - at), recipe, quick)
    return {"us": 1e6 * seconds, "moved": moved, "difference": difference}


def _protocols(quick: bool) -> Iterator[tuple[Problem, dict[str, Any]]]:
    """Problems of the paper, with fewer instances: what a step costs does not depend on their number."""
    if quick:
        yield make_problem("randgraph", k=4), {"solver": "exhaustive", "instances": 2820}
        return
    yield make_problem("pointset", rotations=100), {"instances": 64_000}
    yield make_problem("rotation", stage="alpha"), {"instances": 64_000}


def _tasks(problem: Problem, recipe: Recipe, count: int, device: str) -> list[Task]:
    weights = (1e-3, 1e-2)
    recipes = [replace(recipe, seed=n, weight_unique=weights[2 * n // count]) for n in range(count)]
    return [task_of(problem, each, device=device) for each in recipes]


def _weights(tasks: Sequence[Task]) -> Tensor:
    return torch.stack([nn.utils.parameters_to_vector(task.network.parameters()).detach() for task in tasks])


def _difference(tasks: Sequence[Task], problem: Problem, recipe: Recipe, device: str) -> float:
    """Of the first two and the last run."""
    chosen = sorted({0, min(1, len(tasks) - 1), len(tasks) - 1})
    alone = _tasks(problem, recipe, len(tasks), device)
    for run in chosen:
        steps = make_steps(alone[run])
        for step in range(0, COMPARED, SPAN):
            steps.advance(step, step + SPAN)
    return float((_weights(tasks) - _weights(alone))[chosen].abs().max())


def _seconds_alone(problem: Problem, recipe: Recipe, device: str, quick: bool) -> float:
    steps = make_steps(_tasks(problem, recipe, 1, device)[0])
    return _seconds(lambda at, end: steps.advance(at, end), recipe, quick)


def _seconds(advance: Any, recipe: Recipe, quick: bool) -> float:
    """The best time of a step, over spans as a training takes them."""
    span, best = SPAN if quick else 100, float("inf")
    for number in range(1, 4 if quick else 12):
        at = number * span % (recipe.steps - span)
        best = min(best, timed(partial(advance, at, at + span))[0] / span)
    return best
