"""Training as a part of a job: a network, or one per stage of a rotation, and the seconds that it took."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from qubolearn.paper.grid.answers import Model
from qubolearn.paper.problems.rotation import STAGES, Rotation
from qubolearn.problems import Problem, make_problem
from qubolearn.training.recipes import Recipe, recipe_for
from qubolearn.training.train import train

__all__ = ["device", "time_of", "trained", "trained_model"]


def device() -> torch.device:
    """Where jobs train."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def time_of(seconds: float) -> dict[str, Any]:
    """What a record says of its training."""
    return {"training_seconds": seconds, "device": device().type}


def trained(problem: Problem, recipe: Recipe) -> tuple[nn.Module, float]:
    """A network and its seconds of training."""
    began = time.perf_counter()
    network = train(problem, recipe, device=device())
    if device().type == "cuda":
        torch.cuda.synchronize()
    return network, round(time.perf_counter() - began, 3)


def trained_model(
    seed: int, problem: Mapping[str, Any], protocol: str, overrides: Mapping[str, Any] | None = None
) -> tuple[Model, float]:
    """A model on the CPU that answers instances, with a network for each stage of a rotation."""
    whole = make_problem(**problem)
    stages: list[Problem] = [whole]
    if isinstance(whole, Rotation):
        stages = [replace(whole, stage=stage) for stage in STAGES]
    made = [trained(stage, recipe_for(protocol, stage, seed=seed, **(overrides or {}))) for stage in stages]
    networks = tuple(network.cpu() for network, _ in made)
    return Model(whole, tuple(stages), networks), sum(seconds for _, seconds in made)
