"""Exact log-partition functions and pair marginals of the Boltzmann distribution of a QUBO."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.qubo import check_qubo
from qubolearn.solvers.exhaustive_torch import log_partition_and_marginals

__all__ = ["log_partition", "pair_marginals"]

MAX_BITS = 24


def log_partition(A: Tensor, beta: float = 1.0) -> Tensor:
    """log Σ_x exp(-β xᵀAx) over all x in {0, 1}ⁿ, ``[batch]`` for A ``[batch, n, n]``, differentiable in A.

    ∂/∂A_ij = -β E[x_i x_j] under p(x) ∝ exp(-β xᵀAx), for every entry of A by itself. The marginals come out
    of the same pass over all states, so the backward pass costs next to nothing; it cannot be differentiated again.

    >>> A = torch.zeros(1, 3, 3)
    >>> round(log_partition(A).exp().item(), 3)
    8.0
    """
    result: Tensor = _LogPartition.apply(A, beta)  # type: ignore[no-untyped-call]
    return result


def pair_marginals(A: Tensor, beta: float = 1.0) -> Tensor:
    """E[x_i x_j] under p(x) ∝ exp(-β xᵀAx), ``[batch, n, n]``, symmetric; E[x_i] on the diagonal."""
    return _solve(A.detach(), beta)[1]


class _LogPartition(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, A: Tensor, beta: float) -> Tensor:
        value, marginals = _solve(A.detach(), beta)
        ctx.save_for_backward(marginals)
        ctx.beta = beta
        return value

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (marginals,) = ctx.saved_tensors
        return -ctx.beta * grad[:, None, None] * marginals, None


def _solve(A: Tensor, beta: float) -> tuple[Tensor, Tensor]:
    check_qubo(A)
    n = A.shape[2]
    if n > MAX_BITS:
        raise QubolearnError(f"the exact partition function of n={n} bits sums 2**{n} states (limit 2**{MAX_BITS})")
    wide = A if A.dtype == torch.float64 else A.to(torch.float32)
    value, marginals = log_partition_and_marginals(wide, beta)
    return value.to(A.dtype), marginals.to(A.dtype)
