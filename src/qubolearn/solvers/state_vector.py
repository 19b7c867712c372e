"""Time evolution of n qubits as vectors of 2**n amplitudes, for a batch of problems at once.

Gauge: the amplitude of x is stored times (-i)^(ones in x). The phases of the problem Hamiltonian do not mind, and
exp(iθσx) becomes the real rotation [[cos θ, -sin θ], [sin θ, cos θ]], at half the work of a complex matrix. So a
state is two real tensors, and |ψ|² is the sum of their squares as ever.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from qubolearn.qubo import all_states, upper_triangular
from qubolearn.solvers.schedules import Array, Pulses

__all__ = ["all_energies", "final_probabilities"]

#: Qubits that one matrix product rotates; with fewer there are more passes over the state, with more longer sums.
GROUP = 7

#: Amplitudes times steps from one move of the progress bar to the next: a fraction of a second.
AT_ONCE = 2**26


def all_energies(A: Tensor) -> Tensor:
    """E(x) of all states of A ``[batch, n, n]`` -> ``[batch, 2**n]``, states in the order of ``all_states``."""
    batch, n = A.shape[0], A.shape[2]
    U = upper_triangular(A)
    half = n // 2
    x, y = (all_states(bits, A.device, A.dtype) for bits in (half, n - half))  # the first bits and the last
    first = ((x @ U[:, :half, :half]) * x).sum(-1)
    last = ((y @ U[:, half:, half:]) * y).sum(-1)
    between = x @ U[:, :half, half:] @ y.T
    return between.add_(first[:, :, None]).add_(last[:, None, :]).reshape(batch, 2**n)  # memory is what it costs


def final_probabilities(
    energies: Tensor, pulses: Pulses, progress: Callable[[int], None] = lambda work: None
) -> Tensor:
    """|ψ|² after the pulses on the uniform superposition: energies ``[batch, 2**n]`` -> ``[batch, 2**n]``, float32.

    ``progress`` is called from time to time with the number of pulses applied since, times the batch.
    """
    energies = energies.to(torch.float32)
    state = _uniform_superposition(energies)
    apply = _apply_compiled if energies.device.type == "cpu" else _apply_torch
    stride = max(1, AT_ONCE // energies.numel())
    for k in range(0, len(pulses.theta), stride):
        part = Pulses(pulses.theta[k : k + stride], pulses.turns[k : k + stride])
        state = apply(state, energies, part)
        progress(len(energies) * len(part.theta))
    return state[0].square_().add_(state[1].square_())


def _uniform_superposition(energies: Tensor) -> Tensor:
    """``[2, batch, 2**n]``, real and imaginary part: the ground state of -Σ σx, (-i)^ones / √2**n in our gauge."""
    batch, states = energies.shape
    quarter_turns = _ones(_qubits(energies)) % 4
    parts = torch.tensor([[1.0, 0.0, -1.0, 0.0], [0.0, -1.0, 0.0, 1.0]])[:, quarter_turns] / math.sqrt(states)
    return parts.to(energies.device)[:, None].repeat(1, batch, 1)


def _apply_compiled(state: Tensor, energies: Tensor, pulses: Pulses) -> Tensor:
    from qubolearn.kernels.state_vector_numba import evolve

    re, im = state.numpy()
    theta, turns = (x.astype(np.float32) for x in pulses)
    evolve(re, im, energies.numpy(), theta, turns)
    return state


def _apply_torch(state: Tensor, energies: Tensor, pulses: Pulses) -> Tensor:
    """The same on any device: the qubits rotate in groups, each by one matrix product."""
    sizes = _groups(_qubits(energies))
    rotations = {bits: _rotations(pulses.theta, bits, energies.device) for bits in set(sizes)}
    for turns in pulses.turns.tolist():
        turned = {bits: next(rotation) for bits, rotation in rotations.items()}
        before, behind = state.numel() // energies.shape[1], energies.shape[1]
        for bits in sizes:  # all pairs of amplitudes that differ in these qubits, those behind them side by side
            behind >>= bits
            shape = (before, 2**bits, behind)
            state = turned[bits] @ state.view(shape) if behind > 1 else state.view(shape[:2]) @ turned[bits].mT
            before <<= bits
        re, im = state.view(2, *energies.shape)
        angle = energies * (2 * math.pi * turns)
        cos, sin = angle.cos(), angle.sin()
        state = torch.stack([re * cos + im * sin, im * cos - re * sin])
    return state


def _groups(qubits: int) -> list[int]:
    """Sizes of as few groups as hold all qubits, at most :data:`GROUP` each, nearly equal.

    >>> _groups(17)
    [6, 6, 5]
    """
    count = -(-qubits // GROUP)
    return [qubits // count + (number < qubits % count) for number in range(count)]


def _rotations(theta: Array, bits: int, device: torch.device) -> Iterator[Tensor]:
    """For each angle the rotation of ``bits`` qubits, ``[2**bits, 2**bits]``: ± cosᵃ sinᵇ, b the Hamming distance."""
    x = torch.arange(2**bits)
    ones = _ones(bits)
    distance = ones[x[:, None] ^ x].to(device)
    sign = (1 - 2 * (ones[~x[:, None] & x] % 2)).to(device)
    b = np.arange(bits + 1)
    powers = np.cos(theta)[:, None] ** (bits - b) * np.sin(theta)[:, None] ** b
    for row in torch.as_tensor(powers, dtype=torch.float32, device=device):
        yield row[distance] * sign


def _ones(bits: int) -> Tensor:
    """``[2**bits]``: how many ones each state has."""
    ones = torch.zeros(1, dtype=torch.long)
    for _ in range(bits):
        ones = torch.cat([ones, ones + 1])
    return ones


def _qubits(energies: Tensor) -> int:
    return energies.shape[1].bit_length() - 1
