"""The compiled ranking of candidates (numba): their energies in float64, and the best distinct ones in order."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
# numba infers types; annotations would only repeat what the docstrings say of shapes.
from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qubolearn.kernels.compiling import compiled
from qubolearn.kernels.stopping import stopped

Array = npt.NDArray[Any]


def rank(
    A: Array, candidates: Array, start: int, end: int, states: Array, energies: Array, found: Array, stop: Array
) -> None:
    """For instances start ... end-1: the lowest distinct candidates and their energies xᵀAx.

    A ``[batch, n, n]`` and candidates ``[batch, c, n]`` (uint8, 0 or 1) -> states ``[batch, count, n]``, energies
    ``[batch, count]`` float64, ascending, and how many distinct ones of finite energy there were, up to count, in
    found ``[batch]``. Of equal energies the earlier candidate comes first, as in a stable sort.
    Returns early once ``stop`` is set.
    """
    part = slice(start, end)
    energy = np.full((end - start, candidates.shape[1]), np.inf)
    _energies(A[part], candidates[part], energy, stop)
    order = np.argsort(energy, axis=1, kind="stable")  # numpy's: numba would compile its own for two seconds
    _keep(candidates[part], energy, order, states[part], energies[part], found[part])


@compiled
def _energies(A, candidates, energy, stop):
    """Fill energy ``[batch, c]``."""
    ones = np.empty(candidates.shape[2], np.int64)
    for b in range(energy.shape[0]):
        for i in range(energy.shape[1]):
            if stopped(stop):
                return
            energy[b, i] = _energy(A[b], candidates[b, i], ones)


@compiled
def _keep(candidates, energy, order, states, energies, found):
    """Fill states and their energies with the first distinct candidates of finite energy in this order."""
    count = energies.shape[1]
    for b in range(energy.shape[0]):
        kept = 0
        for i in order[b]:
            if kept == count:
                break
            if not np.isfinite(energy[b, i]):
                continue
            # equal states have equal energies: only those kept last can be repeats
            k = kept - 1
            while k >= 0 and energies[b, k] == energy[b, i] and not _same(states[b, k], candidates[b, i]):
                k -= 1
            if k >= 0 and energies[b, k] == energy[b, i]:
                continue
            energies[b, kept] = energy[b, i]
            for j in range(candidates.shape[2]):
                states[b, kept, j] = candidates[b, i, j]
            kept += 1
        found[b] = kept


@compiled(inline="always")
def _energy(A, x, ones):
    """xᵀAx in float64; ``ones`` is room for the places of the bits that are set."""
    size = 0
    for j in range(len(x)):
        ones[size] = j
        size += x[j]
    total = 0.0
    for a in range(size):
        row = 0.0
        for b in range(size):
            row += np.float64(A[ones[a], ones[b]])
        total += row
    return total


@compiled(inline="always")
def _same(state, candidate):
    for j in range(len(candidate)):  # noqa: SIM110 (numba compiles loops, not generators)
        if state[j] != candidate[j]:
            return False
    return True
