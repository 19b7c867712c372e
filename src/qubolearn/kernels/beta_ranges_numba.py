"""neal's range of temperatures and the scaling of QUBOs before they are annealed, compiled: one pass over the entries.

:func:`qubolearn.solvers.annealing.default_beta_range` says what the range is.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from qubolearn.kernels.annealing_numba import compiled

__all__ = ["dense_beta_ranges", "scale_dense", "sparse_beta_ranges"]

#: Coefficients below this share of the largest field are rounding errors of QUBO -> Ising.
NEGLIGIBLE = 1e-12


@compiled
def scale_dense(A, S, scale):
    """S = A + Aᵀ with A_ii on the diagonal, over A's largest entry, and that entry (1 where all are 0).

    A ``[batch, n, n]`` float32 or float64 -> S of the same shape, float64, and scale ``[batch]``.
    """
    batch, n, _ = A.shape
    for k in range(batch):
        largest = 0.0
        for i in range(n):
            for j in range(n):
                largest = max(largest, abs(np.float64(A[k, i, j])))
        scale[k] = largest if largest > 0 else 1.0
        for i in range(n):
            for j in range(i):
                S[k, i, j] = S[k, j, i] = A[k, i, j] / scale[k] + A[k, j, i] / scale[k]
            S[k, i, i] = A[k, i, i] / scale[k]


@compiled
def dense_beta_ranges(S, betas):
    """Fill betas ``[batch, 2]`` for S ``[batch, n, n]`` as :func:`scale_dense` makes it."""
    batch, n, _ = S.shape
    strengths = np.empty(n)  # |b_i|
    for k in range(batch):
        largest = 0.0
        for i in range(n):
            total, couplings = 0.0, 0.0
            for j in range(n):
                total += S[k, i, j]
                couplings += abs(S[k, i, j])
            strengths[i] = abs(S[k, i, i] + total) / 4
            largest = max(largest, strengths[i] + (couplings - abs(S[k, i, i])) / 4)
        found = (np.inf, 0)
        for i in range(n):
            least = at_least(strengths[i], largest)
            for j in range(n):
                if j != i:
                    least = min(least, at_least(abs(S[k, i, j]) / 4, largest))
            found = with_spin(found, least)
        betas[k, 0], betas[k, 1] = beta_range(largest, found)


@compiled
def sparse_beta_ranges(linear, quadratic, starts, places, betas):
    """Fill betas ``[batch, 2]``; bit i has the couplings ``quadratic[k, places[starts[i]:starts[i + 1]]]``."""
    batch, n = linear.shape
    strengths = np.empty(n)
    for k in range(batch):
        largest = 0.0
        for i in range(n):
            b, couplings = linear[k, i] / 2, 0.0
            for place in places[starts[i] : starts[i + 1]]:
                b += quadratic[k, place] / 4
                couplings += abs(quadratic[k, place]) / 4
            strengths[i] = abs(b)
            largest = max(largest, strengths[i] + couplings)
        found = (np.inf, 0)
        for i in range(n):
            least = at_least(strengths[i], largest)
            for place in places[starts[i] : starts[i + 1]]:
                least = min(least, at_least(abs(quadratic[k, place]) / 4, largest))
            found = with_spin(found, least)
        betas[k, 0], betas[k, 1] = beta_range(largest, found)


@compiled
def at_least(strength, largest):
    """The strength, or infinity where it is negligible."""
    return strength if strength > NEGLIGIBLE * largest else np.inf


@compiled
def with_spin(found, least):
    """The smallest strength so far and how many spins have it, after one more spin."""
    smallest, spins = found
    if least < smallest * (1 - 1e-9):
        return least, 1
    if least <= smallest * (1 + 1e-9):
        return smallest, spins + 1
    return smallest, spins


@compiled
def beta_range(largest, found):
    """First and last β; any range does where all energies are equal."""
    smallest, spins = found
    if largest == 0:
        return 0.1, 1.0
    return np.log(2.0) / (2 * largest), np.log(spins / 0.01) / (2 * smallest)
