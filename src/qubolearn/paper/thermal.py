"""What temperature does to a QUBO on a chip: the Boltzmann distribution of the problem as it is programmed.

An annealer whose dynamics stop abruptly at s* returns p(x) ∝ exp(-B(s*) E(x) / 2kT), E in units of the programmed h
and J, as D-Wave's documentation has it. What counts is the gap between the best and the next states in these units,
after all was scaled into the chip's ranges: a QUBO of large penalties has a small one.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from qubolearn.chips.chains import Embedding
from qubolearn.chips.programming import EXTENDED_J_RANGE, J_RANGE, scaled, with_control_errors
from qubolearn.paper.open_system import GHZ_PER_MILLIKELVIN, MILLIKELVIN
from qubolearn.qubo import from_ising, to_ising
from qubolearn.solvers.quantum import QuantumAnnealing
from qubolearn.solvers.seeds import instance_seeds
from qubolearn.solvers.state_vector import all_energies

__all__ = ["Ising", "boltzmann", "ground_states", "programmed"]

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

    >>> problem = Ising(torch.zeros(1, 1, 1), torch.tensor([[-1.0]]))  # one qubit that wants to be 1
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
