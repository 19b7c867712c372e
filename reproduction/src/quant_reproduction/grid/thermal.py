"""Annealing at the chip's temperature: one anneal's success in three models, on the same QUBOs.

Each qubit's σz is coupled to its own Ohmic bath. For weak coupling, and anneals that are slow beside the gaps,
the density matrix stays diagonal in the instantaneous eigenstates of H(s), and their populations obey

    dp_a/dt = Σ_b (W_ab p_b - W_ba p_a),    W_ab = Σ_i |<a|σz_i|b>|² γ(E_b - E_a),
    γ(f) = (2π)² η f / (1 - exp(-f / kT))   per ns, f and kT in GHz

(the adiabatic master equation without coherences; Albash, Boixo, Lidar and Zanardi, New J. Phys. 14, 123016, 2012).
Its steady state at every s is the quantum Boltzmann distribution of H(s). Rates fall with A(s), and where they are
below the anneal's pace the populations freeze. η is the only free number: :func:`bath_coupling` takes it from the
published freeze-out of a single qubit. Left out: coherence, levels above the lowest ``LEVELS``, noise, and cross-talk.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from quant_reproduction.baselines.graphs import qgm
from quant_reproduction.grid.models import time_of, trained_model
from qubolearn.chips.embedding import Chip, find_tiles
from qubolearn.chips.programming import EXTENDED_J_RANGE, J_RANGE, Embedding, scaled, with_control_errors
from qubolearn.chips.topologies import topology
from qubolearn.errors import QubolearnError
from qubolearn.problems import make_problem
from qubolearn.qubo import from_ising, to_ising
from qubolearn.random import stream
from qubolearn.solvers.contract import instance_seeds
from qubolearn.solvers.quantum import QuantumAnnealing
from qubolearn.solvers.state_vector import all_energies, dwave

Array = npt.NDArray[np.float64]

#: Boltzmann's over Planck's constant.
GHZ_PER_MILLIKELVIN = 0.0208366
#: Advantage_system4.1: its temperature, and B where a single qubit freezes, s = 0.612
#: (D-Wave, November 2021: dwave.system.temperatures.freezeout_effective_temperature).
MILLIKELVIN, FREEZE_OUT_GHZ = 15.4, 3.91
#: D-Wave's default anneal, and the paper's.
MICROSECONDS = 20.0
#: Before the first point all is thermal, after the last A(s) is below 1e-3 GHz.
#: More points or levels change the probabilities after 20 µs by 0.002 at most.
FIRST, LAST, POINTS = 0.3, 0.76, 24
LEVELS = 16
DENSE_QUBITS, MAX_QUBITS = 10, 16


class Levels(NamedTuple):
    """The lowest levels of one programmed problem along the anneal."""

    energies: Tensor  # [points, levels], GHz, float64
    transitions: Tensor  # [points, levels, levels], Σ_i |<a|σz_i|b>|²
    final: Tensor  # [levels, 2**n], |<x|a>|² at the last point


def levels(J: Tensor, h: Tensor, points: int = POINTS, count: int = LEVELS) -> Levels:
    """Return the lowest levels along the anneal, for J ``[n, n]`` and h ``[n]``."""
    n = len(h)
    if n > MAX_QUBITS:
        raise QubolearnError(f"levels of {n} qubits (limit {MAX_QUBITS}) take long; use the Boltzmann limit")
    A, offset = from_ising(J[None].double(), h[None].double())
    ising = (all_energies(A) + offset[:, None])[0].cpu()
    count = min(count, len(ising))
    lowest, moved, vectors = [], [], torch.ones(len(ising), 1, dtype=torch.float64)
    for transverse, longitudinal in zip(*dwave(np.linspace(FIRST, LAST, points)), strict=True):
        diagonal = longitudinal / 2 * ising
        if n <= DENSE_QUBITS:
            values, vectors = torch.linalg.eigh(torch.diag(diagonal) - transverse / 2 * _flips(n))
            values, vectors = values[:count], vectors[:, :count]
        else:
            values, vectors = _lanczos(diagonal, transverse / 2, count, vectors[:, 0])
        lowest.append(values)
        moved.append(_transitions(vectors))
    return Levels(torch.stack(lowest), torch.stack(moved), vectors.square().T)


def _transitions(vectors: Tensor) -> Tensor:
    """Return Σ_i |<a|σz_i|b>|² of real levels ``[2**n, levels]``.

    σz is twice the projector onto 1, less the identity: half of the amplitudes suffices.
    """
    size, levels = vectors.shape
    total = vectors.new_zeros(levels, levels)
    for bit in range(size.bit_length() - 1):
        ones = vectors.view(-1, 2, 1 << bit, levels)[:, 1].reshape(-1, levels)
        total += (2 * ones.T @ ones - torch.eye(levels)).square()
    return total


@lru_cache(maxsize=4)
def _flips(n: int) -> Tensor:
    """Σ σx of n qubits ``[2**n, 2**n]``."""
    codes = torch.arange(2**n)
    total = torch.zeros(2**n, 2**n, dtype=torch.float64)
    for qubit in range(n):
        total[codes, codes ^ (1 << qubit)] = 1.0
    return total


def _lanczos(diagonal: Tensor, field: float, count: int, start: Tensor) -> tuple[Tensor, Tensor]:
    """Return the lowest eigenpairs of diag - field · Σ σx."""
    from scipy.sparse.linalg import LinearOperator, eigsh

    weights, size = diagonal.numpy(), len(diagonal)
    qubits = size.bit_length() - 1

    def product(v: Array) -> Array:
        flat = v.reshape(-1)
        flipped = np.zeros_like(flat)
        for qubit in range(qubits):
            flipped += flat.reshape(-1, 2, 1 << qubit)[:, ::-1].reshape(-1)
        out: Array = weights * flat - field * flipped
        return out

    H = LinearOperator((size, size), matvec=product, dtype=np.float64)
    guess = start.numpy() + 1e-3 / np.sqrt(size)  # not orthogonal to any level
    values, vectors = eigsh(H, k=count, which="SA", v0=guess, tol=1e-6, ncv=min(size, 5 * count // 2))
    order = values.argsort()
    return torch.from_numpy(values[order]), torch.from_numpy(vectors[:, order])


def final_states(found: Levels, microseconds: Sequence[float], coupling: float | None = None) -> Tensor:
    """Return probabilities ``[times, 2**n]`` after anneals; ``coupling`` is η."""
    eta = bath_coupling() if coupling is None else coupling
    rates = 1000 * eta * _generator(found)
    return torch.stack([_populations(found, time * rates) for time in microseconds]) @ found.final


def _generator(found: Levels) -> Tensor:
    """Return W ``[points, levels, levels]`` times each point's part, for η = 1."""
    kT = MILLIKELVIN * GHZ_PER_MILLIKELVIN
    f = found.energies[:, None, :] - found.energies[:, :, None]  # [points, a, b]: E_b - E_a
    ratio = (f / kT).clamp(-500, 500)
    per_kT = torch.where(ratio.abs() < 1e-6, 1.0, ratio / -torch.expm1(-torch.where(ratio == 0, 1.0, ratio)))
    W = (2 * np.pi) ** 2 * kT * per_kT * found.transitions
    W = W - torch.diag_embed(W.diagonal(dim1=1, dim2=2))
    W = W - torch.diag_embed(W.sum(1))  # columns add up to 0
    return W * (LAST - FIRST) / (len(f) - 1)


def _populations(found: Levels, exponents: Tensor) -> Tensor:
    """Return populations ``[levels]`` after all points."""
    kT = MILLIKELVIN * GHZ_PER_MILLIKELVIN
    p = torch.softmax(-found.energies[0] / kT, 0)
    for step in torch.linalg.matrix_exp(exponents):
        p = step @ p
    return p.clamp(min=0) / p.clamp(min=0).sum()


@lru_cache(maxsize=1)
def bath_coupling(bias: float = 0.1) -> float:
    """Return η for which a qubit, annealed for 20 µs, ends at the published B."""
    found = levels(torch.zeros(1, 1), torch.tensor([bias]), points=20 * POINTS)
    wanted = 1 / (1 + np.exp(-FREEZE_OUT_GHZ * bias / (MILLIKELVIN * GHZ_PER_MILLIKELVIN)))
    rates = _generator(found)
    low, high = -9.0, 1.0  # logarithms; stronger coupling freezes later, colder
    for _ in range(30):
        middle = (low + high) / 2
        frozen = _populations(found, 1000 * MICROSECONDS * 10**middle * rates)[0].item()
        low, high = (middle, high) if frozen < wanted else (low, middle)
    return float(10 ** ((low + high) / 2))


#: Least share of the Boltzmann distribution that the levels must hold.
COVERED = 0.98
#: Closed anneals of more qubits take minutes.
CLOSED_QUBITS = 16


def chip_embedding(bits: int, chip: str, size: int) -> Embedding:
    """Return the smallest embedding of a dense QUBO that is found."""
    tile = find_tiles(bits, topology("dense", bits).couplers, Chip.ideal(chip, size)).tiles[0]
    return Embedding.of(dict(enumerate(tile)), Chip.ideal(chip, size).graph.edges)


def thermal(
    seed: int,
    k: int,
    instances: int,
    variant: str = "",
    chip: str = "",
    size: int = 0,
    open_instances: int = 0,
    **run: Any,
) -> dict[str, Any]:
    """Return the success of one anneal of learned QUBOs, or of QGM's.

    ``frozen`` and ``end`` are Boltzmann distributions at the published freeze-out and at the end;
    ``open`` is the master equation, unless its few levels cannot hold what is populated.
    """
    data = make_problem("randgraph", k=k).sample(instances, stream(seed, "test"), "test")
    if variant:
        A, extra = qgm(data.p.reshape(instances, k * k, k * k), variant).A, {}  # type: ignore[arg-type]
    else:
        model, seconds = trained_model(seed, **run)
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
    few = range(open_instances)
    shares = [boltzmann(ising, i, FREEZE_OUT_GHZ).topk(LEVELS).values.sum().item() for i in few]
    covered = min(shares, default=0.0)  # by the levels
    if open_instances:
        made["levels"] = {"covered": covered, "instances": open_instances}
    if open_instances and covered >= COVERED:
        began = time.perf_counter()
        states = [final_states(levels(ising.J[i], ising.h[i]), [MICROSECONDS])[0] for i in few]
        made["open"] = _summary(torch.stack([states[i][truth[i]].sum() for i in few]))
        costs["open"] = (time.perf_counter() - began) / open_instances
    for name, cost in costs.items():
        made[name]["solve_seconds"] = round(cost, 4)
    return {**extra, **made}


def _boltzmann(ising: Ising, truth: list[Tensor], gigahertz: float) -> Tensor:
    return torch.stack([boltzmann(ising, i, gigahertz)[codes].sum() for i, codes in enumerate(truth)])


def _summary(success: Tensor) -> dict[str, Any]:
    spread = success.std().item() if len(success) > 1 else 0.0
    found = {"success_probability": success.mean().item(), "success_deviation": spread}
    return {**found, "instances": len(success), "source": "simulated"}


#: Energies this close, as a share of their range, are one.
SAME_ENERGY = 1e-10


class Ising(NamedTuple):
    """Problems as a chip has them, in its units: E(s) = Σ J_ij s_i s_j + Σ h_i s_i."""

    J: Tensor  # [batch, n, n], upper triangular
    h: Tensor  # [batch, n]


def programmed(A: Tensor, annealer: QuantumAnnealing, embedding: Embedding | None = None) -> Ising:
    """Return A ``[batch, n, n]`` scaled to the chip's ranges, with control errors.

    With an embedding, scale and errors are those of its qubits, and no chain is broken.
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
    """Return p of all states ``[2**n]`` of one problem at this B."""
    A, _ = from_ising(problem.J[index : index + 1], problem.h[index : index + 1])
    exponent = all_energies(A)[0].mul_(-gigahertz / (2 * millikelvin * GHZ_PER_MILLIKELVIN))
    return torch.softmax(exponent, 0)


def ground_states(A: Tensor) -> Tensor:
    """Return codes of the lowest states of a QUBO ``[n, n]``."""
    energy = all_energies(A[None].double())[0]
    low, high = energy.aminmax()
    return (energy <= low + SAME_ENERGY * (high - low)).nonzero()[:, 0]
