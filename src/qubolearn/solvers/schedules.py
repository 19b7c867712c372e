"""Annealing schedules A(s), B(s) in GHz, and the time steps that integrate them.

The Hamiltonian, in D-Wave's form, with energies divided by Planck's constant and s = t/τ:

    H(s) = -A(s)/2 Σ σx_i  +  B(s)/2 (Σ h_i σz_i + Σ J_ij σz_i σz_j)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["SCHEDULES", "Pulses", "Schedule", "dwave", "linear", "pulses", "steps_for"]

Array = npt.NDArray[np.float64]
Schedule = Callable[[Array], tuple[Array, Array]]

#: The linear schedule's B(1) is that of the D-Wave curves, so that both end in the same problem Hamiltonian.
LINEAR_GHZ = 7.5

#: Points of the table on which a schedule is integrated.
TABLE = 4096


def linear(s: Array) -> tuple[Array, Array]:
    """The paper's H(t) = (1 - t/τ) H_I + (t/τ) H_P, at D-Wave's final energy scale."""
    return LINEAR_GHZ * (1 - s), LINEAR_GHZ * s


def dwave(s: Array) -> tuple[Array, Array]:
    """An approximation of the standard anneal of D-Wave's Advantage, which crosses A = B at 1.28 GHz.

    B grows as the square of the qubits' current, which is linear in time. ln A is a cubic fit to the published
    table of Advantage_system4.0: within 1.5 % up to s = 0.53; within 20 % after it, where A is below 0.1 GHz.
    B(0) is 2 % of A(0), so that even the longest anneal loses some 1e-4 per qubit.
    """
    A = np.exp(2.298 - 9.66 * s + 18.024 * s**2 - 31.176 * s**3)
    B = (0.4733 + 2.2679 * s) ** 2
    return A, B


SCHEDULES: dict[str, Schedule] = {"linear": linear, "dwave": dwave}


class Pulses(NamedTuple):
    """The anneal as a list of ψ <- exp(-2πi turns_k E(x)) Π_i exp(iθ_k σx_i) ψ, E in Ising units."""

    theta: Array  # [steps + 1], the first is 0
    turns: Array  # [steps + 1]


def pulses(schedule: Schedule, anneal_time: float, field: float, steps: int) -> Pulses:
    """Strang-split steps of an anneal of ``anneal_time`` ns, for a problem with local fields of rms ``field``.

    A step is half a phase, a rotation and half a phase, with A and B integrated over it exactly; neighbouring
    halves are merged.
    """
    table = _table(schedule, anneal_time, field)
    edges = np.interp(np.linspace(0, table.work[-1], steps + 1), table.work, table.time)
    a = np.diff(np.interp(edges, table.time, table.A))
    b = np.diff(np.interp(edges, table.time, table.B))
    theta = math.pi * np.concatenate([[0.0], a])
    turns = (np.concatenate([[0.0], b]) + np.concatenate([b, [0.0]])) / 4
    return Pulses(theta, turns)


def steps_for(schedule: Schedule, anneal_time: float, field: float, tolerance: float) -> int:
    """Steps after which no state's probability is off by more than ``tolerance``.

    Strang's error falls as 1/steps². Its size is measured, on random problems of 8 and 11 bits, anneals of 1 to
    20 ns: it keeps within 1.3 times the tolerance, and within 3 times for rare problems with two almost equal
    ground states. Fewer than 1.5 steps per unit of work come near resonance with single spin flips.
    """
    work = float(_table(schedule, anneal_time, field).work[-1])
    return max(1, math.ceil(work * max(1.5, 0.22 / math.sqrt(tolerance))))


class _Table(NamedTuple):
    time: Array  # [TABLE] ns
    A: Array  # ∫ A dt up to that time
    B: Array  # ∫ B dt
    work: Array  # steps are of equal work


@lru_cache(maxsize=64)
def _table(schedule: Schedule, anneal_time: float, field: float) -> _Table:
    s = np.linspace(0, 1, TABLE)
    A, B = schedule(s)
    # Steps may be long where one part of H is weak, since then the two nearly commute. For dt -> 0 the least error
    # has dt ~ (ab)^(-1/3) (a² + b²)^(-1/6), but that meets resonances late in the anneal; 1/5 needs fewer steps.
    a, b = 2 * math.pi * A, 2 * math.pi * B * field
    density = (a * b) ** 0.2 * (a**2 + b**2) ** 0.3
    time = s * anneal_time
    return _Table(time, *(_running_integral(y, time) for y in (A, B, density)))


def _running_integral(y: Array, x: Array) -> Array:
    return np.concatenate([[0.0], np.cumsum((y[1:] + y[:-1]) / 2 * np.diff(x))])
