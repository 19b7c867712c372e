"""Penalty weights and chain strengths, tuned and by the usual rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from benchmarks import Record, threads
from qubolearn import DWaveSolver, SimulatedAnnealing
from qubolearn.tuning import Tuned, tune_chain_strength, tune_penalties

#: Multiples of each task's scale that are tried.
FACTORS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 1.0, 1.4, 2.0)
PAIRS = tuple(product((0.3, 0.5, 0.7, 1.0), (0.7, 1.0, 1.4, 2.0)))
TRAINED, TESTED = 40, 60


class Task(NamedTuple):
    """A formulation: instances, QUBO of a factor, costs, and the usual factor."""

    draw: Callable[[np.random.Generator], Any]
    build: Callable[[Any, Any], Tensor]
    cost: Callable[[Any, Tensor], Tensor]
    rule: Any
    name: str
    candidates: tuple[Any, ...] = FACTORS


CITIES, COLORS, NODES = 6, 3, 10
#: (Σ x - 1)² per city, time and node, less a constant
ONE_TIME = torch.kron(torch.eye(CITIES), torch.ones(CITIES, CITIES)) - 2 * torch.eye(CITIES**2)
ONE_CITY = torch.kron(torch.ones(CITIES, CITIES), torch.eye(CITIES)) - 2 * torch.eye(CITIES**2)
ONE_COLOR = torch.kron(torch.eye(NODES), torch.ones(COLORS, COLORS)) - 2 * torch.eye(NODES * COLORS)


def distances(random: np.random.Generator) -> Tensor:
    """Return distances ``[6, 6]`` of random points."""
    points = torch.from_numpy(random.uniform(size=(CITIES, 2))).float()
    return torch.cdist(points, points)


def tour_qubo(D: Tensor, factors: tuple[float, float] | float) -> Tensor:
    """Return the QUBO of a tour, with a factor for cities and one for times."""
    factors = factors if isinstance(factors, tuple) else (factors, factors)
    length = torch.einsum("ij,st->isjt", D, torch.eye(CITIES).roll(1, 1)).reshape(CITIES**2, -1)
    return length + D.max() * (factors[0] * ONE_TIME + factors[1] * ONE_CITY)


def tour_length(D: Tensor, x: Tensor) -> Tensor:
    places = x.reshape(-1, CITIES, CITIES)
    length = torch.einsum("ris,ij,rjs->r", places, D, places.roll(-1, 2))
    return length.masked_fill(~((places.sum(1) == 1) & (places.sum(2) == 1)).all(1), torch.inf)


def graph(random: np.random.Generator) -> Tensor:
    """Return a random graph with a hidden coloring."""
    hidden = torch.from_numpy(random.permutation(np.arange(NODES) % COLORS))
    W = torch.from_numpy(random.random((NODES, NODES)) < 0.6) & (hidden[:, None] != hidden)
    return W.float().triu(1)


def coloring_qubo(W: Tensor, factor: float) -> Tensor:
    return torch.kron(W, torch.eye(COLORS)) + factor * (W + W.T).sum(1).max() * ONE_COLOR


def coloring_cost(W: Tensor, x: Tensor) -> Tensor:
    colors = x.reshape(-1, NODES, COLORS)
    clashes = torch.einsum("ric,ij,rjc->r", colors, W, colors)
    return clashes.masked_fill(~(colors.sum(2) == 1).all(1), torch.inf)


def items(random: np.random.Generator) -> tuple[Tensor, Tensor, int]:
    """Return values and weights ``[10]``, and half the weight as capacity."""
    weights = torch.from_numpy(random.integers(1, 10, 10)).float()
    return torch.from_numpy(random.integers(1, 10, 10)).float(), weights, int(weights.sum()) // 2


def knapsack_qubo(given: tuple[Tensor, Tensor, int], factor: float) -> Tensor:
    values, weights, capacity = given
    bits = capacity.bit_length()
    slack = torch.tensor([2.0**k for k in range(bits - 1)] + [capacity - 2.0 ** (bits - 1) + 1])
    row = torch.cat([weights, slack])
    P = torch.outer(row, row) - 2 * capacity * row.diag()
    return factor * values.max() * P - torch.cat([values, torch.zeros(bits)]).diag()


def knapsack_cost(given: tuple[Tensor, Tensor, int], x: Tensor) -> Tensor:
    values, weights, capacity = given
    return (-(x[:, :10] @ values)).masked_fill(x[:, :10] @ weights > capacity, torch.inf)


TASKS = {
    "TSP, 6 cities, two weights": Task(distances, tour_qubo, tour_length, (2.0, 2.0), "2 max D", PAIRS),
    "TSP, 6 cities, one weight": Task(distances, tour_qubo, tour_length, 2.0, "2 max D"),
    "coloring, 10 nodes": Task(graph, coloring_qubo, coloring_cost, 1.0, "max degree"),
    "knapsack, 10 items and slack bits": Task(items, knapsack_qubo, knapsack_cost, 1.0, "max value"),
}


def penalties(quick: bool) -> Iterator[Record]:
    """Yield the shares of optimal reads of the tuned factor and the rule."""
    train, test = (4, 4) if quick else (TRAINED, TESTED)
    with threads(1):
        for name, task in list(TASKS.items())[: 1 if quick else None]:
            random = np.random.default_rng(0)
            given, unseen = ([task.draw(random) for _ in range(count)] for count in (train, test))
            solver = SimulatedAnnealing(reads=100, sweeps=200)
            tuned = tune_penalties(task.build, task.cost, given, solver, task.candidates)
            both = tune_penalties(task.build, task.cost, unseen, solver, (tuned.best, task.rule), seed=1)
            yield compared(name, task.name, tuned, both)
        size, n = (4, 8) if quick else (16, 16)
        chip = DWaveSolver.mock("pegasus", size=size, sweeps=100, seed=0, budget_seconds=1e6)
        qubos = torch.randn(4 if quick else 20, 2, n, n, generator=torch.Generator().manual_seed(0))
        tuned = tune_chain_strength(list(qubos[:, 0]), chip)
        both = tune_chain_strength(list(qubos[:, 1]), chip, (float(tuned.best), chip.chain_strength), seed=1)
        yield compared("chain strength, dense QUBOs on a mock chip", "1.414", tuned, both)


def compared(name: str, rule: str, tuned: Tuned, both: Tuned) -> Record:
    record: Record = {"task": name, "rule": rule, "tuned": tuned.best, "calls": tuned.calls}
    record |= {"tuned_share": 100 * both.share[0], "rule_share": 100 * both.share[1]}
    for k, way in enumerate(("tuned", "rule")):
        record[f"{way}_error"] = 100 * (both.high[k] - both.share[k]) / 1.96
    return {**record, "ratio": both.share[0] / both.share[1] if both.share[1] else None}
