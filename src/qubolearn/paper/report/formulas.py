"""The paper's formulas against brute force over random models of four bits: how often what is printed holds."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["gradient_of_gap", "ising_as_printed", "unique_as_printed"]

Array = np.ndarray[Any, Any]
STATES = (np.arange(16)[:, None] >> np.arange(4) & 1).astype(float)  # [16, 4], all of four bits


def energies(A: Array) -> Array:
    """Of all states, ``[16]``."""
    found: Array = np.einsum("si,ij,sj->s", STATES, A, STATES)
    return found


def ising_as_printed(models: int = 500) -> int:
    """In how many the QUBO of the printed formula has the minimiser of its Ising model."""
    rng, same = np.random.default_rng(0), 0
    s = 2 * STATES - 1
    for _ in range(models):
        J, b = rng.normal(size=(4, 4)), rng.normal(size=4)
        A = J / 4 + np.diag(J.sum(1) + J.sum(0)) / 2 + np.diag(b) / 2  # a vector added to a matrix: on its diagonal
        ising = np.einsum("si,ij,sj->s", s, J, s) + s @ b
        same += int(ising.argmin() == energies(A).argmin())
    return same


def gradient_of_gap(models: int = 500, step: float = 1e-6) -> tuple[int, int]:
    """In how many the slopes of L_gap in all entries of A are x̂ᵢx̂ⱼ - x*ᵢx*ⱼ, and in how many twice that, as printed.

    The solution x̂ is a random state other than the minimiser, A is not tied to be symmetric.
    """
    rng, once, twice = np.random.default_rng(0), 0, 0
    for _ in range(models):
        A = rng.normal(size=(4, 4))
        best = int(energies(A).argmin())
        right = int(rng.choice([state for state in range(16) if state != best]))
        slopes = np.empty((4, 4))
        for at in np.ndindex(4, 4):
            moved = np.zeros((4, 4))
            moved[at] = step
            above, below = energies(A + moved), energies(A - moved)
            slopes[at] = (above[right] - above.min() - below[right] + below.min()) / (2 * step)
        outer = np.outer(STATES[right], STATES[right]) - np.outer(STATES[best], STATES[best])
        once += int(np.allclose(slopes, outer, atol=1e-4))
        twice += int(np.allclose(slopes, 2 * outer, atol=1e-4))
    return once, twice


def unique_as_printed(models: int = 500, step: float = 1e-3) -> tuple[int, int]:
    """Where x̂ lies above x⁺: in how many of so many models a step down the printed L_unique lifts it further."""
    rng, lifted, above = np.random.default_rng(0), 0, 0
    for _ in range(models):
        A, right = rng.normal(size=(4, 4)), int(rng.integers(16))
        second = int(energies(A).argsort()[1])
        gap = energies(A)[right] - energies(A)[second]
        if gap > 0:
            outer = np.outer(STATES[right], STATES[right]) - np.outer(STATES[second], STATES[second])
            moved = energies(A + step * outer)  # minus the gradient of -|E(x̂) - E(x⁺)|
            above += 1
            lifted += int(moved[right] - moved[second] > gap)
    return lifted, above
