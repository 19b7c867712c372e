"""Iterative closest point in the plane (Besl and McKay, 1992; Lu and Milios, 1997), for batches of point sets."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.paper.problems.angles import rotation_2d
from qubolearn.paper.problems.moments import check_clouds, pair_moments

__all__ = ["icp"]


def icp(
    template: Tensor,
    reference: Tensor,
    template_counts: Tensor | None = None,
    reference_counts: Tensor | None = None,
    starts: Sequence[float] = (0.0,),
    translation: bool = False,
    iterations: int = 100,
) -> Tensor:
    """The angle ``[batch]`` by which templates ``[batch, m, 2]`` turn onto references ``[batch, n, 2]``, in (-π, π].

    Each template point is matched with its nearest reference point, the best rotation about the origin (or the best
    rotation and shift) of these matches is applied, and so on until no angle moves. Of several starting angles the
    one that ends with the smallest mean squared distance wins. Where counts ``[batch]`` are given, only that many
    points of each cloud are real. Clouds should be centred.

    >>> line = torch.tensor([[[1.0, 0.0], [-1.0, 0.0], [2.0, 0.0]]])
    >>> round(math.degrees(icp(line, line @ rotation_2d(torch.tensor(0.2)).mT)), 2)
    11.46
    """
    check_clouds(template, reference, 2)
    if not starts or iterations < 1:
        raise QubolearnError(f"{len(starts)} starts and {iterations} iterations; want at least 1 of each")
    best_angle = best_distance = template.new_zeros(0)
    for start in starts:
        angle, distance = _descend(
            template, reference, template_counts, reference_counts, start, translation, iterations
        )
        if not len(best_angle):
            best_angle, best_distance = angle, distance
        better = distance < best_distance
        best_angle = torch.where(better, angle, best_angle)
        best_distance = torch.where(better, distance, best_distance)
    return math.pi - torch.remainder(math.pi - best_angle, 2 * math.pi)


def _descend(
    template: Tensor,
    reference: Tensor,
    template_counts: Tensor | None,
    reference_counts: Tensor | None,
    start: float,
    translation: bool,
    iterations: int,
) -> tuple[Tensor, Tensor]:
    """Angles and mean squared distances ``[batch]`` from one starting angle."""
    batch = len(template)
    angle = torch.full((batch,), start, dtype=torch.float64, device=template.device)
    shift = torch.zeros(batch, 2, dtype=torch.float64, device=template.device)
    distance = torch.zeros_like(angle)
    moving = torch.arange(batch, device=template.device)
    for _ in range(iterations):
        if not len(moving):
            break
        turned = (template[moving].double() @ rotation_2d(angle[moving]).mT + shift[moving, None]).to(template.dtype)
        counts = [None if count is None else count[moving] for count in (template_counts, reference_counts)]
        m = pair_moments(turned, reference[moving], 1, *counts)
        dot, cross = m.dot.double(), m.cross.double()
        if translation:  # the best rotation is about the means of the matches
            dot = dot - (m.x * m.y).sum(1)
            cross = cross - (m.x[:, 1] * m.y[:, 0] - m.x[:, 0] * m.y[:, 1])
        turn = torch.atan2(cross, dot)
        distance[moving] = (m.xx - 2 * m.dot + m.yy).double()
        angle[moving] += turn
        if translation:
            spin = rotation_2d(turn)
            old = shift[moving] - m.y
            shift[moving] = (spin @ old[..., None])[..., 0] + m.x
        moved = turn.abs() > 1e-6
        moving = moving[moved]
    return angle, distance
