"""Exchanges of two and three bits against all of them, one by one."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from qubolearn.kernels.exchanges_numba import exchange

STOP = np.zeros(1, np.uint8)


def energy(S: np.ndarray, x: np.ndarray) -> float:
    return float(x @ np.triu(S) @ x)


def symmetric(n: int, rng: np.random.Generator, integer: bool) -> np.ndarray:
    S = rng.integers(-3, 4, (n, n)).astype(float) if integer else rng.standard_normal((n, n))
    return np.triu(S) + np.triu(S, 1).T


@pytest.mark.parametrize("integer", [True, False])
@pytest.mark.parametrize("n", [1, 2, 3, 10])
def test_no_exchange_of_up_to_three_bits_is_lower(n: int, integer: bool) -> None:
    rng = np.random.default_rng(n)
    for _ in range(20):
        S = symmetric(n, rng, integer)
        states = rng.integers(0, 2, (1, 1, n)).astype(np.int8)
        reads = rng.integers(0, 2, (1, 4, n)).astype(np.int8)
        before = energy(S, states[0, 0].astype(float))
        single = min(energy(S, np.abs(states[0, 0] - flip)) for flip in np.eye(n))
        exchange(S[None], reads, states, STOP)
        x = states[0, 0].astype(float)
        found = energy(S, x)
        assert found <= before
        if before <= single:  # what is given is a local minimum of single flips
            for count in range(min(n, 3) + 1):
                for bits in combinations(range(n), count):
                    other = x.copy()
                    other[list(bits)] = 1 - other[list(bits)]
                    assert energy(S, other) >= found - 1e-9


def test_the_other_states_are_distinct_and_in_order() -> None:
    rng = np.random.default_rng(0)
    weights = np.array([3.0, 2.0, 2.0, 1.0, 1.0, 4.0, 5.0, 2.0])
    S = 20 * np.outer(weights, weights)
    np.fill_diagonal(S, 10 * weights**2 - 20 * 10 * weights - rng.integers(1, 9, 8))  # one knapsack of capacity 10
    S = np.triu(S) + np.triu(S, 1).T
    states = np.zeros((1, 3, 8), np.int8)
    states[0, 0, [0, 1, 6]], states[0, 1, [0, 1, 2]] = 1, 1  # full, but not of the best; the others are anything else
    exchange(S[None], states.copy(), states, STOP)
    energies = [energy(S, x.astype(float)) for x in states[0]]
    every = sorted(energy(S, np.array([code >> k & 1 for k in range(8)], float)) for code in range(256))
    assert energies == sorted(energies)
    assert len({x.tobytes() for x in states[0]}) == 3
    assert energies[0] == pytest.approx(every[0])
