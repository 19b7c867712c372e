"""Kabsch against scipy, and where matrices without the determinant fix would give mirror images."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation as ScipyRotation

from qubolearn.errors import QubolearnError
from qubolearn.paper.baselines.procrustes import procrustes


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.integers(3, 10))
def test_scipy_finds_the_same(seed: int, points: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(2, points, 3))
    wanted = ScipyRotation.align_vectors(x, y)[0].as_matrix()
    np.testing.assert_allclose(procrustes(torch.tensor(x.T @ y)[None])[0].numpy(), wanted, atol=1e-6)


@pytest.mark.parametrize("d", [2, 3])
def test_answers_are_rotations_even_of_mirror_images(d: int) -> None:
    rng = np.random.default_rng(0)
    y = torch.tensor(rng.normal(size=(20, 8, d)))
    mirror = torch.eye(d, dtype=torch.float64)
    mirror[0, 0] = -1
    R = procrustes((y @ mirror).mT @ y)
    torch.testing.assert_close(R @ R.mT, torch.eye(d, dtype=torch.float64).expand_as(R))
    torch.testing.assert_close(torch.linalg.det(R), torch.ones(20, dtype=torch.float64))


@pytest.mark.parametrize("H", [torch.zeros(1, 3, 3), torch.ones(1, 3, 3)])
def test_degenerate_clouds_give_some_rotation(H: torch.Tensor) -> None:
    R = procrustes(H)
    torch.testing.assert_close(R @ R.mT, torch.eye(3).expand_as(R))
    assert torch.linalg.det(R).item() == pytest.approx(1)


@pytest.mark.parametrize(
    "H", [torch.zeros(3, 3), torch.zeros(1, 2, 3), torch.zeros(1, 3, 3).long(), torch.full((1, 3, 3), float("nan"))]
)
def test_bad_covariances_are_refused(H: torch.Tensor) -> None:
    with pytest.raises(QubolearnError):
        procrustes(H)
