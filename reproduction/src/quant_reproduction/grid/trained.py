"""Training as a part of a job: a network, or one per stage of a rotation, and the seconds that it took."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from quant_reproduction.grid.answers import Model
from quant_reproduction.presets import recipe_for
from quant_reproduction.problems.angles import STAGES
from quant_reproduction.problems.rotation import Rotation
from qubolearn.files import lock_folder, read_tensors, write_tensors
from qubolearn.problems import Problem, make_problem
from qubolearn.recipes import Recipe, new_network, train

__all__ = ["device", "networks_of", "time_of", "trained", "trained_model", "trainings"]

Training = tuple[Problem, Recipe]
#: Names the folder in which jobs of one run share networks, each as such a file; no folder outlives its run.
SHARED, FILE = "QUBOLEARN_SHARED_NETWORKS", "network.safetensors"


def device() -> torch.device:
    """Return the device on which jobs train."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def time_of(seconds: float) -> dict[str, Any]:
    """Return the time and device of training as a record stores them."""
    return {"training_seconds": seconds, "device": device().type}


def trainings(
    seed: int,
    problem: Mapping[str, Any],
    protocol: str,
    overrides: Mapping[str, Any] | None = None,
    in_stages: bool = True,
) -> list[Training]:
    """Return what a job trains: a problem and its recipe, or one for each stage of a rotation."""
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
    """Return a new network with these weights, on the CPU."""
    network = new_network(problem, recipe)
    network.load_state_dict(tensors)
    return network.eval()


def _trained_here(problem: Problem, recipe: Recipe) -> tuple[nn.Module, float]:
    began = time.perf_counter()
    network = train(problem, recipe, device=device())
    if device().type == "cuda":
        torch.cuda.synchronize()
    return network, round(time.perf_counter() - began, 3)


def networks_of(asked: Sequence[Training]) -> tuple[list[nn.Module], float]:
    """Train one network after the other; return them and their seconds."""
    made = [trained(*each) for each in asked]
    return [network for network, _ in made], sum(seconds for _, seconds in made)


def trained_model(
    seed: int, problem: Mapping[str, Any], protocol: str, overrides: Mapping[str, Any] | None = None
) -> tuple[Model, float]:
    """Return a model on the CPU that answers instances, with one network per stage of a rotation, and its seconds."""
    asked = trainings(seed, problem, protocol, overrides)
    networks, seconds = networks_of(asked)
    copies = tuple(_network(*each, network.state_dict()) for each, network in zip(asked, networks, strict=True))
    return Model(make_problem(**problem), tuple(part for part, _ in asked), copies), seconds
