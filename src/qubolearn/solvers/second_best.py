"""From the reads of any sampler to the ``count`` lowest states around them: what completes x⁺, in torch.

x⁺ differs from x* in some bit, so flip each bit of x* in turn and descend with that bit held; and without ties x⁺ is
a neighbour of x* or a local minimum, so the neighbours of x* are candidates too.
"""

from __future__ import annotations

from itertools import combinations

import torch
from torch import Tensor

__all__ = ["clamped_descents", "neighbourhood", "with_second_best"]


def with_second_best(A: Tensor, states: Tensor, count: int) -> Tensor:
    """States ``[batch, c, n]``, the best of each QUBO first, and what completes them to ``count`` distinct ones."""
    best = states[:, 0]
    nearby = (best[:, None] - neighbourhood(best.shape[-1], count).to(best)).abs()
    return torch.cat([states, nearby, clamped_descents(A, best).to(best.dtype)], dim=1)


def neighbourhood(n: int, count: int) -> Tensor:
    """All masks ``[m, n]`` of at most r flips, r >= 1 as small as gives ``count`` of them; int8.

    >>> neighbourhood(3, 2).tolist()
    [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    """
    flips: list[tuple[int, ...]] = [()]
    radius = 0
    while radius < 1 or (len(flips) < count and radius < n):
        radius += 1
        flips.extend(combinations(range(n), radius))
    masks = torch.zeros(len(flips), n, dtype=torch.int8)
    for row, bits in enumerate(flips):
        masks[row, list(bits)] = 1
    return masks


def clamped_descents(A: Tensor, best: Tensor) -> Tensor:
    """Row i: from best ``[batch, n]`` flip bit i, then steepest descent over the other bits: ``[batch, n, n]``.

    x⁺ = argmin over i of min {E(x) : x_i ≠ x*_i}. The descent answers the inner minimum heuristically, and its
    rows are never worse than the neighbours of x* that they start from.
    """
    n = best.shape[-1]
    A = A.to(torch.float64)
    linear = A.diagonal(dim1=-2, dim2=-1)[:, None]
    couplings = A + A.mT - 2 * torch.diag_embed(linear[:, 0])
    eye = torch.eye(n, dtype=torch.float64, device=A.device)
    x = (best.to(A.device, torch.float64)[:, None] - eye).abs()
    for _ in range(4 * n):  # far more than a descent takes; bounded because rounding could make it cycle
        change = (1 - 2 * x) * (linear + x @ couplings)  # [batch, n, n]: of the energy when bit j of row i flips
        lowest, flip = change.masked_fill(eye.bool(), 0.0).min(dim=-1)
        if not bool((lowest < 0).any()):
            break
        flips = torch.nn.functional.one_hot(flip, n) * (lowest < 0)[..., None]
        x = (x - flips).abs()
    return x
