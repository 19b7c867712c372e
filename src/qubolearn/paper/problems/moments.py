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
from typing import NamedTuple

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
MAX_DISTANCES = 2**26  # held at once on a GPU


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
    each are real. On the CPU a thread takes about 70,000 outlines of 105 points a second.
    """
    counts = []
    for cloud, given in ((template, template_counts), (reference, reference_counts)):
        whole = torch.full((len(cloud),), cloud.shape[1], device=cloud.device)
        counts.append(whole if given is None else given.to(cloud.device, torch.int64))
    least = int(counts[1].min()) if len(template) else neighbours
    if not 1 <= neighbours <= least:
        raise QubolearnError(f"neighbours={neighbours}, but a reference has {least} points; want 1 to that many")
    means = _means_compiled if template.device.type == "cpu" else _means_torch
    sums = means(template.detach().float(), reference.detach().float(), counts[0], counts[1], neighbours)
    xx, yy, dot, cross = sums[:, :4].unbind(1)
    return PairMoments(xx, yy, dot, cross, sums[:, 4:6], sums[:, 6:])


def _means_compiled(y: Tensor, x: Tensor, y_counts: Tensor, x_counts: Tensor, k: int) -> Tensor:
    """The eight means of :class:`PairMoments` ``[batch, 8]``, by a numba kernel, in threads."""
    from qubolearn.paper.problems.moments_numba import neighbour_sums
    from qubolearn.solvers.contract import thread_count

    ys, xs = y.mT.contiguous().numpy(), x.mT.contiguous().numpy()
    y_sizes, x_sizes = y_counts.contiguous().numpy(), x_counts.contiguous().numpy()
    out = np.empty((len(y), 8))

    def work(start: int) -> None:
        rows = slice(start, start + CHUNK)
        neighbour_sums(ys[rows], xs[rows], y_sizes[rows], x_sizes[rows], k, out[rows])

    if len(y) <= CHUNK:
        work(0)
    else:
        with ThreadPoolExecutor(thread_count()) as threads:
            list(threads.map(work, range(0, len(y), CHUNK)))
    return torch.from_numpy(out).float()


def _means_torch(y: Tensor, x: Tensor, y_counts: Tensor, x_counts: Tensor, k: int) -> Tensor:
    """The same on any device; of equally near points another one may be taken."""
    batch, m, n = len(y), y.shape[1], x.shape[1]
    rows = max(1, MAX_DISTANCES // (m * n))
    if batch > rows:
        chunks = [slice(start, start + rows) for start in range(0, batch, rows)]
        return torch.cat([_means_torch(y[part], x[part], y_counts[part], x_counts[part], k) for part in chunks])
    distance = (y[:, :, None] - x[:, None]).square().sum(-1)  # [batch, m, n]; cdist loses digits
    unreal = torch.arange(n, device=y.device) >= x_counts[:, None]
    near = distance.masked_fill_(unreal[:, None], torch.inf).topk(k, largest=False).indices
    u, v = x.gather(1, near.flatten(1)[..., None].expand(-1, -1, 2)).reshape(batch, m, k, 2).unbind(-1)
    y0, y1 = (part.expand_as(u) for part in y[:, :, None].unbind(-1))
    pairs = torch.stack([u * u + v * v, y0 * y0 + y1 * y1, u * y0 + v * y1, v * y0 - u * y1, u, v, y0, y1], -1)
    real = torch.arange(m, device=y.device) < y_counts[:, None]
    return (pairs.mean(2) * real[..., None]).sum(1) / y_counts[:, None]


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
