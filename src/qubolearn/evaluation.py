"""Trained model -> metrics: solver -> x* -> decode -> score, on instances that training never saw."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from qubolearn.problems.contract import Instances, Problem, Split
from qubolearn.randomness import stream
from qubolearn.solvers.contract import Solver

__all__ = ["Evaluation", "evaluate", "evaluate_answers", "evaluate_bits"]

CHUNK = 1024  # instances solved at once


@dataclass(frozen=True)
class Evaluation:
    """Metrics over a set of instances."""

    instances: int
    metrics: Mapping[str, float]  # means, medians as <name>_median where not 0/1, <name>_projected where it differs
    hamming: tuple[int, ...] | None = None  # instances at Hamming distance 0, 1, ... n from the solution
    hamming_projected: tuple[int, ...] | None = None
    info: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Flat and JSON-able."""
        flat = asdict(self)
        return {**flat.pop("metrics"), **flat.pop("info"), **{k: v for k, v in flat.items() if v is not None}}


def evaluate(
    network: nn.Module,
    problem: Problem,
    solver: Solver,
    instances: int = 2000,
    seed: int = 0,
    split: Split = "test",
    device: torch.device | str = "cpu",
) -> Evaluation:
    """Score a network on ``instances`` drawn from a split by the seed, with any solver."""
    data = problem.sample(instances, stream(seed, split, device=device), split)
    began = time.perf_counter()
    states, info = solve_instances(network, data.p, solver)
    seconds = time.perf_counter() - began
    return evaluate_bits(problem, states, data, {**info, "solve_seconds": seconds})


@torch.no_grad()
def solve_instances(network: nn.Module, p: Tensor, solver: Solver) -> tuple[Tensor, dict[str, Any]]:
    """p ``[batch, m]`` -> x* ``[batch, n]`` and what the solver measured, averaged over the instances."""
    states, measured = [], []
    for chunk in torch.split(p, CHUNK):
        solution = solver(network(chunk), 1)
        states.append(solution.states[:, 0])
        measured.append(solution.info)
    numbers = [name for name, value in measured[0].items() if isinstance(value, Tensor) and value.ndim == 1]
    means = {name: torch.cat([info[name].double().cpu() for info in measured]).mean().item() for name in numbers}
    return torch.cat(states), {"source": measured[0].get("source", "exact"), **means}


def evaluate_bits(problem: Problem, x: Tensor, data: Instances, info: Mapping[str, Any] | None = None) -> Evaluation:
    """Metrics of bits x ``[batch, n]`` against instances; projected ones too where the problem projects."""
    metrics = _summary(problem.score(problem.decode(x), data.answer))
    projects = type(problem).project is not Problem.project
    hamming_projected = None
    if projects:
        projected = problem.project(x)
        scores = problem.score(problem.decode(projected), data.answer)
        metrics |= {f"{name}_projected": value for name, value in _summary(scores).items()}
        hamming_projected = _histogram(projected, data.x_true)
    return Evaluation(len(x), metrics, _histogram(x, data.x_true), hamming_projected, info or {})


def evaluate_answers(problem: Problem, answer: Tensor, answer_true: Tensor) -> Evaluation:
    """Metrics of answers that no single bit vector stands for: of several networks, or of a method without bits."""
    return Evaluation(len(answer), _summary(problem.score(answer, answer_true)))


def _summary(scores: Mapping[str, Tensor]) -> dict[str, float]:
    summary = {}
    for name, values in scores.items():
        summary[name] = values.double().mean().item()
        if not bool(((values == 0) | (values == 1)).all()):
            summary[f"{name}_median"] = values.double().median().item()
    return summary


def _histogram(x: Tensor, x_true: Tensor) -> tuple[int, ...]:
    distance = (x != x_true).sum(-1)
    return tuple(torch.bincount(distance.cpu(), minlength=x.shape[-1] + 1).tolist())
