"""Batched ICP against the textbook loop with a k-d tree, and against small_gicp where that is installed."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.spatial import cKDTree

from qubolearn.errors import QubolearnError
from qubolearn.paper.baselines.icp import icp
from qubolearn.paper.problems.angles import geodesic_so2, rotation_2d


def wobbly_circles(count: int, points: int, seed: int = 0) -> torch.Tensor:
    """Closed outlines ``[count, points, 2]``, centred."""
    generator = torch.Generator().manual_seed(seed)
    around = torch.arange(points) * (2 * math.pi / points)
    radius = torch.ones(count, points)
    for k in range(1, 5):
        phase = 6 * torch.rand(count, 1, generator=generator)
        radius = radius + 0.4 / k * torch.randn(count, 1, generator=generator) * torch.cos(k * around + phase)
    outline = radius[..., None] * torch.stack([around.cos(), around.sin()], 1)
    return outline - outline.mean(1, keepdim=True)


def textbook(template: np.ndarray, reference: np.ndarray, start: float, shift: bool) -> float:
    tree, angle, moved = cKDTree(reference), start, template @ rotation(start).T
    for _ in range(100):
        x, y = reference[tree.query(moved)[1]], moved
        x_mean, y_mean = (x.mean(0), y.mean(0)) if shift else (np.zeros(2), np.zeros(2))
        H = (x - x_mean).T @ (y - y_mean)
        turn = math.atan2(H[1, 0] - H[0, 1], H[0, 0] + H[1, 1])
        moved = (y - y_mean) @ rotation(turn).T + x_mean
        angle += turn
        if abs(turn) < 1e-6:
            break
    return angle


def rotation(angle: float) -> np.ndarray:
    return np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])


@pytest.mark.parametrize("shift", [False, True])
@pytest.mark.parametrize("start", [0.0, 0.3])
def test_it_is_the_textbook_loop(shift: bool, start: float) -> None:
    template = wobbly_circles(30, 40)
    angle = torch.linspace(0.1, 1.0, 30)
    reference = template @ rotation_2d(angle).mT + (0.1 if shift else 0.0)
    reference = reference[:, 3:] + 0.01 * torch.randn(30, 37, 2, generator=torch.Generator().manual_seed(1))
    found = icp(template, reference, starts=[start], translation=shift)
    wanted = [
        textbook(y, x, start, shift) for y, x in zip(template.double().numpy(), reference.double().numpy(), strict=True)
    ]
    error = geodesic_so2(found, torch.tensor(wanted))
    assert (error < 0.01).sum() >= 29  # a tie between neighbours may be broken either way


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


def test_angles_are_wrapped() -> None:
    template = wobbly_circles(3, 50)
    found = icp(template, template, starts=[2 * math.pi])
    torch.testing.assert_close(found, torch.zeros_like(found), rtol=0, atol=1e-5)


def test_a_library_finds_the_same() -> None:
    small_gicp = pytest.importorskip("small_gicp", reason="needs small_gicp, the peer for ICP")
    template = wobbly_circles(10, 60).double()
    angle = torch.linspace(-0.2, 0.2, 10, dtype=torch.float64)
    noise = 0.02 * torch.randn(template.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    reference = template @ rotation_2d(angle).mT + noise
    found = icp(template, reference, translation=True)
    for y, x, ours in zip(template.numpy(), reference.numpy(), found.tolist(), strict=True):
        source, target = (small_gicp.PointCloud(np.pad(cloud, ((0, 0), (0, 1)))) for cloud in (y, x))
        T = small_gicp.align(
            target,
            source,
            registration_type="ICP",
            max_iterations=200,
            rotation_epsilon=1e-7,
            translation_epsilon=1e-7,
        ).T_target_source
        theirs = math.atan2(T[1, 0] - T[0, 1], T[0, 0] + T[1, 1])
        assert math.degrees(abs(ours - theirs)) < 0.1


def test_bad_calls_are_refused() -> None:
    clouds = torch.zeros(1, 3, 2)
    with pytest.raises(QubolearnError, match="0 starts"):
        icp(clouds, clouds, starts=[])
    with pytest.raises(QubolearnError, match="empty"):
        icp(clouds[:, :0], clouds)
    with pytest.raises(QubolearnError, match="not finite"):
        icp(clouds, clouds + math.nan)


def test_equal_points_turn_nowhere() -> None:
    """All points in the origin: every rotation is as good, and the start is the answer."""
    assert icp(torch.zeros(1, 3, 2), torch.zeros(1, 4, 2)).item() == 0
