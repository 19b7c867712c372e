"""Aligned point clouds in 2D and 3D, step by step: the reference is rotated back onto the template."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from quant_reproduction.problems.angles import euler_matrix, geodesic_so2, geodesic_so3, rotation_2d
from quant_reproduction.problems.pointset import CloudPairs
from quant_reproduction.problems.rotation import MatchedClouds

__all__ = ["Panel", "misfit", "planar_panels", "spatial_panels", "wrong_matches"]

#: Clouds have a radius of about 1; matched points further apart than this after the true rotation are a wrong match.
SAME_POINT = 1e-3


class Panel(NamedTuple):
    """Two overlaid clouds."""

    template: Tensor  # [m, d], d = 2 or 3
    reference: Tensor  # [n, d]
    title: str
    wrong: Tensor  # [n], bool: which points of the reference have a wrong match


def planar_panels(pairs: CloudPairs, index: int, angle: Tensor) -> tuple[Panel, Panel]:
    """Return pair ``index`` before and after rotating the reference back by the predicted angle ``[]``."""
    template = pairs.template[index, : pairs.template_counts[index]]
    reference = pairs.reference[index, : pairs.reference_counts[index]]
    error = geodesic_so2(angle, pairs.angle[index]).item()
    none = torch.zeros(len(reference), dtype=torch.bool)
    return (
        Panel(template, reference, f"turned by {torch.rad2deg(pairs.angle[index]).item():.1f}°", none),
        Panel(template, reference @ rotation_2d(angle), f"turned back, {error:.1f}° left", none),
    )


def spatial_panels(clouds: MatchedClouds, index: int, angles: Tensor, stages: bool = True) -> list[Panel]:
    """Return clouds ``index`` before and after undoing α, β and γ ``[3]`` in turn, or all at once without stages."""
    template, reference = clouds.template[index], clouds.reference[index]
    wrong = wrong_matches(clouds)[index]
    R = euler_matrix(clouds.angles[index])
    panels = [Panel(template, reference, f"turned by {geodesic_so3(R, torch.eye(3)).item():.1f}°", wrong)]
    for count in (1, 2, 3) if stages else (3,):
        undone = euler_matrix(angles * (torch.arange(3) < count))  # x = R y, so a row xᵀ becomes xᵀ · undone
        title = f"{', '.join('αβγ'[:count])} undone, {geodesic_so3(R, undone).item():.1f}° left"
        panels.append(Panel(template, reference @ undone, title, wrong))
    return panels


def wrong_matches(clouds: MatchedClouds) -> Tensor:
    """Return which points of the references have a wrong match: ``[batch, points]``, bool."""
    own = clouds.template @ euler_matrix(clouds.angles).mT
    return (clouds.reference - own).square().sum(-1) > SAME_POINT**2


def misfit(template: Tensor, reference: Tensor) -> float:
    """Return the mean distance of points ``[n, d]`` to the template ``[m, d]``, relative to the template's extent."""
    extent = (template.amax(0) - template.amin(0)).amax()
    return (torch.cdist(reference, template).amin(1).mean() / extent).item()
