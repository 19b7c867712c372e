"""Time evolution of n qubits as vectors of 2**n amplitudes, in batches.

The Hamiltonian, in D-Wave's form, with energies in GHz divided by Planck's constant and s = t/τ:

    H(s) = -A(s)/2 Σ σx_i  +  B(s)/2 (Σ h_i σz_i + Σ J_ij σz_i σz_j)

The amplitude of x is stored times (-i)^(ones in x), so that exp(iθσx) becomes the real rotation
[[cos θ, -sin θ], [sin θ, cos θ]]. A state is two real tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from qubolearn.kernels import kernel_call, native
from qubolearn.qubo import all_states, upper_triangular

__all__ = [
    "SCHEDULES",
    "Pulses",
    "all_energies",
    "dwave",
    "final_probabilities",
    "linear",
    "pulses",
    "steps_for",
]

Array = npt.NDArray[np.floating]
Schedule = Callable[[Array], tuple[Array, Array]]

#: Qubits that one matrix product rotates.
GROUP = 6
#: Amplitudes times steps between updates of the progress bar.
AT_ONCE = 2**26
#: Rough cost of a time step on one thread.
SECONDS_PER_AMPLITUDE = 1.5e-9
#: B(1) of the linear schedule, equal to D-Wave's.
LINEAR_GHZ = 7.5
#: Points of the table of a schedule.
TABLE = 4096


def linear(s: Array) -> tuple[Array, Array]:
    """Return A and B of H(t) = (1 - t/τ) H_I + (t/τ) H_P."""
    return LINEAR_GHZ * (1 - s), LINEAR_GHZ * s


def dwave(s: Array) -> tuple[Array, Array]:
    """Return A and B of D-Wave's Advantage, which cross at 1.28 GHz.

    B grows as the square of the qubits' current, linear in time. ln A is a cubic fit to the
    published table of Advantage_system4.0: within 1.5 % up to s = 0.53, and within 20 % beyond.
    """
    return np.exp(2.298 - 9.66 * s + 18.024 * s**2 - 31.176 * s**3), (0.4733 + 2.2679 * s) ** 2


SCHEDULES: dict[str, Schedule] = {"linear": linear, "dwave": dwave}


class Pulses(NamedTuple):
    """An anneal as steps ψ <- exp(-2πi turns_k E(x)) Π_i exp(iθ_k σx_i) ψ."""

    theta: Array  # [steps + 1], the first is 0
    turns: Array  # [steps + 1]


def pulses(schedule: Schedule, anneal_time: float, field: float, steps: int) -> Pulses:
    """Return the Strang-split steps of an anneal, for rms fields ``field``."""
    table = _table(schedule, anneal_time, field)
    edges = np.interp(np.linspace(0, table.work[-1], steps + 1), table.work, table.time)
    a = np.diff(np.interp(edges, table.time, table.A))
    b = np.diff(np.interp(edges, table.time, table.B))
    theta = math.pi * np.concatenate([[0.0], a])
    turns = (np.concatenate([[0.0], b]) + np.concatenate([b, [0.0]])) / 4
    return Pulses(theta, turns)


def steps_for(schedule: Schedule, anneal_time: float, field: float, tolerance: float) -> int:
    """Return the number of steps that keep errors of probabilities within ``tolerance``.

    Strang's error falls as 1/steps². On random problems it stays within 1.3 times the tolerance,
    within 3 times for near ties. Below 1.5 steps per unit of work flips of spins resonate.
    """
    work = float(_table(schedule, anneal_time, field).work[-1])
    # min() returns its first argument if the work is NaN
    return max(1, math.ceil(min(1e18, work * max(1.5, 0.22 / math.sqrt(tolerance)))))


class _Table(NamedTuple):
    time: Array  # [TABLE] ns
    A: Array  # ∫ A dt up to that time
    B: Array  # ∫ B dt
    work: Array  # steps are of equal work


@lru_cache(maxsize=64)
def _table(schedule: Schedule, anneal_time: float, field: float) -> _Table:
    s = np.linspace(0, 1, TABLE)
    A, B = schedule(s)
    # Steps may be long if one part of H is weak: then the two nearly commute. Powers of 1/3 and
    # 1/6 have the least error for dt -> 0, but meet resonances late in the anneal.
    a, b = 2 * math.pi * A, 2 * math.pi * B * field
    density = (a * b) ** 0.2 * (a**2 + b**2) ** 0.3
    time = s * anneal_time
    with np.errstate(over="ignore", invalid="ignore"):  # steps_for handles infinite work
        return _Table(time, *(_running_integral(y, time) for y in (A, B, density)))


def _running_integral(y: Array, x: Array) -> Array:
    return np.concatenate([[0.0], np.cumsum((y[1:] + y[:-1]) / 2 * np.diff(x))])


def all_energies(A: Tensor) -> Tensor:
    """Return E(x) ``[batch, 2**n]`` of all states, in the order of ``all_states``."""
    batch, n = A.shape[0], A.shape[2]
    U = upper_triangular(A)
    half = n // 2
    x, y = (all_states(bits, A.device, A.dtype) for bits in (half, n - half))
    first = ((x @ U[:, :half, :half]) * x).sum(-1)
    last = ((y @ U[:, half:, half:]) * y).sum(-1)
    between = x @ U[:, :half, half:] @ y.T
    return between.add_(first[:, :, None]).add_(last[:, None, :]).reshape(batch, 2**n)


def final_probabilities(
    energies: Tensor, pulses: Pulses, progress: Callable[[int], None] = lambda work: None
) -> Tensor:
    """Return |ψ|² ``[batch, 2**n]``, float32, after pulses on the uniform superposition.

    ``progress`` is called with the number of pulses applied since, times the batch.
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
    """Return the ground state of -Σ σx: (-i)^ones / √2**n, ``[2, batch, 2**n]``."""
    batch, states = energies.shape
    re, im = torch.tensor([[1 / math.sqrt(states)], [0.0]])
    for _ in range(_qubits(energies)):  # where the next qubit is 1, times -i
        re, im = torch.cat([re, im]), torch.cat([im, -re])
    return torch.stack([re, im]).to(energies.device)[:, None].repeat(1, batch, 1)


def _apply_compiled(state: Tensor, energies: Tensor, pulses: Pulses) -> Tensor:
    """Apply pulses on the CPU by tan θ; cosines join the phase."""
    theta, turns = _small_angles(*(x.astype(np.float32) for x in pulses))
    tangents = np.tan(theta)
    norms = ((1 + tangents.astype(np.float64) ** 2) ** (-_qubits(energies) / 2)).astype(np.float32)
    re, im = state.numpy()
    with kernel_call("time evolution", energies.numel() * len(turns) * SECONDS_PER_AMPLITUDE) as options:
        native().evolve(re, im, energies.contiguous().numpy(), tangents, norms, turns, **options)
    return state


def _small_angles(theta: Array, turns: Array) -> tuple[Array, Array]:
    """Return the same pulses with |θ| <= π/4: larger angles become two halves.

    >>> [x.tolist() for x in _small_angles(np.float32([0.5, 1.0]), np.float32([0.25, 0.125]))]
    [[0.5, 0.5, 0.5], [0.25, 0.0, 0.125]]
    """
    rest = theta - math.pi * np.rint(theta.astype(np.float64) / math.pi)
    parts = 1 + (np.abs(rest) > math.pi / 4)
    longer = np.zeros(parts.sum(), np.float32)
    longer[parts.cumsum() - 1] = turns
    return np.repeat(rest / parts, parts).astype(np.float32), longer


def _apply_torch(state: Tensor, energies: Tensor, pulses: Pulses) -> Tensor:
    """Apply pulses on any device, by matrix products over groups of qubits."""
    qubits = _qubits(energies)
    groups = -(-qubits // GROUP)
    sizes = [qubits // groups + (number < qubits % groups) for number in range(groups)]
    rotations = {bits: _rotations(pulses.theta, bits, energies.device) for bits in set(sizes)}
    for turns in pulses.turns.tolist():
        turned = {bits: next(rotation) for bits, rotation in rotations.items()}
        before, behind = state.numel() // energies.shape[1], energies.shape[1]
        for bits in sizes:  # all pairs of amplitudes that differ in these qubits
            behind >>= bits
            if behind > 1:
                state = turned[bits] @ state.view(before, 2**bits, behind)
            else:
                state = state.view(before, 2**bits) @ turned[bits].mT
            before <<= bits
        re, im = state.view(2, *energies.shape)
        angle = energies * (2 * math.pi * turns)
        cos, sin = angle.cos(), angle.sin_()
        state = torch.empty_like(state).view(2, *energies.shape)
        torch.mul(re, cos, out=state[0]).addcmul_(im, sin)
        torch.mul(im, cos, out=state[1]).addcmul_(re, sin, value=-1)
    return state


def _rotations(theta: Array, bits: int, device: torch.device) -> Iterator[Tensor]:
    """Yield rotations of ``bits`` qubits: ± cosᵃ sinᵇ, b the distance."""
    x = torch.arange(2**bits)
    ones = all_states(bits, dtype=torch.long).sum(1)
    distance = ones[x[:, None] ^ x].to(device)
    sign = (1 - 2 * (ones[~x[:, None] & x] % 2)).to(device)
    b = np.arange(bits + 1)
    powers = np.cos(theta)[:, None] ** (bits - b) * np.sin(theta)[:, None] ** b
    for row in torch.as_tensor(powers, dtype=torch.float32, device=device):
        yield row[distance] * sign


def _qubits(energies: Tensor) -> int:
    return energies.shape[1].bit_length() - 1
