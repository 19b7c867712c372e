"""Training as a part of a job: a network, or one per stage of a rotation, and the seconds that it took."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import nn

from qubolearn.paper.grid.answers import Model
from qubolearn.paper.problems.rotation import STAGES, Rotation
from qubolearn.problems import Problem, make_problem
from qubolearn.training.recipes import Recipe, recipe_for
from qubolearn.training.train import train

__all__ = ["Trained", "device", "networks_of", "time_of", "trained", "trained_model", "trainings"]

Training = tuple[Problem, Recipe]


class Trained(NamedTuple):
    """Networks of a job, their seconds of training, and with how many networks of other jobs they were trained."""

    networks: Sequence[nn.Module]
    seconds: float
    together: int = 1


def device() -> torch.device:
    """Where jobs train."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def time_of(seconds: float, together: int = 1) -> dict[str, Any]:
    """What a record says of its training: of one of a stack, also how many networks that stack had."""
    stack = {"trained_together": together} if together > 1 else {}
    return {"training_seconds": seconds, "device": device().type, **stack}


def trainings(
    seed: int,
    problem: Mapping[str, Any],
    protocol: str,
    overrides: Mapping[str, Any] | None = None,
    in_stages: bool = True,
) -> list[Training]:
    """What a job trains: a problem and its recipe, or one for each stage of a rotation."""
    whole = make_problem(**problem)
    parts: list[Problem] = [whole]
    if in_stages and isinstance(whole, Rotation):
        parts = [replace(whole, stage=stage) for stage in STAGES]
    return [(part, recipe_for(protocol, part, seed=seed, **(overrides or {}))) for part in parts]


def trained(problem: Problem, recipe: Recipe) -> tuple[nn.Module, float]:
    """A network and its seconds of training."""
    began = time.perf_counter()
    network = train(problem, recipe, device=device())
    if device().type == "cuda":
        torch.cuda.synchronize()
    return network, round(time.perf_counter() - began, 3)


def networks_of(asked: Sequence[Training]) -> Trained:
    """Train one network after the other."""
    made = [trained(*each) for each in asked]
    return Trained([network for network, _ in made], sum(seconds for _, seconds in made))


def trained_model(
    seed: int,
    problem: Mapping[str, Any],
    protocol: str,
    overrides: Mapping[str, Any] | None = None,
    made: Trained | None = None,
) -> tuple[Model, float]:
    """A model on the CPU that answers instances, with a network for each stage of a rotation, and its seconds.

    ``made`` holds its networks, where they were trained already.
    """
    asked = trainings(seed, problem, protocol, overrides)
    made = made or networks_of(asked)
    networks = tuple(deepcopy(network).cpu() for network in made.networks)  # other jobs may want the same ones
    return Model(make_problem(**problem), tuple(part for part, _ in asked), networks), made.seconds
