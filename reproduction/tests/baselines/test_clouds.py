"""AQM, ICP and Procrustes against oracles."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation as ScipyRotation

from quant_reproduction.baselines import aqm_angle, icp, procrustes, solve_exactly
from quant_reproduction.problems.clouds import aqm_matrix, geodesic_so2, pair_moments, rotation_2d
from qubolearn.qubo import energies
from qubolearn.solvers import ExhaustiveSearch

M = np.array([[0, -1], [1, 0]])
BASIS = [w * C for w in (0.5, 0.2, 0.1, 0.1, 0.05) for C in (np.eye(2), M, -np.eye(2), -M)]


def aqm_qubo(numbers: torch.Tensor) -> torch.Tensor:
    """Return the QUBO of the 20 free qubits."""
    P = aqm_matrix(numbers)
    return P[:, 1:, 1:] + torch.diag_embed(2 * P[:, 0, 1:])


def clouds(count: int, angle: float, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    template = torch.randn(count, 12, 2, generator=torch.Generator().manual_seed(seed))
    template = template - template.mean(1, keepdim=True)
    return template, template @ rotation_2d(torch.tensor(angle)).mT


def test_energies_are_squared_distances() -> None:
    """qᵀAq + mean |x|² = mean |x - R y|² with R = Σ q_k Q_k."""
    template, reference = clouds(1, 0.4)
    moments = pair_moments(template, reference, 2)
    A = aqm_qubo(torch.stack(moments[:4], 1))
    distance = torch.cdist(template[0], reference[0])
    near = distance.topk(2, largest=False).indices.flatten().numpy()
    x, y = reference[0].numpy()[near], np.repeat(template[0].numpy(), 2, axis=0)
    for q in (torch.rand(20, 20, generator=torch.Generator().manual_seed(1)) < 0.5).float():
        R = sum(float(bit) * Q for bit, Q in zip(q, BASIS, strict=True))
        wanted = ((x - y @ R.T) ** 2).sum(1).mean()
        assert (energies(A, q[None]) + moments.xx).item() == pytest.approx(wanted, rel=1e-4, abs=1e-5)
        assert aqm_angle(q[None]).item() == pytest.approx(math.atan2(R[1, 0], R[0, 0]), abs=1e-5)


def test_the_structure_gives_what_exhaustive_search_gives() -> None:
    generator = torch.Generator().manual_seed(0)
    numbers = torch.rand(4, 4, generator=generator, dtype=torch.float64) * torch.tensor(
        [1.0, 1, 2, 2]
    ) - torch.tensor([0.0, 0, 1, 1])
    A = aqm_qubo(numbers)
    best = ExhaustiveSearch()(A, 1)
    torch.testing.assert_close(energies(A, solve_exactly(numbers)), best.energies[:, 0])


def wobbly_circles(count: int, points: int, seed: int = 0) -> torch.Tensor:
    """Return closed outlines ``[count, points, 2]``, centered."""
    generator = torch.Generator().manual_seed(seed)
    around = torch.arange(points) * (2 * math.pi / points)
    radius = torch.ones(count, points)
    for k in range(1, 5):
        phase = 6 * torch.rand(count, 1, generator=generator)
        radius = radius + 0.4 / k * torch.randn(count, 1, generator=generator) * torch.cos(k * around + phase)
    outline = radius[..., None] * torch.stack([around.cos(), around.sin()], 1)
    return outline - outline.mean(1, keepdim=True)


def textbook(template: np.ndarray, reference: np.ndarray, start: float) -> float:
    tree, angle, moved = cKDTree(reference), start, template @ rotation(start).T
    for _ in range(100):
        x, y = reference[tree.query(moved)[1]], moved
        H = x.T @ y
        turn = math.atan2(H[1, 0] - H[0, 1], H[0, 0] + H[1, 1])
        moved = y @ rotation(turn).T
        angle += turn
        if abs(turn) < 1e-6:
            break
    return angle


def rotation(angle: float) -> np.ndarray:
    return np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])


@pytest.mark.parametrize("start", [0.0, 0.3])
def test_it_is_the_textbook_loop(start: float) -> None:
    template = wobbly_circles(30, 40)
    angle = torch.linspace(0.1, 1.0, 30)
    reference = template @ rotation_2d(angle).mT
    reference = reference[:, 3:] + 0.01 * torch.randn(30, 37, 2, generator=torch.Generator().manual_seed(1))
    found = icp(template, reference, starts=[start])
    wanted = [
        textbook(y, x, start)
        for y, x in zip(template.double().numpy(), reference.double().numpy(), strict=True)
    ]
    error = geodesic_so2(found, torch.tensor(wanted))
    assert (error < 0.01).sum() >= 29  # ties may be broken either way


def test_small_turns_are_found_exactly_and_several_starts_find_large_ones() -> None:
    template = wobbly_circles(20, 60)
    small, large = torch.full((20,), 0.05), torch.full((20,), 1.2)
    assert geodesic_so2(icp(template, template @ rotation_2d(small).mT), small).max() < 0.01
    reference = template @ rotation_2d(large).mT
    once = geodesic_so2(icp(template, reference), large).mean()
    often = geodesic_so2(icp(template, reference, starts=[0.0, 0.6, 1.2]), large).mean()
    assert often < 0.1 < once


def test_padding_does_not_matter() -> None:
    template = wobbly_circles(4, 30)
    reference = template @ rotation_2d(torch.full((4,), 0.3)).mT
    padded = torch.nn.functional.pad(template, (0, 0, 0, 5)), torch.nn.functional.pad(reference, (0, 0, 0, 2))
    counts = torch.full((4,), 30)
    torch.testing.assert_close(icp(*padded, counts, counts), icp(template, reference))
    assert icp(template[:0], reference[:0]).shape == (0,)


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
