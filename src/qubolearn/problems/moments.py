"""Two planar point sets -> the moments of their neighbour pairs -> the QUBO matrix of the analytic method (AQM).

AQM (Golyanik and Theobalt, CVPR 2020) looks for the rotation R = Σ_k q_k Q_k that brings a template y to a reference
x, with bits q_k and the basis Q_k = w·C, w in {0.5, 0.2, 0.1, 0.1, 0.05}, C in {I, M, -I, -M}, M the quarter turn.
The cost Σ |x_n - R y_m|² over neighbour pairs (n, m) is qᵀPq, with q_0 fixed at 1 and P = ΦΦᵀ, where Φ stacks x_n over
-Q_k y_m. P is 21 x 21, but since the Q_k are multiples of C it holds only four different numbers: the means of |x|²,
|y|², x·y and y×x over the pairs.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from qubolearn.errors import QubolearnError

__all__ = ["BASIS", "PairMoments", "aqm_matrix", "check_clouds", "pair_features", "pair_moments"]

#: (cos, sin) parts of the 20 basis elements: R = c·I + s·M with c = Σ q_k BASIS[k, 0], s = Σ q_k BASIS[k, 1].
BASIS = torch.tensor(
    [
        (weight * cosine, weight * sine)
        for weight in (0.5, 0.2, 0.1, 0.1, 0.05)
        for cosine, sine in ((1, 0), (0, 1), (-1, 0), (0, -1))
    ]
)
CHUNK = 2048  # instances a thread takes at once


class PairMoments(NamedTuple):
    """Means over the neighbour pairs (x, y) of each instance."""

    xx: Tensor  # [batch], |x|²
    yy: Tensor  # [batch], |y|²
    dot: Tensor  # [batch], x·y
    cross: Tensor  # [batch], y×x = x·My; atan2(cross, dot) is the best rotation of y onto its neighbours
    x: Tensor  # [batch, 2]
    y: Tensor  # [batch, 2]


def check_clouds(template: Tensor, reference: Tensor, dimensions: int) -> None:
    """Raise unless both are ``[batch, points, dimensions]`` of one batch, not empty, and finite."""
    for name, cloud in (("template", template), ("reference", reference)):
        shape = list(cloud.shape)
        if cloud.ndim != 3 or shape[2] != dimensions or not cloud.dtype.is_floating_point:
            raise QubolearnError(
                f"{name} must be floating point [batch, points, {dimensions}], got {cloud.dtype} {shape}"
            )
        if shape[1] == 0:
            raise QubolearnError(f"{name} is empty, {shape}; want at least 1 point")
        if not bool(torch.isfinite(cloud).all()):
            raise QubolearnError(f"{name} holds coordinates that are not finite; remove those points")
    if len(template) != len(reference):
        raise QubolearnError(f"{len(template)} templates for {len(reference)} references; want one for each")


def pair_moments(
    template: Tensor,
    reference: Tensor,
    neighbours: int = 3,
    template_counts: Tensor | None = None,
    reference_counts: Tensor | None = None,
) -> PairMoments:
    """Moments of the pairs of each template point with its nearest reference points.

    Clouds are ``[batch, m, 2]`` and ``[batch, n, 2]``; where counts ``[batch]`` are given, only that many points of
    each are real. Neighbours are found on the CPU, about 70,000 outlines of 105 points a second and thread.
    """
    from qubolearn.problems.moments_numba import neighbour_sums

    batch, device = len(template), template.device
    y, y_counts = _planar(template, template_counts)
    x, x_counts = _planar(reference, reference_counts)
    if batch and not 1 <= neighbours <= x_counts.min():
        raise QubolearnError(
            f"neighbours={neighbours}, but a reference has {x_counts.min()} points; want 1 to that many"
        )
    out = np.empty((batch, 8))

    def work(start: int) -> None:
        rows = slice(start, start + CHUNK)
        neighbour_sums(y[rows], x[rows], y_counts[rows], x_counts[rows], neighbours, out[rows])

    if batch <= CHUNK:
        work(0)
    else:
        with ThreadPoolExecutor(torch.get_num_threads()) as threads:
            list(threads.map(work, range(0, batch, CHUNK)))
    sums = torch.from_numpy(out).to(device, torch.float32)
    xx, yy, dot, cross = sums[:, :4].unbind(1)
    return PairMoments(xx, yy, dot, cross, sums[:, 4:6], sums[:, 6:])


def _planar(cloud: Tensor, counts: Tensor | None) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.float32]], Any]:
    """``[batch, m, 2]`` -> ``[batch, 2, m]`` and counts, as numpy arrays."""
    batch, points, _ = cloud.shape
    planar = cloud.detach().to("cpu", torch.float32).mT.contiguous().numpy()
    if counts is None:
        return planar, np.full(batch, points)
    return planar, counts.to("cpu", torch.int64).contiguous().numpy()


def aqm_matrix(numbers: Tensor) -> Tensor:
    """(xx, yy, dot, cross) ``[..., 4]`` -> P ``[..., 21, 21]``, over the number of pairs; row 0 is the fixed qubit."""
    expansion = _expansion().to(numbers.device, numbers.dtype)
    return (numbers @ expansion).reshape(*numbers.shape[:-1], 21, 21)


def pair_features(numbers: Tensor) -> Tensor:
    """The same (xx, yy, dot, cross) ``[..., 4]`` as four numbers of like size ``[..., 4]``; they can be told back.

    The angle that turns the pairs onto each other, the logarithms of their mean squared distance and of |x|² over
    |y|², and that of |y|². The distance is a small difference of large entries of P, which costs a network that is
    given P many steps to find.
    """
    xx, yy, dot, cross = numbers.unbind(-1)
    distance = (xx - 2 * dot + yy).clamp_min(0) / yy
    return torch.stack([torch.atan2(cross, dot), (distance + 1e-4).log(), (xx / yy).log(), yy.log()], -1)


@cache
def _expansion() -> Tensor:
    """P as a linear function of (xx, yy, dot, cross): ``[4, 441]``."""
    P = torch.zeros(4, 21, 21)
    P[0, 0, 0] = 1
    P[1, 1:, 1:] = BASIS @ BASIS.T  # C_kᵀC_l is I, -I or a quarter turn, and y·My = 0
    P[2, 0, 1:] = P[2, 1:, 0] = -BASIS[:, 0]
    P[3, 0, 1:] = P[3, 1:, 0] = -BASIS[:, 1]
    return P.flatten(1)
