"""Euler angles one after the other: a stage finds one angle and undoes it before the next one looks.

R = R_z(α) R_y(β) R_x(γ). With H = Σ x yᵀ and x = R y, R_z(α)ᵀH is the covariance of the same clouds with α = 0. So the
re-encoding between stages is a function of the covariance alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.paper.problems.angles import rotation_3d

__all__ = ["STAGES", "Stage", "advance", "cross_covariance", "euler_matrix", "joint_covariance", "solve_stages"]

Stage = Literal["alpha", "beta", "gamma", "all"]
STAGES: tuple[Stage, ...] = ("alpha", "beta", "gamma")
AXES = {"alpha": 2, "beta": 1, "gamma": 0}


def euler_matrix(angles: Tensor) -> Tensor:
    """R_z(α) R_y(β) R_x(γ): angles ``[..., 3]`` -> ``[..., 3, 3]``."""
    alpha, beta, gamma = angles.unbind(-1)
    return rotation_3d(alpha, 2) @ rotation_3d(beta, 1) @ rotation_3d(gamma, 0)


def cross_covariance(p: Tensor) -> Tensor:
    """H = Σ x yᵀ up to scale, ``[batch, 3, 3]``, of p ``[batch, 9 or 36]``; what Procrustes starts from."""
    if p.ndim != 2 or p.shape[1] not in (9, 36):
        raise QubolearnError(f"p of rotation is [batch, 9] or [batch, 36], got {list(p.shape)}")
    return p.reshape(-1, 3, 3) if p.shape[1] == 9 else p.reshape(-1, 6, 6)[:, :3, 3:]


def advance(p: Tensor, stage: Stage, angle: Tensor) -> Tensor:
    """p ``[batch, 9 or 36]`` of the same clouds after undoing one stage's angle ``[batch]``.

    With Q = R_stage(angle)ᵀ: QH, and for the joint covariance BJBᵀ, where B = diag(Q, I) turns x and leaves y.
    """
    H = cross_covariance(p)
    Q = rotation_3d(angle.to(p), AXES[stage]).mT
    if p.shape[1] == 9:
        return (Q @ H).flatten(1)
    J = p.reshape(-1, 6, 6)
    return joint_covariance(Q @ J[:, :3, :3] @ Q.mT, Q @ H, J[:, 3:, 3:]).flatten(1)


def solve_stages(predictors: Sequence[Callable[[Tensor], Tensor]], p: Tensor) -> Tensor:
    """α, β, γ one after the other, ``[batch, 3]``; each predictor takes p ``[batch, m]`` to its angle ``[batch]``."""
    if len(predictors) != len(STAGES):
        raise QubolearnError(f"{len(predictors)} predictors; want three, for {', '.join(STAGES)}")
    angles = []
    for stage, predict in zip(STAGES, predictors, strict=True):
        angles.append(predict(p))
        p = advance(p, stage, angles[-1])
    return torch.stack(angles, 1)


def joint_covariance(Cxx: Tensor, Cxy: Tensor, Cyy: Tensor) -> Tensor:
    """Three blocks ``[batch, 3, 3]`` -> ``[batch, 6, 6]``."""
    return torch.cat([torch.cat([Cxx, Cxy], 2), torch.cat([Cxy.mT, Cyy], 2)], 1)
