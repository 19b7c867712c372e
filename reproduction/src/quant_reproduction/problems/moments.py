"""Moments of the neighbor pairs of two planar point sets, and the QUBO matrix of the analytic method (AQM).

AQM (Golyanik and Theobalt, CVPR 2020) finds the rotation R = Σ_k q_k Q_k that brings a template y to a reference
x, with bits q_k and the basis Q_k = w·C, w in {0.5, 0.2, 0.1, 0.1, 0.05}, C in {I, M, -I, -M}, M the quarter turn.
The cost Σ |x_n - R y_m|² over neighbor pairs (n, m) is qᵀPq, with q_0 fixed at 1 and P = ΦΦᵀ, where Φ stacks x_n over
-Q_k y_m. P is 21 x 21, but since the Q_k are multiples of C it has only four different numbers: the means of |x|²,
|y|², x·y and y×x over the pairs.
"""

from __future__ import annotations

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
CHUNK = 32  # instances per chunk on the CPU
MAX_DISTANCES = 2**26  # per chunk on a GPU
Array = np.ndarray[Any, Any]


class PairMoments(NamedTuple):
    """Means over the neighbor pairs (x, y) of each instance."""

    xx: Tensor  # [batch], |x|²
    yy: Tensor  # [batch], |y|²
    dot: Tensor  # [batch], x·y
    cross: Tensor  # [batch], y×x = x·My; atan2(cross, dot) is the best rotation of y onto its neighbours
    x: Tensor  # [batch, 2]
    y: Tensor  # [batch, 2]


def check_clouds(template: Tensor, reference: Tensor, dimensions: int) -> None:
    """Raise unless both are finite and not empty: ``[batch, points, dimensions]``."""
    for name, cloud in (("template", template), ("reference", reference)):
        shape = list(cloud.shape)
        if cloud.ndim != 3 or shape[2] != dimensions or not cloud.dtype.is_floating_point:
            raise QubolearnError(f"expected {name} [batch, points, {dimensions}] in floats, got {cloud.dtype} {shape}")
        if shape[1] == 0 or not bool(torch.isfinite(cloud).all()):
            raise QubolearnError(f"expected finite coordinates and at least 1 point in {name}, got {shape}")
    if len(template) != len(reference):
        raise QubolearnError(f"expected as many templates as references, got {len(template)} and {len(reference)}")


def pair_moments(
    template: Tensor,
    reference: Tensor,
    neighbors: int = 3,
    template_counts: Tensor | None = None,
    reference_counts: Tensor | None = None,
) -> PairMoments:
    """Return the moments of the pairs of each template point with its nearest reference points.

    Clouds are ``[batch, m, 2]`` and ``[batch, n, 2]``; only the first ``counts`` ``[batch]`` points of each are real.
    """
    counts = []
    for cloud, given in ((template, template_counts), (reference, reference_counts)):
        whole = torch.full((len(cloud),), cloud.shape[1], device=cloud.device)
        counts.append(whole if given is None else given.to(cloud.device, torch.int64))
    fewest = int(counts[1].min()) if len(template) else neighbors
    if not 1 <= neighbors <= fewest:
        raise QubolearnError(f"expected 1 to {fewest} neighbors, the points of a reference, got {neighbors}")
    means = _means_numpy if template.device.type == "cpu" else _means_torch
    sums = means(template.detach().float(), reference.detach().float(), counts[0], counts[1], neighbors)
    xx, yy, dot, cross = sums[:, :4].unbind(1)
    return PairMoments(xx, yy, dot, cross, sums[:, 4:6], sums[:, 6:])


def _means_numpy(y: Tensor, x: Tensor, y_counts: Tensor, x_counts: Tensor, k: int) -> Tensor:
    """Return the eight means of :class:`PairMoments`, ``[batch, 8]``, in chunks that fit the cache."""
    arrays = [tensor.numpy() for tensor in (y, x, y_counts, x_counts)]
    rows = [slice(start, start + CHUNK) for start in range(0, len(y), CHUNK)]
    means = [_chunk_means(k, *(array[part] for array in arrays)) for part in rows]
    return torch.from_numpy(np.concatenate([*means, np.empty((0, 8), np.float32)])).float()


def _chunk_means(k: int, y: Array, x: Array, y_counts: Array, x_counts: Array) -> Array:
    y, x = y[:, : y_counts.max()], x[:, : x_counts.max()]
    x = np.where((np.arange(x.shape[1]) < x_counts[:, None])[..., None], x, np.inf)
    rows, points = np.ogrid[: len(y), : y.shape[1]]
    distance = (y[:, :, None, 0] - x[:, None, :, 0]) ** 2
    distance += (y[:, :, None, 1] - x[:, None, :, 1]) ** 2
    y0, y1 = y[..., 0], y[..., 1]
    total = np.zeros((*y.shape[:2], 8), np.float32)
    for _ in range(k):
        nearest = distance.argmin(2)
        distance[rows, points, nearest] = np.inf
        u, v = np.moveaxis(x[rows, nearest], -1, 0)
        total += np.stack([u * u + v * v, y0 * y0 + y1 * y1, u * y0 + v * y1, v * y0 - u * y1, u, v, y0, y1], -1)
    total[np.arange(y.shape[1]) >= y_counts[:, None]] = 0
    means: Array = total.sum(1) / (k * y_counts[:, None])
    return means


def _means_torch(y: Tensor, x: Tensor, y_counts: Tensor, x_counts: Tensor, k: int) -> Tensor:
    """Return the same on a GPU; among equally near points the choice may differ."""
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
    """Return P ``[..., 21, 21]`` for (xx, yy, dot, cross) ``[..., 4]``; row 0 is the fixed qubit."""
    expansion = _expansion().to(numbers.device, numbers.dtype)
    return (numbers @ expansion).reshape(*numbers.shape[:-1], 21, 21)


def pair_features(numbers: Tensor) -> Tensor:
    """Transform (xx, yy, dot, cross) ``[..., 4]`` to four numbers of similar size ``[..., 4]``, without loss.

    They are the angle that aligns the pairs, and the logarithms of their mean squared distance, of |x|² over |y|², and
    of |y|². The distance is a small difference of large entries of P, which a network needs many steps to find.
    """
    xx, yy, dot, cross = numbers.unbind(-1)
    distance = (xx - 2 * dot + yy).clamp_min(0) / yy
    return torch.stack([torch.atan2(cross, dot), (distance + 1e-4).log(), (xx / yy).log(), yy.log()], -1)


@cache
def _expansion() -> Tensor:
    """Return P as a linear function of (xx, yy, dot, cross): ``[4, 441]``."""
    P = torch.zeros(4, 21, 21)
    P[0, 0, 0] = 1
    P[1, 1:, 1:] = BASIS @ BASIS.T  # C_kᵀC_l is I, -I or a quarter turn, and y·My = 0
    P[2, 0, 1:] = P[2, 1:, 0] = -BASIS[:, 0]
    P[3, 0, 1:] = P[3, 1:, 0] = -BASIS[:, 1]
    return P.flatten(1)
