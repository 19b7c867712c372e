"""The job of annealing at the chip's temperature: one anneal's success in three models, on the same QUBOs."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from qubolearn.chips.chains import Embedding
from qubolearn.chips.embedding import Chip, find_tiles
from qubolearn.chips.topologies import topology
from qubolearn.paper.baselines.qgm import qgm
from qubolearn.paper.grid import panels
from qubolearn.paper.grid.trained import time_of, trained_model
from qubolearn.paper.open_system import FREEZE_OUT_GHZ, LEVELS, MICROSECONDS, final_states, levels
from qubolearn.paper.thermal import Ising, boltzmann, ground_states, programmed
from qubolearn.problems import make_problem
from qubolearn.randomness import stream
from qubolearn.solvers.quantum import QuantumAnnealing
from qubolearn.solvers.schedules import dwave

__all__ = ["chip_embedding", "thermal"]

Options = Mapping[str, Any]
#: Microseconds of the figure; 20 are the paper's.
TIMES = (1.0, MICROSECONDS, 0.01, 0.1, 100.0, 1000.0)
#: Least share of the Boltzmann distribution that the levels of the master equation must hold, of any QUBO.
COVERED = 0.98
#: label -> name in the figure
LIMITS = {
    "closed": "closed, 10 ns",
    "frozen": f"Boltzmann, frozen at {FREEZE_OUT_GHZ} GHz",
    "end": "Boltzmann, end of the anneal",
}
#: Closed anneals of more qubits take minutes.
CLOSED_QUBITS = 16


def chip_embedding(bits: int, chip: str, size: int) -> Embedding:
    """The smallest embedding that is found of a dense QUBO."""
    tile = find_tiles(bits, topology("dense", bits).couplers, Chip.ideal(chip, size)).tiles[0]
    return Embedding.of(dict(enumerate(tile)), Chip.ideal(chip, size).graph.edges)


def thermal(
    seed: int,
    k: int,
    instances: int,
    problem: Options | None = None,
    protocol: str = "",
    overrides: Options | None = None,
    variant: str = "",
    chip: str = "",
    size: int = 0,
    open_instances: int = 0,
) -> dict[str, Any]:
    """Success of one anneal of learned QUBOs, or of QGM's, on a closed chip and in equilibrium at its temperature.

    ``frozen`` and ``end`` are Boltzmann distributions at the published freeze-out and at the anneal's end; ``open`` is
    the master equation, on the first ``open_instances`` alone, 15 seconds each for 15 qubits. It is left
    out where its few levels cannot hold what is populated.
    """
    data = make_problem("randgraph", k=k).sample(instances, stream(seed, "test"), "test")
    if variant:
        A, extra = qgm(data.p.reshape(instances, k * k, k * k), variant).A, {}  # type: ignore[arg-type]
    else:
        assert problem is not None
        model, seconds = trained_model(seed, problem, protocol, overrides)
        with torch.no_grad():
            A, extra = model.network(data.p), time_of(seconds)
    annealer = QuantumAnnealing(seed=0)
    embedding = chip_embedding(A.shape[1], chip, size) if chip else None
    ising = programmed(A, annealer, embedding)
    truth = [ground_states(one) for one in A]
    last = float(dwave(np.ones(1))[1][0])
    found = {"frozen": _boltzmann(ising, truth, FREEZE_OUT_GHZ), "end": _boltzmann(ising, truth, last)}
    costs: dict[str, float] = {}
    qubits = A.shape[1] if embedding is None else embedding.qubits
    if embedding is None and qubits <= CLOSED_QUBITS:
        began = time.perf_counter()
        found["closed"] = annealer(A, 1).info["success_probability"].double()
        costs["closed"] = (time.perf_counter() - began) / instances
    made: dict[str, Any] = {name: {**_summary(values), "qubits": qubits} for name, values in found.items()}
    covered = _covered(ising, open_instances)
    if open_instances:
        made["levels"] = {"covered": covered, "instances": open_instances}
    if open_instances and covered >= COVERED:
        began = time.perf_counter()
        made["open"] = _open(ising, truth, found, open_instances)
        costs["open"] = (time.perf_counter() - began) / open_instances
    for name, cost in costs.items():
        made[name]["solve_seconds"] = round(cost, 4)
    return {**extra, **made}


def _boltzmann(ising: Ising, truth: list[Tensor], gigahertz: float) -> Tensor:
    """The share of the true solutions of each QUBO ``[batch]``."""
    return torch.stack([boltzmann(ising, i, gigahertz)[codes].sum() for i, codes in enumerate(truth)])


def _covered(ising: Ising, count: int) -> float:
    """The share of the Boltzmann distribution, where qubits freeze, that the levels of the master equation can hold."""
    shares = [boltzmann(ising, i, FREEZE_OUT_GHZ).topk(LEVELS).values.sum().item() for i in range(count)]
    return min(shares, default=0.0)


def _summary(success: Tensor) -> dict[str, Any]:
    spread = success.std().item() if len(success) > 1 else 0.0
    return {
        "success_probability": success.mean().item(),
        "success_deviation": spread,
        "instances": len(success),
        "source": "simulated",
    }


def _open(ising: Ising, truth: list[Tensor], others: Mapping[str, Tensor], count: int) -> dict[str, Any]:
    """The master equation at the paper's anneal, and a figure over the time of the anneal beside the two limits."""
    rows = []
    for index in range(count):
        states = final_states(levels(ising.J[index], ising.h[index]), TIMES)
        rows.append(states[:, truth[index]].sum(1))
    success = torch.stack(rows, 1)  # [times, count]
    curve = sorted([math.log10(each), 100 * value.item()] for each, value in zip(TIMES, success.mean(1), strict=True))
    ends = [curve[0][0], curve[-1][0]]
    series = {"open system": curve}
    for name, shown in LIMITS.items():
        if name in others:
            mean = 100 * others[name][:count].mean().item()
            series[shown] = [[x, mean] for x in ends]
    y = f"success of one anneal in %, {count} QUBOs"
    panel = panels.lines("By the time of the anneal", "log10 of microseconds", y, series)
    note = "A tenth of the bath's coupling is a tenth of the time. Lines are means over the same QUBOs."
    title = "One anneal at the chip's temperature, between a closed system and equilibrium"
    return {**_summary(success[TIMES.index(MICROSECONDS)]), "figure": panels.titled(title, [panel], note)}
