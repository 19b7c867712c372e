"""Training as a part of a job: a network, or one per stage of a rotation, and the seconds that it took."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from qubolearn.files import lock_folder, read_tensors, write_tensors
from qubolearn.paper.grid.answers import Model
from qubolearn.paper.problems.rotation import STAGES, Rotation
from qubolearn.problems import Problem, make_problem
from qubolearn.training.build import new_network
from qubolearn.training.recipes import Recipe, recipe_for
from qubolearn.training.train import train

__all__ = ["Trained", "device", "networks_of", "time_of", "trained", "trained_model", "trainings"]

Training = tuple[Problem, Recipe]
#: Names the folder in which jobs of one run share networks, each as such a file; no folder outlives its run.
SHARED, FILE = "QUBOLEARN_SHARED_NETWORKS", "network.safetensors"


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
    """A network and its seconds of training, which another job of this run may have spent.

    Several jobs want the same network: one trains it, others wait for that. A job that dies meanwhile leaves the
    training to the next one.
    """
    if SHARED not in os.environ:
        return _trained_here(problem, recipe)
    key = hashlib.sha256(repr((problem, recipe, device())).encode()).hexdigest()[:16]
    place = Path(os.environ[SHARED]) / key
    place.mkdir(parents=True, exist_ok=True)
    with lock_folder(place, wait=True):
        if not (place / FILE).is_file():
            network, seconds = _trained_here(problem, recipe)
            write_tensors(place / FILE, network.state_dict(), finite=False, seconds=str(seconds))
            return network, seconds
    tensors, notes = read_tensors(place / FILE, new_network(problem, recipe).state_dict(), finite=False)
    return _network(problem, recipe, tensors).to(device()), float(notes["seconds"])


def _network(problem: Problem, recipe: Recipe, tensors: Mapping[str, Tensor]) -> nn.Module:
    """A network of its own with these weights, on the CPU."""
    network = new_network(problem, recipe)
    network.load_state_dict(tensors)
    return network.eval()


def _trained_here(problem: Problem, recipe: Recipe) -> tuple[nn.Module, float]:
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
    # copies, since other jobs may want the same ones, where they are
    networks = tuple(_network(*each, network.state_dict()) for each, network in zip(asked, made.networks, strict=True))
    return Model(make_problem(**problem), tuple(part for part, _ in asked), networks), made.seconds
