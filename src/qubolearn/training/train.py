"""A recipe -> values -> fit: what the command line and ``reproduce`` call."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from qubolearn.problems.contract import Problem
from qubolearn.solvers import make_solver
from qubolearn.training.batches import Drawn
from qubolearn.training.build import make_loss, make_optimizer, new_network
from qubolearn.training.callbacks import Callback
from qubolearn.training.distributed import ALONE, Peers
from qubolearn.training.fast.adam import FlatAdam
from qubolearn.training.fit import Training, fit
from qubolearn.training.many import fit_many
from qubolearn.training.recipes import Recipe
from qubolearn.training.runs import Run
from qubolearn.training.steps import Task

__all__ = ["evaluation_steps", "task_of", "train", "train_many"]

EVALUATIONS = 20  # times that validation instances are scored, more densely early on, where most changes


class _Stop(Callback):
    """Ends a training where a function says so."""

    def __init__(self, asked: Callable[[], bool]) -> None:
        self._asked = asked

    def on_step(self, training: Training) -> None:
        if self._asked():
            training.stop(for_good=False)


def train(
    problem: Problem,
    recipe: Recipe,
    run: Run | None = None,
    device: torch.device | str = "cpu",
    callbacks: Sequence[Callback] = (),
    stop: Callable[[], bool] | None = None,
    peers: Peers = ALONE,
) -> nn.Module:
    """Train the network of a recipe for a problem.

    Args:
        problem, recipe: what :func:`qubolearn.preset` returns.
        run: keep metrics, checkpoints and the model in its folder, and go on from there.
        device: cpu or cuda.
        callbacks: see :mod:`qubolearn.training.callbacks`.
        stop: called after every step, on a GPU about every half second; when it returns True, the state is saved and
            the network is returned as it is.
        peers: this process among those that train together; all of them read the run, the first one writes it.

    Returns:
        The trained network, in evaluation mode.

    Raises:
        QubolearnError: where problem and recipe do not fit together, or the run holds something else.

    >>> from qubolearn import preset
    >>> network = train(*preset("best", "randgraph", k=2, epochs=1, instances=200, hidden=8))
    >>> list(network(torch.zeros(3, 16)).shape)
    [3, 2, 2]
    """
    arguments = _arguments(problem, recipe, run.begun() if run and peers.rank == 0 else run, callbacks, stop)
    return fit(**arguments, device=device, peers=peers).network


def train_many(
    trainings: Sequence[tuple[Problem, Recipe]],
    runs: Sequence[Run | None] | None = None,
    device: torch.device | str = "cpu",
    stop: Callable[[], bool] | None = None,
) -> list[Training]:
    """:func:`train` for many problems and recipes: those whose networks have one shape train together on a GPU.

    Args:
        trainings: what :func:`qubolearn.preset` returns, for each training.
        runs: where each of them is kept, or None where it is not.
        device: cpu or cuda.
        stop: as for :func:`train`; it ends all of them.

    Returns:
        One :class:`Training` for each, as :func:`qubolearn.fit_many` returns them: with its network, and its error
        where it met NaN.
    """
    places = runs or [None] * len(trainings)
    begun = [run.begun() if run else None for run in places]
    arguments = [_arguments(*each, run, (), stop) for each, run in zip(trainings, begun, strict=True)]
    return fit_many(arguments, device=device)


def _arguments(
    problem: Problem, recipe: Recipe, run: Run | None, callbacks: Sequence[Callback], stop: Callable[[], bool] | None
) -> dict[str, Any]:
    """The arguments of ``fit`` that a recipe stands for."""
    return {
        "network": new_network(problem, recipe),
        "data": problem,
        "loss": make_loss(recipe, problem),
        "epochs": recipe.epochs,
        "optimizer": make_optimizer(recipe),
        "solver": make_solver(recipe.solver),
        "callbacks": [*callbacks, *([_Stop(stop)] if stop else [])],
        "batch_size": recipe.batch_size,
        "instances": recipe.instances,
        "fresh": recipe.fresh,
        "validation": None if problem.available("validation") == 0 else recipe.validation,
        "score_after": evaluation_steps(recipe),
        "standardise": recipe.standardise,
        "seed": recipe.seed,
        "folder": run,
    }


def evaluation_steps(recipe: Recipe) -> list[int]:
    """The steps after which validation instances are scored, in order; the last one of all is among them."""
    if recipe.network == "shared":  # solving with rules that are half learned takes all sweeps of a solver
        return [recipe.steps]
    return sorted({math.ceil(recipe.steps * (i / EVALUATIONS) ** 2) for i in range(1, EVALUATIONS + 1)})


def task_of(
    problem: Problem, recipe: Recipe, network: nn.Module | None = None, device: torch.device | str = "cpu"
) -> Task:
    """The steps of a recipe by themselves, for benchmarks and for faults that are looked at again."""
    network = (network or new_network(problem, recipe)).to(device)
    batches = Drawn(problem, recipe.instances, recipe.batch_size, recipe.fresh, recipe.seed, device)
    update = FlatAdam(network, make_optimizer(recipe), recipe.steps)
    return Task(network, update, batches, make_loss(recipe, problem), make_solver(recipe.solver), recipe.seed, problem)
