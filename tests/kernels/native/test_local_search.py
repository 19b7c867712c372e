"""Compiled local search against NumPy."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from native_kernels import dense_of, kernels, on_all_builds, random_graph, symmetric


def energy(S: np.ndarray, x: np.ndarray) -> float:
    return float(x @ np.triu(S) @ x)


def refine_dense(
    S: np.ndarray, reads: np.ndarray, count: int, exchanges: bool = True, **options: int
) -> tuple:
    states, success = np.zeros((len(S), count, S.shape[1]), np.int8), np.zeros(len(S))
    kernels.refine_dense(S, reads, states, success, exchanges, **options)
    return states, success


def units_of(n: int, groups: int, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return units: groups of consecutive bits, then single ones."""
    sizes = [size] * groups + [1] * (n - groups * size)
    return np.r_[0, np.cumsum(sizes)], np.arange(n), np.arange(len(sizes)) < groups


def refine_sparse(
    graph: tuple, units: tuple, clamps: np.ndarray, reads: np.ndarray, count: int, **options: int
) -> tuple:
    states, success = np.zeros((1, count, reads.shape[2]), np.int8), np.zeros(1)
    kernels.refine_sparse(graph, units, clamps, reads, states, success, True, **options)
    return states, success


@pytest.mark.parametrize("integer", [True, False])
@pytest.mark.parametrize("n", [1, 2, 3, 10, 70])
def test_no_change_of_up_to_three_bits_is_lower(n: int, integer: bool) -> None:
    rng = np.random.default_rng(n)
    for seed in range(10 if n <= 10 else 2):
        S = np.rint(symmetric(1, n, seed) * 2) if integer else symmetric(1, n, seed)
        reads = rng.integers(0, 2, (1, 4, n), np.int8)
        x = refine_dense(S, reads, 1)[0][0, 0].astype(float)
        lowest = energy(S[0], x)
        assert lowest <= min(energy(S[0], read) for read in reads[0].astype(float)) + 1e-9
        changes = [change for count in range(1, 4) for change in combinations(range(n), count)]
        for k in rng.permutation(len(changes))[:3000]:
            other = x.copy()
            other[list(changes[k])] = 1 - other[list(changes[k])]
            assert energy(S[0], other) >= lowest - 1e-9


def test_reads_of_all_states_give_the_lowest_ones_and_their_share() -> None:
    n, S = 8, symmetric(2, 8)
    x = (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(np.int8)
    states, success = refine_dense(S, np.stack([x, x]), 5)
    for k in range(2):
        every = sorted(energy(S[k], one) for one in x.astype(float))
        np.testing.assert_allclose([energy(S[k], one) for one in states[k].astype(float)], every[:5])
    np.testing.assert_allclose(success, 1 / 2**n)


@pytest.mark.parametrize("seed", range(5))
def test_groups_and_clamps_are_kept_and_no_pair_of_moves_is_lower(seed: int) -> None:
    rng, n = np.random.default_rng(seed), 14
    graph, units = random_graph(n, 6, seed), units_of(n, 3, 3)
    S, clamps = dense_of(graph)[0], np.full((1, n), -1, np.int8)
    clamps[0, 12], clamps[0, 1] = 1, 0
    reads = rng.integers(0, 2, (1, 6, n), np.int8)
    (states, _) = refine_sparse(graph, units, clamps, reads, 3)
    every = np.array([x for x in (np.arange(2**n)[:, None] >> np.arange(n) & 1) if x[12] == 1 and x[1] == 0])
    allowed = every[(every[:, :9].reshape(-1, 3, 3).sum(2) == 1).all(1)]
    values = np.array([energy(S, x) for x in allowed.astype(float)])
    found = [energy(S, x) for x in states[0].astype(float)]
    assert {tuple(x) for x in states[0].tolist()} <= {tuple(x) for x in allowed.tolist()}
    assert found == sorted(found)
    changed = np.abs(allowed - states[0, 0])
    moved = changed[:, :9].reshape(-1, 3, 3).max(2).sum(1) + changed[:, 9:].sum(1)
    assert (values[moved <= 2] >= found[0] - 1e-9).all()


def test_all_builds_and_thread_counts_give_the_same_bits() -> None:
    rng, S, graph = np.random.default_rng(0), symmetric(6, 40), random_graph(80, 5)
    reads, more = rng.integers(0, 2, (6, 20, 40), np.int8), rng.integers(0, 2, (1, 20, 80), np.int8)
    clamps, units = np.full((1, 80), -1, np.int8), units_of(80, 10, 4)
    on_all_builds(lambda threads: refine_dense(S, reads, 4, threads=threads))
    on_all_builds(lambda threads: refine_sparse(graph, units, clamps, more, 4, threads=threads))


def test_bad_input_is_an_error() -> None:
    S, reads, graph = symmetric(1, 6), np.zeros((1, 2, 6), np.int8), random_graph(6, 3)
    clamps, (first, bits, group) = np.full((1, 6), -1, np.int8), units_of(6, 2, 2)
    refine_sparse(graph, (first, bits, group), clamps, reads, 1)
    with pytest.raises(ValueError, match="bits"):
        refine_dense(S, reads + 2, 1)
    with pytest.raises(ValueError, match="at least one"):
        refine_dense(S, reads[:, :0].copy(), 1)
    for units in [
        (first, bits[::-1].copy() * 0, group),
        (first + 1, bits, group),
        (first, bits + 6, group),
        (first, bits, np.zeros_like(group)),
        (first[:-1], bits, group),
        (first, bits.astype(np.int32), group),
    ]:
        with pytest.raises((TypeError, ValueError)):
            refine_sparse(graph, units, clamps, reads, 1)
