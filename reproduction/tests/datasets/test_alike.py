"""Copies are found by content."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation as Turn

from quant_reproduction.datasets import clouds_alike, outlines_alike
from qubolearn.errors import QubolearnError


def outline(seed: int, points: int = 120) -> np.ndarray:
    """Return a wobbly circle, clockwise."""
    rng = np.random.default_rng(seed)
    around = -np.arange(points) * 2 * np.pi / points
    radius = 1 + sum(rng.normal(scale=0.3 / k) * np.cos(k * around + rng.uniform(0, 6)) for k in range(1, 6))
    return np.stack([radius * np.cos(around), radius * np.sin(around)], 1)


def turned(points: np.ndarray, degrees: float) -> np.ndarray:
    angle = np.radians(degrees)
    return points @ np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])


COPIES = {
    "as it is": lambda p: p,
    "turned": lambda p: turned(p, 77.0),
    "mirrored": lambda p: (p * [-1, 1])[::-1],  # backwards, so clockwise
    "turned, mirrored, scaled and moved": lambda p: turned((p * [1, -1])[::-1], -131.0) * 0.2 + 5,
    "started elsewhere": lambda p: np.roll(p, 31, axis=0),
    "jittered by 1 %": lambda p: p + np.random.default_rng(0).normal(scale=0.01, size=p.shape),
}


@pytest.mark.parametrize("how", COPIES)
def test_copies_of_outlines_are_found_and_nothing_else(how: str) -> None:
    shapes = [outline(seed) for seed in range(12)]
    shapes.append(COPIES[how](shapes[3]))
    expected = np.eye(13, dtype=bool)
    expected[3, 12] = expected[12, 3] = True
    np.testing.assert_array_equal(outlines_alike(shapes), expected)


def test_the_bound_that_leaves_pairs_out_is_one() -> None:
    base = outline(0, 256)
    shapes = [base + scale * outline(1, 256) for scale in (0.0, 0.01, 0.02, 0.04, 0.4, 1.0)]
    z = [shape @ [1, 1j] for shape in shapes]
    z = [(each - each.mean()) / np.sqrt((abs(each - each.mean()) ** 2).mean()) for each in z]

    def distance(a: np.ndarray, b: np.ndarray) -> float:
        return min(np.sqrt(max(0, 2 - 2 * abs(np.vdot(np.roll(b, k), a)) / len(a))) for k in range(len(a)))

    brute = np.array([[distance(a, b) for b in z] for a in z])
    found = outlines_alike(shapes)
    clear = abs(brute - 0.03) > 0.005  # resampling moves points a little
    np.testing.assert_array_equal(found[clear], (brute < 0.03)[clear])
    assert found[clear].any()
    assert not found[clear].all()


@pytest.mark.parametrize("mirrored", [False, True])
def test_copies_of_clouds_are_found(mirrored: bool) -> None:
    rng = np.random.default_rng(0)
    clouds = rng.normal(size=(8, 400, 3)) * rng.uniform(0.2, 2, (8, 1, 3))
    copy = (clouds[5] * [-1, 1, 1] if mirrored else clouds[5]) @ Turn.random(random_state=1).as_matrix().T
    alike = clouds_alike(np.concatenate([clouds, 700 * copy[None] + 3]).astype(np.float32))
    assert alike[5, 8]
    assert alike.sum() == 9 + 2


def test_degenerate_shapes_are_rejected() -> None:
    with pytest.raises(QubolearnError, match="outline"):
        outlines_alike([np.ones((5, 2))])
    with pytest.raises(QubolearnError, match="cloud"):
        clouds_alike(np.ones((2, 5, 3), np.float32))
