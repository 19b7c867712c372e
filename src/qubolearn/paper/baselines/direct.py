"""Direct: the quadratic assignment problem given by W, solved by looking at every permutation."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.problems.encodings import all_permutations

__all__ = ["assignment_energies", "assignment_size", "direct"]

MAX_K = 8
#: Energies held at once, so that memory stays near 32 MB in float32 whatever the batch.
MAX_ENERGIES = 2**23


def direct(W: Tensor) -> Tensor:
    """argmin_P Σ_ij W[(i, P(i)), (j, P(j))] for W ``[batch, k², k²]`` -> P ``[batch, k]``, int64.

    Row k·i + a of W speaks of "node i goes to node a". Of equally good permutations any one may be returned.
    Cost: k! states; k = 8 takes milliseconds per instance.

    >>> W = torch.ones(1, 4, 4)
    >>> W[0, 1, 2] = W[0, 2, 1] = -1.0  # 0 -> 1 together with 1 -> 0
    >>> direct(W).tolist()
    [[1, 0]]
    """
    k = assignment_size(W)
    if k > MAX_K:
        raise QubolearnError(
            f"direct search over permutations of k={k} looks at {math.factorial(k)} states "
            f"(limit k={MAX_K}, {math.factorial(MAX_K)}); use a QGM baseline with an annealer"
        )
    P = all_permutations(k).to(W.device)
    step = max(1, MAX_ENERGIES // len(P))
    best = [assignment_energies(part, P).argmin(1) for part in torch.split(W, step)]
    return P[torch.cat(best)] if best else P[:0]


def assignment_energies(W: Tensor, P: Tensor) -> Tensor:
    """Σ_ij W[(i, P(i)), (j, P(j))] of each P ``[count, k]``: W ``[batch, k², k²]`` -> ``[batch, count]``."""
    k = assignment_size(W)
    pairs = W.reshape(-1, k, k, k, k)  # [batch, i, a, j, b]
    total = W.new_zeros(len(W), len(P))
    for i in range(k):
        for j in range(i, k):
            weight = pairs[:, i, :, j, :] + (pairs[:, j, :, i, :].mT if i < j else 0)  # [batch, a, b]
            total += weight.reshape(-1, k * k).index_select(1, P[:, i] * k + P[:, j])
    return total


def assignment_size(W: Tensor) -> int:
    """k of a batch of weights ``[batch, k², k²]``; raises where W is not square, k² is no square, or not finite."""
    shape = list(W.shape)
    if W.ndim != 3 or shape[1] != shape[2]:
        raise QubolearnError(f"W must be square, [batch, k², k²], got {shape}")
    k = math.isqrt(shape[2])
    if k < 2 or k * k != shape[2]:
        raise QubolearnError(f"W must have k² rows with k >= 2, got {shape[2]} rows, which is no such square")
    if not W.dtype.is_floating_point or not bool(torch.isfinite(W).all()):
        raise QubolearnError(f"W must hold finite floating point numbers, got {W.dtype}; look for NaN in the features")
    return k
