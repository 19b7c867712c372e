"""What a job can do: functions of a seed and plain options that return metrics as plain JSON."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from qubolearn.config import preset
from qubolearn.evaluation import evaluate
from qubolearn.problems import make_problem
from qubolearn.solvers import make_solver
from qubolearn.training import train

__all__ = ["TASKS", "train_and_evaluate"]


def train_and_evaluate(
    seed: int,
    problem: Mapping[str, Any],
    protocol: str,
    overrides: Mapping[str, Any] | None = None,
    tests: Sequence[Mapping[str, Any]] = ({"label": "exhaustive"},),
    instances: int = 2000,
) -> dict[str, Any]:
    """Train once, then score on unseen test instances under each of ``tests``: a solver, options of the problem."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    made = make_problem(**problem)
    config = preset(protocol, made, seed=seed, **(overrides or {}))
    began = time.perf_counter()
    network = train(made, config, device=device)
    if device.type == "cuda":
        torch.cuda.synchronize()
    metrics: dict[str, Any] = {"training_seconds": round(time.perf_counter() - began, 3), "device": device.type}
    for test in tests:
        changed = replace(made, **test.get("set", {}))  # type: ignore[type-var]
        solver = make_solver(test.get("solver", "exhaustive"))
        found = evaluate(network, changed, solver, instances, seed, device=device)
        metrics[test["label"]] = {**found.metrics, "hamming": found.hamming, **found.info}
    return metrics


TASKS: Mapping[str, Callable[..., dict[str, Any]]] = {
    "train": train_and_evaluate,
}
