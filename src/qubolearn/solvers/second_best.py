"""x⁺ from x*: the second-best state differs from the best in some bit, so flip each bit in turn and descend."""

from __future__ import annotations

import torch
from torch import Tensor

from qubolearn.solvers.contract import with_neighbours

__all__ = ["clamped_descents", "with_second_best"]


def with_second_best(A: Tensor, states: Tensor) -> Tensor:
    """States ``[batch, c, n]``, the best of each batch first, and what completes x⁺: ``[batch, c + 2n + 1, n]``."""
    best = states[:, 0]
    return torch.cat([with_neighbours(states, best), clamped_descents(A, best).to(best.dtype)], dim=1)


def clamped_descents(A: Tensor, best: Tensor) -> Tensor:
    """Row i: from best ``[batch, n]`` flip bit i, then steepest descent over the other bits: ``[batch, n, n]``.

    x⁺ = argmin over i of min {E(x) : x_i ≠ x*_i}. The descent answers the inner minimum heuristically, and its
    rows are never worse than the neighbours of x* that they start from.
    """
    n = best.shape[-1]
    A = A.to(torch.float64)
    S = A + A.mT
    S = S - torch.diag_embed(S.diagonal(dim1=-2, dim2=-1))
    linear = A.diagonal(dim1=-2, dim2=-1)[:, None]
    eye = torch.eye(n, dtype=torch.float64, device=A.device)
    x = (best.to(A.device, torch.float64)[:, None] - eye).abs()
    for _ in range(4 * n):  # far more than a descent takes; bounded because rounding could make it cycle
        gain = (1 - 2 * x) * (linear + x @ S)  # [batch, n, n]: change of energy when bit j of row i flips
        gain = gain.masked_fill(eye.bool(), 0.0)
        lowest, flip = gain.min(dim=-1)
        if not bool((lowest < 0).any()):
            break
        flips = torch.nn.functional.one_hot(flip, n) * (lowest < 0)[..., None]
        x = (x - flips).abs()
    return x
