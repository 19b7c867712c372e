"""The job of annealing at the chip's temperature: one anneal's success in three models, on the same QUBOs."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from quant_reproduction.baselines.graphs import qgm
from quant_reproduction.grid import panels
from quant_reproduction.grid.trained import time_of, trained_model
from quant_reproduction.open_system import (
    FREEZE_OUT_GHZ,
    GHZ_PER_MILLIKELVIN,
    LEVELS,
    MICROSECONDS,
    MILLIKELVIN,
    final_states,
    levels,
)
from qubolearn.chips.embedding import Chip, find_tiles
from qubolearn.chips.programming import EXTENDED_J_RANGE, J_RANGE, Embedding, scaled, with_control_errors
from qubolearn.chips.topologies import topology
from qubolearn.problems import make_problem
from qubolearn.qubo import from_ising, to_ising
from qubolearn.random import stream
from qubolearn.solvers.contract import instance_seeds
from qubolearn.solvers.quantum import QuantumAnnealing
from qubolearn.solvers.state_vector import all_energies, dwave

__all__ = ["Ising", "boltzmann", "chip_embedding", "ground_states", "programmed", "thermal"]

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


#: Energies this close, as a share of the range of all, are one energy up to rounding.
SAME_ENERGY = 1e-10


class Ising(NamedTuple):
    """Problems as a chip has them, in its units: E(s) = Σ J_ij s_i s_j + Σ h_i s_i."""

    J: Tensor  # [batch, n, n], upper triangular
    h: Tensor  # [batch, n]


def programmed(A: Tensor, annealer: QuantumAnnealing, embedding: Embedding | None = None) -> Ising:
    """QUBOs A ``[batch, n, n]`` scaled to the chip's ranges, with the control errors that the annealer would draw.

    With an embedding, scale and errors are those of its qubits, and the problem is that of the states in which no chain
    is broken. On the chip chains break too, so that this is the best that can become of them.
    """
    J, h, _ = to_ising(A.double())
    if embedding is not None:
        J, h = embedding.embed(J, h, annealer.chain_strength)
    J, h = scaled(J, h, J_RANGE if embedding is None else EXTENDED_J_RANGE)
    seeds = instance_seeds(annealer.seed, len(A))
    J, h, _ = with_control_errors(J, h, annealer.J_error, annealer.h_error, 1, annealer.reads, seeds)
    if embedding is None:
        return Ising(J, h)
    member = torch.zeros(embedding.qubits, len(embedding.chains), dtype=torch.float64)
    for bit, chain in enumerate(embedding.chains):
        member[list(chain), bit] = 1.0
    whole = member.T @ J @ member
    return Ising((whole + whole.mT).triu(1), h @ member)


def boltzmann(problem: Ising, index: int, gigahertz: float, millikelvin: float = MILLIKELVIN) -> Tensor:
    """p of all states ``[2**n]`` of one of the problems, where B is ``gigahertz``; states in the order of all_states.

    >>> problem = Ising(torch.zeros(1, 1, 1), torch.tensor([[-1.0]]))  # one qubit that is 1 in its ground state
    >>> [round(p, 3) for p in boltzmann(problem, 0, gigahertz=0.5).tolist()]
    [0.174, 0.826]
    """
    A, _ = from_ising(problem.J[index : index + 1], problem.h[index : index + 1])
    exponent = all_energies(A)[0].mul_(-gigahertz / (2 * millikelvin * GHZ_PER_MILLIKELVIN))
    return torch.softmax(exponent, 0)


def ground_states(A: Tensor) -> Tensor:
    """Codes of the lowest states of one QUBO ``[n, n]``, up to rounding."""
    energy = all_energies(A[None].double())[0]
    low, high = energy.aminmax()
    return (energy <= low + SAME_ENERGY * (high - low)).nonzero()[:, 0]
