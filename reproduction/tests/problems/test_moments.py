"""Neighbor pairs and AQM's matrix."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import cKDTree

from quant_reproduction.problems import clouds as moments
from quant_reproduction.problems.clouds import PairMoments, aqm_matrix, check_clouds, pair_moments
from qubolearn.errors import QubolearnError

few = settings(max_examples=30, deadline=None)


def naive_pairs(template: np.ndarray, reference: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return x and y of all neighbor pairs, by a k-d tree."""
    near = cKDTree(reference).query(template, k=[*range(1, k + 1)])[1]
    return reference[near.ravel()], np.repeat(template, k, axis=0)


def stacked(found: PairMoments) -> torch.Tensor:
    return torch.cat([torch.stack(found[:4], 1), found.x, found.y], 1)


@few
@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(1, 12), st.integers(1, 4))
def test_moments_are_those_of_naive_pairs(seed: int, m: int, n: int, k: int) -> None:
    k = min(k, n)
    rng = np.random.default_rng(seed)
    template, reference = (rng.normal(size=(3, size, 2)).astype(np.float32) for size in (m, n))
    found = stacked(pair_moments(torch.tensor(template), torch.tensor(reference), k)).numpy()
    for row, y_cloud, x_cloud in zip(found, template, reference, strict=True):
        x, y = naive_pairs(y_cloud, x_cloud, k)
        cross = y[:, 0] * x[:, 1] - y[:, 1] * x[:, 0]
        squares = [product.sum(1).mean() for product in (x**2, y**2, x * y)]
        wanted = [*squares, cross.mean(), *x.mean(0), *y.mean(0)]
        np.testing.assert_allclose(row, wanted, rtol=1e-4, atol=1e-5)


@few
@given(st.integers(0, 2**32), st.floats(-180, 180))
def test_rotating_both_clouds_does_not_change_the_matrix(seed: int, degrees: float) -> None:
    """So an upright template loses no instances."""
    rng, angle = np.random.default_rng(seed), np.radians(degrees)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    clouds = rng.normal(size=(2, 3, 9, 2))
    as_they_are, turned = (
        aqm_matrix(torch.stack(pair_moments(*map(torch.tensor, each), 3)[:4], 1)).numpy()
        for each in (clouds, clouds @ turn.T)
    )
    np.testing.assert_allclose(turned, as_they_are, rtol=1e-4, atol=1e-4)


def test_padding_does_not_matter() -> None:
    generator = torch.Generator().manual_seed(0)
    template, reference = torch.randn(2, 9, 2, generator=generator), torch.randn(2, 8, 2, generator=generator)
    cut = pair_moments(template[:, :5], reference[:, :6], 2)
    counts = torch.tensor([5, 5]), torch.tensor([6, 6])
    assert torch.equal(stacked(pair_moments(template, reference, 2, *counts)), stacked(cut))


def test_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    template, reference = (
        torch.randn(50, 9, 2, generator=generator),
        torch.randn(50, 8, 2, generator=generator),
    )
    counts = torch.randint(4, 10, (50,), generator=generator), torch.randint(4, 9, (50,), generator=generator)
    wanted = stacked(pair_moments(template, reference, 3, *counts))
    monkeypatch.setitem(moments.MAX_DISTANCES, "cpu", 20 * 9 * 8)
    torch.testing.assert_close(stacked(pair_moments(template, reference, 3, *counts)), wanted)
    none = stacked(pair_moments(template[:0], reference[:0], 3, *(each[:0] for each in counts)))
    assert not none.numel()


def test_aqm_matrix_is_phi_phi_transposed() -> None:
    """Φ written out: x_n over -Q_k y_m for each neighbor pair, Q_k = w·C."""
    rng = np.random.default_rng(0)
    template, reference = rng.normal(size=(7, 2)), rng.normal(size=(9, 2))
    x, y = naive_pairs(template, reference, 3)
    M = np.array([[0, -1], [1, 0]])
    basis = [w * C for w in (0.5, 0.2, 0.1, 0.1, 0.05) for C in (np.eye(2), M, -np.eye(2), -M)]
    Phi = np.stack([x.ravel(), *(-(y @ Q.T).ravel() for Q in basis)])
    numbers = torch.stack(pair_moments(torch.tensor(template)[None], torch.tensor(reference)[None], 3)[:4], 1)
    P = aqm_matrix(numbers)[0]
    np.testing.assert_allclose(P.numpy(), Phi @ Phi.T / len(x), atol=1e-5)


@pytest.mark.parametrize(
    ("template", "reference", "message"),
    [
        (torch.zeros(1, 0, 2), torch.zeros(1, 3, 2), "template"),
        (torch.zeros(3, 2), torch.zeros(1, 3, 2), r"\[3, 2\]"),
        (torch.zeros(2, 3, 2), torch.zeros(1, 3, 2), "2 templates and 1"),
        (torch.zeros(1, 3, 2), torch.full((1, 3, 2), float("nan")), "reference"),
    ],
)
def test_bad_clouds_are_rejected(template: torch.Tensor, reference: torch.Tensor, message: str) -> None:
    with pytest.raises(QubolearnError, match=message):
        check_clouds(template, reference, 2)


@pytest.mark.parametrize("neighbors", [0, 4])
def test_more_neighbors_than_points_are_rejected(neighbors: int) -> None:
    with pytest.raises(QubolearnError, match=f"1 to 3 neighbors.*{neighbors}"):
        pair_moments(torch.zeros(1, 5, 2), torch.zeros(1, 3, 2), neighbors)
