"""All states of QUBOs of few bits (numba), in float64; tuning for registers and rounding would not pay here.

A state's code is Σ_i x_i 2^i. Kernels work on instances start ... stop-1, so that threads can share a batch.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
# numba infers types; annotations would only repeat what the docstrings say of shapes.
from __future__ import annotations

import numpy as np

from qubolearn.kernels.compiling import compiled


@compiled
def _energies(A, E, field):
    """E ``[2**n]`` of all states by doubling: those with bit i on top are those without it plus its field."""
    E[0] = 0.0
    for i in range(len(A)):
        field[0] = A[i, i]
        for j in range(i):
            coupling = np.float64(A[i, j]) + np.float64(A[j, i])
            for s in range(1 << j):
                field[s | 1 << j] = field[s] + coupling
        for s in range(1 << i):
            E[s | 1 << i] = E[s] + field[s]


@compiled
def lowest(A, start, stop, codes):
    """codes ``[batch, count]`` of the lowest states of A ``[batch, n, n]``, best first."""
    states, count = 1 << A.shape[1], codes.shape[1]
    E, field, best = np.empty(states), np.empty(states), np.empty(count)
    for b in range(start, stop):
        _energies(A[b], E, field)
        best[:] = np.inf
        for s in range(states):
            if E[s] < best[-1]:
                k = count - 1
                while k > 0 and E[s] < best[k - 1]:
                    best[k], codes[b, k] = best[k - 1], codes[b, k - 1]
                    k -= 1
                best[k], codes[b, k] = E[s], s


@compiled
def lowest_states(A, start, stop, codes, states, energies):
    """:func:`lowest`, and the states ``[batch, count, n]`` themselves with their energies xᵀAx ``[batch, count]``.

    Energies are summed anew for each state, as everywhere, so that equal states have equal energies; where roundings
    of the search had put two states the wrong way round, they change places.
    """
    lowest(A, start, stop, codes)
    n = A.shape[1]
    for b in range(start, stop):
        for k in range(codes.shape[1]):
            code, energy = codes[b, k], 0.0
            for i in range(n):
                if code >> i & 1:
                    row = 0.0
                    for j in range(n):
                        if code >> j & 1:
                            row += np.float64(A[b, i, j])
                    energy += row
            place = k
            while place > 0 and energies[b, place - 1] > energy:
                energies[b, place], codes[b, place] = energies[b, place - 1], codes[b, place - 1]
                place -= 1
            energies[b, place], codes[b, place] = energy, code
        for k in range(codes.shape[1]):
            for i in range(n):
                states[b, k, i] = codes[b, k] >> i & 1


@compiled
def partition(A, beta, start, stop, values, marginals):
    """log Σ_x exp(-β xᵀAx) ``[batch]`` and E[x xᵀ] ``[batch, n, n]`` of A ``[batch, n, n]``."""
    n = A.shape[1]
    states = 1 << n
    E, field = np.empty(states), np.empty(states)
    for b in range(start, stop):
        _energies(A[b], E, field)
        peak = -np.inf
        for s in range(states):
            E[s] *= -beta
            peak = max(peak, E[s])
        for s in range(states):
            E[s] = np.exp(E[s] - peak)
        for i in range(n):  # from weights of states to sums over all states that have these bits and maybe more
            for s in range(states):
                if not s >> i & 1:
                    E[s] += E[s | 1 << i]
        values[b] = peak + np.log(E[0])
        for i in range(n):
            for j in range(n):
                marginals[b, i, j] = E[1 << i | 1 << j] / E[0]
