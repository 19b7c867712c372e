"""Alignments: the right answer brings the clouds onto each other, and the titles say what is left."""

from __future__ import annotations

import math

import pytest
import torch

from quant_reproduction.problems.angles import euler_matrix, rotation_2d
from quant_reproduction.problems.cloud_pictures import (
    misfit,
    planar_panels,
    spatial_panels,
    wrong_matches,
)
from quant_reproduction.problems.pointset import CloudPairs
from quant_reproduction.problems.rotation import MatchedClouds

ANGLES = torch.tensor([[0.3, -0.1, 0.2]])


def planar(angle: float) -> CloudPairs:
    points = torch.randn(1, 20, 2, generator=torch.Generator().manual_seed(0))
    points = points - points.mean(1, keepdim=True)
    padded = torch.cat([points, torch.zeros(1, 3, 2)], 1)
    turned = points @ rotation_2d(torch.tensor(angle)).mT
    return CloudPairs(padded, turned, torch.tensor([20]), torch.tensor([20]), torch.tensor([angle]))


def spatial(swap: bool = False) -> MatchedClouds:
    points = torch.randn(1, 30, 3, generator=torch.Generator().manual_seed(1))
    reference = points.clone()
    if swap:
        reference[0, [4, 9]] = points[0, [9, 4]]
    return MatchedClouds(points, reference @ euler_matrix(ANGLES).mT, ANGLES)


def test_planar_clouds_meet_after_the_true_angle_and_padding_is_not_drawn() -> None:
    before, after = planar_panels(planar(0.5), 0, torch.tensor(0.5))
    assert len(before.template) == len(after.reference) == 20
    assert torch.allclose(after.reference, after.template, atol=1e-6)
    assert not torch.allclose(before.reference, before.template, atol=0.1)
    assert before.title == f"turned by {math.degrees(0.5):.1f}°"
    assert after.title == "turned back, 0.0° left"
    assert planar_panels(planar(0.5), 0, torch.tensor(0.5 - math.radians(12)))[1].title == "turned back, 12.0° left"


def test_stages_undo_one_angle_after_the_other() -> None:
    first, alpha, beta, gamma = spatial_panels(spatial(), 0, ANGLES[0])
    assert torch.allclose(gamma.reference, gamma.template, atol=1e-5)
    assert gamma.title.endswith("0.0° left")
    assert beta.title == f"α, β undone, {math.degrees(0.2):.1f}° left"  # only the turn by gamma about one axis is left
    without_alpha = first.template @ euler_matrix(ANGLES[0] * torch.tensor([0, 1, 1])).mT
    assert torch.allclose(alpha.reference, without_alpha, atol=1e-5)
    assert len(spatial_panels(spatial(), 0, ANGLES[0], stages=False)) == 2


def test_wrong_matches_are_those_that_were_swapped() -> None:
    assert wrong_matches(spatial())[0].sum() == 0
    assert wrong_matches(spatial(swap=True))[0].nonzero()[:, 0].tolist() == [4, 9]


def test_misfit_of_a_square_does_not_see_a_quarter_turn() -> None:
    square = torch.tensor([[1.0, 1], [1, -1], [-1, 1], [-1, -1]])
    assert misfit(square, square @ rotation_2d(torch.tensor(math.pi / 2))) == pytest.approx(0, abs=1e-6)
    # After 45 degrees each corner is at (√2, 0) or the like, next to two corners of an extent of 2.
    expected = math.hypot(math.sqrt(2) - 1, 1) / 2
    assert misfit(square, square @ rotation_2d(torch.tensor(math.pi / 4))) == pytest.approx(expected, rel=1e-5)
