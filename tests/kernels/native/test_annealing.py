"""Compiled annealers against NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from native_kernels import dense_of, kernels, on_all_builds, random_graph, symmetric


@pytest.fixture(params=kernels.builds())
def build(request: pytest.FixtureRequest) -> Iterator[str]:
    before = kernels.build()
    kernels.use(request.param)
    yield request.param
    kernels.use(before)


def anneal(
    problem: Any, reads: int, sweeps: int = 60, betas: tuple[float, float] = (0.1, 3.0), **options: Any
) -> Any:
    dense = isinstance(problem, np.ndarray)
    batch, n = (problem if dense else problem[0]).shape[:2]
    states, seeds = np.zeros((batch, reads, n), np.int8), np.arange(batch, dtype=np.uint32)
    how = (np.tile(np.array(betas), (batch, 1)), max(1, sweeps - 1), sweeps, seeds, False, states)
    if dense:
        kernels.anneal_dense(problem, *how, **options)
    else:
        kernels.anneal_sparse(problem, *how, **options)
    return states


CASES = [(symmetric(3, 5), 7), (symmetric(2, 33), 100), (symmetric(1, 100), 70), (symmetric(1, 130), 2)]
CASES += [
    (random_graph(90, 3), 100),
    (random_graph(90, 3), 10),
    (random_graph(64, 12), 1),
    (random_graph(200, 8), 40),
]
CASES += [(random_graph(64, 12), 33)]  # the last read is alone in its group


@pytest.mark.parametrize("case", range(len(CASES)))
def test_all_builds_and_thread_counts_give_the_same_bits(case: int) -> None:
    problem, reads = CASES[case]
    (found,) = on_all_builds(lambda threads: (anneal(problem, reads, threads=threads),))
    assert found.any()


@pytest.mark.usefixtures("build")
@pytest.mark.parametrize("n", [1, 4, 21, 70, 150])
@pytest.mark.parametrize("reads", [1, 3, 17, 70])
def test_a_sweep_at_zero_temperature_flips_each_bit_that_lowers_the_energy(n: int, reads: int) -> None:
    graph = random_graph(n, 4, seed=n)
    S = dense_of(graph)
    given = np.random.default_rng(n).integers(0, 2, (1, reads, n), np.int8)
    plain = given[0].copy()
    for x in plain:
        for i in range(n):
            field = S[0, i, i] * (1 - x[i]) + S[0, i] @ x
            x[i] ^= (1 - 2 * x[i]) * field < 0
    how = (np.full((1, 2), 1e9), 1, 1, np.zeros(1, np.uint32), True)
    dense, sparse = given.copy(), given.copy()
    kernels.anneal_dense(S, *how, dense)
    kernels.anneal_sparse(graph, *how, sparse)
    np.testing.assert_array_equal(dense[0], plain)
    np.testing.assert_array_equal(sparse[0], plain)


@pytest.mark.usefixtures("build")
def test_slow_annealing_reaches_the_lowest_energy() -> None:
    graph = random_graph(12, 4)
    S = dense_of(graph)
    x = (np.arange(2**12)[:, None] >> np.arange(12)) & 1
    energies = 0.5 * (np.einsum("ri,ij,rj->r", x, S[0], x) + x @ np.diag(S[0]))
    for problem in (S, graph):
        reads = anneal(problem, 32, sweeps=400, betas=(0.1, 20.0))[0]
        found = 0.5 * (np.einsum("ri,ij,rj->r", reads, S[0], reads) + reads @ np.diag(S[0]))
        assert found.min() == pytest.approx(energies.min())
        assert (found < energies.min() + 1e-9).mean() > 0.5


def test_scaling_is_that_of_the_largest_entry() -> None:
    A = np.random.default_rng(0).normal(size=(4, 6, 6))
    A[2] = 0
    for dtype in (np.float32, np.float64):
        S, scale, betas = np.empty(A.shape), np.empty(4), np.empty((4, 2))
        kernels.scale_dense(A.astype(dtype), S, scale, betas, threads=2)
        largest = np.abs(A).max((1, 2))
        np.testing.assert_allclose(scale, np.where(largest > 0, largest, 1), rtol=1e-6)
        expected = A + A.transpose(0, 2, 1)
        expected[:, range(6), range(6)] /= 2
        np.testing.assert_allclose(S, expected / scale[:, None, None], rtol=1e-5, atol=1e-7)
        assert betas[2].tolist() == [0.1, 1.0]
        assert (betas[:, 0] <= betas[:, 1]).all()


def test_bad_input_is_an_error() -> None:
    S, states = symmetric(1, 4), np.zeros((1, 2, 4), np.int8)
    betas, seeds = np.ones((1, 2)), np.zeros(1, np.uint32)
    kernels.anneal_dense(S, betas, 1, 1, seeds, False, states)
    for arguments in [
        (S[:, :3].copy(), betas, 1, 1, seeds, False, states),
        (S, np.ones((2, 2)), 1, 1, seeds, False, states),
        (S, np.array([[2.0, 1.0]]), 1, 1, seeds, False, states),
        (S, np.array([[0.0, np.nan]]), 1, 1, seeds, False, states),
        (S, betas, 0, 1, seeds, False, states),
        (S, betas, 1, 1, seeds, True, np.full_like(states, 2)),
    ]:
        with pytest.raises((TypeError, ValueError)):
            kernels.anneal_dense(*arguments)
    linear, quadratic, starts, neighbors, places = random_graph(6, 3)
    how = (betas, 1, 1, seeds, False, np.zeros((1, 2, 6), np.int8))
    kernels.anneal_sparse((linear, quadratic, starts, neighbors, places), *how)
    for graph in [
        (linear, quadratic, starts[::-1].copy(), neighbors, places),
        (linear, quadratic, starts, neighbors + 6, places),
        (linear, quadratic, starts, neighbors, places - 1),
        (linear, quadratic[:, :1].copy(), starts, neighbors, places),
    ]:
        with pytest.raises((TypeError, ValueError)):
            kernels.anneal_sparse(graph, *how)


def test_empty_batches_and_reads() -> None:
    none = np.zeros((0, 2)), 1, 1, np.zeros(0, np.uint32), False
    kernels.anneal_dense(np.zeros((0, 3, 3)), *none, np.zeros((0, 2, 3), np.int8))
    one = np.ones((1, 2)), 1, 1, np.zeros(1, np.uint32), False
    kernels.anneal_dense(symmetric(1, 3), *one, np.zeros((1, 0, 3), np.int8))
