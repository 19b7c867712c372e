"""Exact log-partition functions and pair marginals of the Boltzmann distribution of a QUBO."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from qubolearn.errors import NonFiniteError, QubolearnError
from qubolearn.kernels import exhaustive_cpu, exhaustive_torch, exhaustive_triton
from qubolearn.kernels.exhaustive_torch import log_partition_and_marginals as log_partition_over
from qubolearn.qubo import (
    Clamp,
    Groups,
    Qubo,
    Reduced,
    SparseQubo,
    as_clamp,
    as_dense,
    as_groups,
    check_qubo,
    forced,
    not_capturing,
    reduced,
)
from qubolearn.qubo.checks import check_plain
from qubolearn.solvers.eager import eager
from qubolearn.solvers.exhaustive import GROUPS_BITS, allowed_states

__all__ = ["log_partition", "log_partition_and_marginals", "pair_marginals"]

#: From this n on the Triton kernel is faster than plain torch.
TRITON_BITS = 15

#: The largest n: a sum over 2**30 states takes about 0.2 s on one thread of a CPU.
MAX_BITS = 30


@eager
def log_partition(A: Qubo, beta: float = 1.0, *, clamp: Clamp | None = None, groups: Groups | None = None) -> Tensor:
    """log Σ_x exp(-β xᵀAx) over all x in {0, 1}ⁿ, ``[batch]`` for A ``[batch, n, n]`` or sparse, differentiable in A.

    Args:
        A: QUBOs ``[batch, n, n]``, or sparse ones, which become dense.
        beta: β, the inverse temperature; any finite number.
        clamp, groups: as in :func:`qubolearn.solve`; only the states that they allow are summed.

    Raises:
        QubolearnError: where there are too many states to sum, A is not finite, or log Z overflows A's dtype.

    ∂/∂A_ij = -β E[x_i x_j] under p(x) ∝ exp(-β xᵀAx), for every entry of A by itself. The marginals come out
    of the same pass over all states, so the backward pass costs next to nothing. A second derivative
    costs four more passes and has about nine digits; there is no third.

    The result has A's dtype. In float32 energies are rounded, so that marginals are good to about 1e-6 where β E is
    of order 10; where β Σ|A_ij| is in the thousands, the CPU sums in float64, a GPU in float32 all the same.

    With ``clamp`` or ``groups`` the number of allowed states counts against the limit.

    >>> A = torch.zeros(1, 3, 3)
    >>> round(log_partition(A).exp().item(), 3)
    8.0
    >>> round(log_partition(A, clamp={0: 1}, groups=Groups([[1, 2]])).exp().item(), 3)
    2.0
    """
    _check_size(A, clamp, groups)
    result: Tensor = _LogPartition.apply(as_dense(A), beta, clamp, groups)[0]  # type: ignore[no-untyped-call]
    return result


@eager
def pair_marginals(A: Qubo, beta: float = 1.0, *, clamp: Clamp | None = None, groups: Groups | None = None) -> Tensor:
    """E[x_i x_j] under p(x) ∝ exp(-β xᵀAx), ``[batch, n, n]``, symmetric; E[x_i] on the diagonal.

    Args:
        A: QUBOs ``[batch, n, n]``, or sparse ones.
        beta: β, the inverse temperature.
        clamp, groups: as in :func:`qubolearn.solve`; p(x) is over the states that they allow.

    Raises:
        QubolearnError: as :func:`log_partition`.

    >>> pair_marginals(torch.zeros(1, 2, 2))
    tensor([[[0.5000, 0.2500],
             [0.2500, 0.5000]]])
    """
    _check_size(A, clamp, groups)
    return log_partition_and_marginals(as_dense(A).detach(), beta, clamp, groups)[1]


class _LogPartition(torch.autograd.Function):
    """log Z ``[batch]`` and E[x xᵀ]; only log Z has a gradient."""

    @staticmethod
    def forward(A: Tensor, beta: float, clamp: Clamp | None, groups: Groups | None) -> tuple[Tensor, Tensor]:
        return log_partition_and_marginals(A.detach(), beta, clamp, groups)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        A, *ctx.rest = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(A, output[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor, None, None, None]:
        A, marginals = ctx.saved_tensors
        if torch.is_grad_enabled():
            marginals = _Marginals.apply(A, marginals, *ctx.rest)  # type: ignore[no-untyped-call]
        return -ctx.rest[0] * grad[:, None, None] * marginals, None, None, None


class _Marginals(torch.autograd.Function):
    """The marginals that are there already, as a function of A."""

    @staticmethod
    def forward(A: Tensor, marginals: Tensor, beta: float, clamp: Clamp | None, groups: Groups | None) -> Tensor:
        return marginals.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        A, _, *ctx.rest = inputs
        ctx.save_for_backward(A)

    @staticmethod
    def backward(ctx: Any, V: Tensor) -> tuple[Tensor, None, None, None, None]:
        if torch.is_grad_enabled():
            raise QubolearnError("log_partition has first and second derivatives; call the last backward without graph")
        (A,) = ctx.saved_tensors
        return _marginals_along(A.double(), V.double(), *ctx.rest).to(A.dtype), None, None, None, None


def _marginals_along(A: Tensor, V: Tensor, beta: float, clamp: Clamp | None, groups: Groups | None) -> Tensor:
    """d/dε E[x xᵀ] of A + εV at ε = 0, which is -β times the covariance of x xᵀ with xᵀVx: ``[batch, n, n]``, float64.

    Differences of fourth order, with steps that move no exponent by more than 0.008.
    """
    reach = abs(beta) * V.abs().sum((1, 2))
    step = 4e-3 / torch.where(reach > 0, reach, 1.0)[:, None, None]

    def at(steps: int) -> Tensor:
        return log_partition_and_marginals(A + steps * step * V, beta, clamp, groups)[1]

    return (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * step)


def log_partition_and_marginals(
    A: Tensor, beta: float, clamp: Clamp | None = None, groups: Groups | None = None
) -> tuple[Tensor, Tensor]:
    """:func:`log_partition` and :func:`pair_marginals` of one pass over all states, without a gradient."""
    check_qubo(A)
    if not math.isfinite(beta):
        raise QubolearnError(f"beta={beta} must be finite")
    if A.shape[0] == 0:
        return A.new_zeros(0), torch.zeros_like(A)
    if clamp is None and groups is None:
        value, marginals = _sums(A, beta)
    else:
        value, marginals = _constrained_sums(A, beta, as_clamp(clamp, *A.shape[:2]), as_groups(groups))
    value = value.to(A.dtype)
    if not_capturing(A) and not bool(value.isfinite().all()):
        largest = float(A.abs().amax())
        raise NonFiniteError(f"log Z overflows {A.dtype} at beta={beta} and |A_ij| up to {largest:.1e}; divide A by it")
    return value, marginals.to(A.dtype)


def _constrained_sums(A: Tensor, beta: float, clamp: Tensor, groups: Groups) -> tuple[Tensor, Tensor]:
    """Sums over the states that clamp ``[batch, n]`` and groups allow, in float64."""
    value = torch.zeros(len(A), dtype=torch.float64, device=A.device)
    marginals = torch.zeros(A.shape, dtype=torch.float64, device=A.device)
    for part in reduced(A.double(), forced(clamp, groups), groups):
        small = as_dense(part.A)
        if small.shape[2] == 0:
            log_z, inner = torch.zeros_like(part.offset), small
        elif len(part.groups):
            # `reduced` sorts bits by group
            log_z, inner = log_partition_over(small, beta, allowed_states(small, part.groups, GROUPS_BITS))
        else:
            log_z, inner = _sums(small, beta)
        rows = part.rows.to(A.device)
        value[rows] = log_z - beta * part.offset
        marginals[rows] = _whole(part, inner)
    return value, marginals


def _whole(part: Reduced, inner: Tensor) -> Tensor:
    """E[x xᵀ] ``[b, n, n]`` of all bits from that of the free ones ``[b, f, f]``."""
    means = part.expand(inner.diagonal(dim1=1, dim2=2)[:, None])[:, 0]  # clamped bits are their values
    whole = means[:, :, None] * means[:, None]  # right wherever one of the two bits is clamped
    bits = part.bits.to(inner.device)
    instance = torch.arange(len(bits), device=inner.device)[:, None, None]
    whole[instance, bits[:, :, None], bits[:, None]] = inner
    return whole


def _sums(A: Tensor, beta: float) -> tuple[Tensor, Tensor]:
    """Sums over all states."""
    _check_bits(A.shape[2])
    return _on_device(A if A.dtype == torch.float64 else A.to(torch.float32), beta)


def _check_size(A: Qubo, clamp: Clamp | None, groups: Groups | None) -> None:
    """Raise unless A is a QUBO whose states can be summed, before a sparse one becomes dense."""
    if not isinstance(A, SparseQubo):
        check_plain("A", A)
    if clamp is None and groups is None:
        _check_bits(A.shape[-1])


def _check_bits(n: int) -> None:
    if n > MAX_BITS:
        raise QubolearnError(
            f"the partition function of n={n} bits is a sum over 2**{n} states (limit 2**{MAX_BITS}); "
            "learn with PseudoLikelihood (loss pseudo), or sum over blocks of bits by clamp= and groups="
        )


def _on_device(A: Tensor, beta: float) -> tuple[Tensor, Tensor]:
    device, single = A.device.type, A.dtype == torch.float32
    if device == "cpu":
        return exhaustive_cpu.log_partition_and_marginals(A, beta)
    if device == "cuda" and single and A.shape[2] >= TRITON_BITS and exhaustive_triton.available():
        return exhaustive_triton.log_partition_and_marginals(A, beta)
    # In float32 a GPU may round products to TF32.
    return exhaustive_torch.log_partition_and_marginals(A.double() if device == "cuda" else A, beta)
