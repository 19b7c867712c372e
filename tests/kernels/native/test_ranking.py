"""Ranking of candidates against a plain loop."""

from __future__ import annotations

import numpy as np
import pytest
from native_kernels import kernels, on_all_builds


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 3, 8])
def test_rank(n: int, dtype: str) -> None:
    rng = np.random.default_rng(n)
    A = rng.integers(-2, 3, (4, n, n)).astype(dtype)  # integers: many ties
    candidates = rng.integers(0, 2, (4, 20, n)).astype(np.uint8)
    expected = []
    for b in range(4):
        distinct = list(dict.fromkeys(map(tuple, candidates[b].tolist())))
        distinct.sort(key=lambda x, b=b: float(np.array(x) @ A[b] @ np.array(x)))  # stable
        expected.append(distinct)
    count = min(map(len, expected))

    def rank(threads: int) -> tuple[np.ndarray, ...]:
        states, energies = np.empty((4, count, n), dtype), np.empty((4, count))
        assert kernels.rank(A, candidates, states, energies, threads=threads) == count
        return states, energies

    states, energies = on_all_builds(rank)
    assert states.astype(int).tolist() == [[list(x) for x in each[:count]] for each in expected]
    np.testing.assert_array_equal(energies, np.einsum("bki,bij,bkj->bk", states, A, states))


def test_rank_counts_distinct_states_of_finite_energy() -> None:
    A = np.ones((1, 2, 2))
    candidates = np.array([[[1, 1], [0, 1], [1, 1], [0, 1]]], np.uint8)
    assert kernels.rank(A, candidates, np.empty((1, 3, 2)), np.empty((1, 3))) == 2
    assert kernels.rank(np.full((1, 2, 2), 1e308), candidates, np.empty((1, 3, 2)), np.empty((1, 3))) == 1
