"""Search and partition sums against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from native_kernels import all_energies, all_states, kernels, on_all_builds, partition, search

SIZES = [1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 14]
FAMILIES = {
    "normal": lambda x: x,
    "ties": lambda x: x.round().clip(-1, 1),
    "wide range": lambda x: x * 10 ** (4 * x[::-1]).clip(-6, 8),
    "zero": lambda x: 0 * x,
}


def qubos(batch: int, n: int, dtype: str, family: str = "normal") -> np.ndarray:
    x = np.random.default_rng(n).normal(size=(batch, n, n))
    return np.ascontiguousarray(FAMILIES[family](x).astype(dtype))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", SIZES)
def test_search(n: int, dtype: str, family: str) -> None:
    A = qubos(3, n, dtype, family)
    E = all_energies(A)
    for count in {1, min(7, 2**n), min(200, 2**n)}:
        states, energies = on_all_builds(lambda threads, count=count: search(A, count, threads=threads))
        np.testing.assert_allclose(energies, np.sort(E, 1)[:, :count], rtol=0, atol=1e-13 * np.abs(A).sum())
        codes = (states.astype(int) << np.arange(n)).sum(2)
        np.testing.assert_allclose(np.take_along_axis(E, codes, 1), energies, atol=1e-13 * np.abs(A).sum())
        assert all(len(set(row)) == count for row in codes.tolist())
        assert (np.diff(energies) >= 0).all()


@pytest.mark.parametrize("beta", [0.0, 1.0, -0.7, 5.0])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", SIZES)
def test_partition(n: int, dtype: str, beta: float) -> None:
    A = qubos(3, n, dtype)
    exponents = -beta * all_energies(A)
    weights = np.exp(exponents - exponents.max(1, keepdims=True))
    x = all_states(n)
    values, marginals = on_all_builds(lambda threads: partition(A, beta, threads=threads))
    tolerance = 1e-11 if dtype == "float64" else 2e-5 * (1 + abs(beta))
    np.testing.assert_allclose(values, np.log(weights.sum(1)) + exponents.max(1), rtol=0, atol=tolerance)
    expected = np.stack([(x.T * w) @ x / w.sum() for w in weights])
    np.testing.assert_allclose(marginals, expected, rtol=0, atol=tolerance)


def test_parts_of_large_qubos() -> None:
    A = qubos(3, 19, "float32")
    E = all_energies(A)
    _, energies = on_all_builds(lambda threads: search(A, 5, threads=threads))
    np.testing.assert_allclose(energies, np.sort(E, 1)[:, :5], rtol=1e-12)
    values, marginals = on_all_builds(lambda threads: partition(A, 0.7, threads=threads))
    np.testing.assert_allclose(values, np.logaddexp.reduce(-0.7 * E, 1), rtol=1e-6)
    for some in ({"held": 0}, {"held": 3 * 2 * 19 * 19 * 8}):  # one QUBO at a time, or two
        assert np.array_equal(search(A, 5, **some)[1], energies)
        assert np.array_equal(partition(A, 0.7, **some)[1], marginals)


def test_too_steep_sums_are_nan() -> None:
    A = np.stack([np.eye(12), -1e6 * np.eye(12)])
    values, _ = partition(A, 1.0)
    np.testing.assert_allclose(values[0], 12 * np.log1p(np.exp(-1)))
    assert np.isnan(values[1])


def test_search_returns_the_largest_sum_of_entries() -> None:
    A = qubos(4, 9, "float64")
    states, energies = np.empty((4, 1, 9)), np.empty((4, 1))
    assert kernels.search(A, states, energies, 2**26) == pytest.approx(np.abs(A).sum((1, 2)).max())
