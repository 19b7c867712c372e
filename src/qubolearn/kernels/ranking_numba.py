"""The compiled ranking of candidates (numba): their energies in float64, and the best distinct ones in order."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
# numba infers types; annotations would only repeat what the docstrings say of shapes.
from __future__ import annotations

import numpy as np

from qubolearn.kernels.compiling import compiled
from qubolearn.kernels.stopping import stopped


@compiled
def rank(A, candidates, start, end, states, energies, found, stop):
    """For instances start ... end-1: the lowest distinct candidates and their energies xᵀAx.

    A ``[batch, n, n]`` and candidates ``[batch, c, n]`` (uint8, 0 or 1) -> states ``[batch, count, n]``, energies
    ``[batch, count]`` float64, ascending, and how many distinct ones of finite energy there were, up to count, in
    found ``[batch]``. Of equal energies the earlier candidate comes first, as in a stable sort.
    The kernel returns early once ``stop`` is set.
    """
    c, n = candidates.shape[1:]
    count = energies.shape[1]
    energy = np.empty(c)
    ones = np.empty(n, np.int64)
    for b in range(start, end):
        for i in range(c):
            if stopped(stop):
                return
            energy[i] = _energy(A[b], candidates[b, i], ones)
        order = np.argsort(energy, kind="mergesort")
        kept = 0
        for i in order:
            if kept == count:
                break
            if not np.isfinite(energy[i]):
                continue
            # equal states have equal energies: only those kept last can be repeats
            k = kept - 1
            while k >= 0 and energies[b, k] == energy[i] and not _same(states[b, k], candidates[b, i]):
                k -= 1
            if k >= 0 and energies[b, k] == energy[i]:
                continue
            energies[b, kept] = energy[i]
            for j in range(n):
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
