"""Procrustes: the rotation that brings matched clouds closest, in closed form (Kabsch, with the determinant fix)."""

from __future__ import annotations

import torch
from torch import Tensor

from qubolearn.errors import QubolearnError

__all__ = ["procrustes"]


def procrustes(H: Tensor) -> Tensor:
    """argmax_R tr(RᵀH) over rotations, which is argmin_R Σ |x - R y|² for H = Σ x yᵀ: ``[batch, d, d]`` -> same shape.

    R = U diag(1, ..., 1, det(UVᵀ)) Vᵀ with H = U S Vᵀ: without the last factor, mirror images would be answers. Where
    H leaves the rotation open (points on one line, or all equal) one of the best is returned.

    >>> procrustes(torch.tensor([[[0.0, -2.0], [1.0, 0.0]]])).round().tolist()
    [[[0.0, -1.0], [1.0, 0.0]]]
    """
    if H.ndim != 3 or H.shape[1] != H.shape[2] or not H.dtype.is_floating_point:
        raise QubolearnError(f"covariances must be floating point [batch, d, d], got {H.dtype} {list(H.shape)}")
    if not bool(torch.isfinite(H).all()):
        raise QubolearnError("a covariance holds numbers that are not finite; look for such points in the clouds")
    U, _, Vh = torch.linalg.svd(H.double())
    sign = torch.ones_like(H[:, 0], dtype=torch.float64)
    sign[:, -1] = torch.linalg.det(U @ Vh)
    R: Tensor = (U * sign[:, None]) @ Vh
    return R.to(H.dtype)
