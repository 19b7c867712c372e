"""Compiled tempering against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from native_kernels import dense_of, kernels, on_all_builds, random_graph

N = 9
GRAPH = random_graph(N, 5, seed=3)
UNITS = np.array([0, 3, 6, 7, 8, 9]), np.arange(N), np.array([True, True, False, False, False])
FREE = np.full((1, N), -1, np.int8)
STATES = np.arange(2**N)[:, None] >> np.arange(N) & 1
ALLOWED = STATES[(STATES[:, :3].sum(1) == 1) & (STATES[:, 3:6].sum(1) == 1)]
ENERGIES = np.einsum("si,ij,sj->s", ALLOWED, np.triu(dense_of(GRAPH)[0]), ALLOWED)


def problem(seeds: int = 1) -> Any:
    linear, quadratic, *graph = GRAPH
    batch = (np.repeat(linear, seeds, 0), np.repeat(quadratic, seeds, 0), *graph)
    return batch, UNITS, np.repeat(FREE, seeds, 0), np.arange(seeds, dtype=np.uint32)


def temper(sweeps: int, count: int = 1, target: float = -np.inf, **options: Any) -> tuple[np.ndarray, ...]:
    betas, states = np.zeros((2, 16)), np.zeros((2, count, N), np.int8)
    rates, swept = np.zeros((2, 15)), np.zeros(2, np.int64)
    goal = (betas, sweeps, np.full(2, target), states, rates, swept)
    kernels.temper(problem(2), *goal, **options)
    return states, betas, rates, swept


def frequencies(states: np.ndarray) -> np.ndarray:
    codes = states.reshape(-1, N) @ (1 << np.arange(N))
    counts = np.bincount(codes, minlength=2**N)[ALLOWED @ (1 << np.arange(N))]
    assert counts.sum() == len(codes)  # no other state
    return counts


def chi_square(counts: np.ndarray, beta: float) -> float:
    p = np.exp(-beta * ENERGIES)
    expected = counts.sum() * p / p.sum()
    return float(((counts - expected) ** 2 / expected).sum() / (len(p) - 1))


def test_the_lowest_states_are_those_of_brute_force() -> None:
    states, betas, rates, swept = temper(200, count=4)
    for one in states:
        values = np.einsum("si,ij,sj->s", one, np.triu(dense_of(GRAPH)[0]), one)
        np.testing.assert_allclose(values, np.sort(ENERGIES)[:4])
    assert (np.diff(betas, axis=1) >= 0).all()
    assert ((rates >= 0) & (rates <= 1)).all()
    assert (swept == 200).all()


def test_a_target_ends_the_search() -> None:
    states, _, _, swept = temper(5000, target=float(ENERGIES.min()))
    found = np.einsum("si,ij,sj->s", states[:, 0], np.triu(dense_of(GRAPH)[0]), states[:, 0])
    np.testing.assert_allclose(found, ENERGIES.min())
    assert (swept < 5000).all()


@pytest.mark.parametrize("beta", [0.3, 1.0])
def test_samples_and_chains_follow_the_boltzmann_distribution(beta: float) -> None:
    states, betas = np.zeros((8, 500, N), np.int8), np.zeros((8, 16))
    kernels.temper_sample(problem(8), betas, np.full(8, beta), 200, 8, states)
    assert chi_square(frequencies(states), beta) < 1.6
    chains = np.zeros((8, 500, N), np.int8)
    kernels.move_chains(problem(8), np.full((8, 500), beta), 60, chains)
    assert chi_square(frequencies(chains), beta) < 1.6


def test_all_builds_and_thread_counts_give_the_same_bits() -> None:
    on_all_builds(lambda threads: temper(300, count=2, threads=threads))

    def sample(threads: int) -> tuple[np.ndarray, ...]:
        betas, (states, chains) = np.zeros((3, 32)), np.zeros((2, 3, 20, N), np.int8)
        kernels.temper_sample(problem(3), betas, np.ones(3), 50, 2, states, threads=threads)
        kernels.move_chains(problem(3), np.ones((3, 20)), 5, chains, threads=threads)
        return states, betas, chains

    on_all_builds(sample)


def test_bad_input_is_an_error() -> None:
    states, betas, colds = np.zeros((1, 2, N), np.int8), np.zeros((1, 16)), np.ones(1)
    kernels.temper_sample(problem(), betas.copy(), colds, 1, 1, states)
    qubos, units, clamps, seeds = problem()
    for given, *goal in [
        (problem(), np.zeros((1, 10)), colds, 1, 1, states),
        (problem(), np.full((1, 16), np.nan), colds, 1, 1, states),
        (problem(), betas, -colds, 1, 1, states),
        (problem(), betas, colds, 1, -1, states),
        (problem(2), betas, colds, 1, 1, states),
        ((qubos, units, clamps[:, :4].copy(), seeds), betas, colds, 1, 1, states),
        ((qubos, units, clamps), betas, colds, 1, 1, states),
        (problem(), betas, colds, 1, 1, states[:, :, ::-1]),
    ]:
        with pytest.raises((TypeError, ValueError)):
            kernels.temper_sample(given, *goal)
    with pytest.raises(ValueError, match="bits"):
        kernels.move_chains(problem(), np.ones((1, 2)), 1, states + 2)
