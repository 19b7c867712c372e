"""Exact log-partition functions and pair marginals of a QUBO."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from qubolearn.errors import NonFiniteError, QubolearnError
from qubolearn.gpu import exhaustive_triton
from qubolearn.gpu.annealing import available
from qubolearn.kernels import HELD, kernel_call, native
from qubolearn.qubo import (
    Clamp,
    Groups,
    Qubo,
    Reduced,
    SparseQubo,
    as_clamp,
    as_dense,
    as_groups,
    can_read_values,
    check_qubo,
    propagate_clamps,
    reduced,
)
from qubolearn.qubo.sparse import check_plain
from qubolearn.solvers import exhaustive_torch
from qubolearn.solvers.contract import eager
from qubolearn.solvers.exhaustive import GROUPS_BITS, allowed_states
from qubolearn.solvers.exhaustive_torch import log_partition_and_marginals as log_partition_over

#: From this n on the Triton kernel is faster than plain torch.
TRITON_BITS = 15

#: The largest n; 30 bits take about 0.2 s on one thread.
MAX_BITS = 30

#: Rough cost of the compiled kernel on one thread.
SECONDS_PER_STATE = 2e-10


@eager
def log_partition(
    A: Qubo, beta: float = 1.0, *, clamp: Clamp | None = None, groups: Groups | None = None
) -> Tensor:
    """Return log Σ_x exp(-β xᵀAx) over all states: ``[batch]``, differentiable in A.

    Args:
        A: QUBOs ``[batch, n, n]``, or sparse ones, which become dense.
        beta: β, the inverse temperature; any finite number.
        clamp, groups: as in :func:`qubolearn.solve`; only allowed states are summed.

    Raises:
        QubolearnError: If there are too many states, A is not finite, or log Z overflows.

    ∂/∂A_ij = -β E[x_i x_j] under p(x) ∝ exp(-β xᵀAx), from the same pass over all states. A second
    derivative raises.

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
def pair_marginals(
    A: Qubo, beta: float = 1.0, *, clamp: Clamp | None = None, groups: Groups | None = None
) -> Tensor:
    """Return E[x_i x_j] under p(x) ∝ exp(-β xᵀAx): ``[batch, n, n]``, symmetric.

    Arguments and errors are those of :func:`log_partition`.

    >>> pair_marginals(torch.zeros(1, 2, 2))
    tensor([[[0.5000, 0.2500],
             [0.2500, 0.5000]]])
    """
    _check_size(A, clamp, groups)
    return _checked_sums(as_dense(A).detach(), beta, clamp, groups)[1]


class _LogPartition(torch.autograd.Function):
    """log Z ``[batch]`` and E[x xᵀ]; only log Z has a gradient."""

    @staticmethod
    def forward(A: Tensor, beta: float, clamp: Clamp | None, groups: Groups | None) -> tuple[Tensor, Tensor]:
        return _checked_sums(A.detach(), beta, clamp, groups)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.beta = inputs[1]
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(inputs[0], output[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor, None, None, None]:
        marginals = _Marginals.apply(*ctx.saved_tensors)  # type: ignore[no-untyped-call]
        return -ctx.beta * grad[:, None, None] * marginals, None, None, None


class _Marginals(torch.autograd.Function):
    """Known marginals, whose derivative would otherwise be silently 0."""

    @staticmethod
    def forward(A: Tensor, marginals: Tensor) -> Tensor:
        return marginals.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, V: Tensor) -> tuple[Tensor, None]:
        raise QubolearnError("log_partition has no second derivative; call backward without create_graph")


def log_partition_and_marginals(
    A: Tensor, beta: float, clamp: Clamp | None = None, groups: Groups | None = None
) -> tuple[Tensor, Tensor]:
    """Return log Z and pair marginals of one pass: no gradient and no check of A."""
    _check_beta(beta)
    if A.shape[0] == 0:
        return A.new_zeros(0), torch.zeros_like(A)
    if clamp is None and groups is None:
        value, marginals = _sums(A, beta)
    else:
        value, marginals = _constrained_sums(A, beta, as_clamp(clamp, *A.shape[:2]), as_groups(groups))
    return value.to(A.dtype), marginals.to(A.dtype).clamp_(0, 1)  # rounding may exceed 1


def _checked_sums(A: Tensor, beta: float, *where: Any) -> tuple[Tensor, Tensor]:
    """Return the same, and raise if A or log Z is not finite."""
    check_qubo(A)
    value, marginals = log_partition_and_marginals(A, beta, *where)
    if can_read_values(A) and not math.isfinite(value.sum().item()) and not bool(value.isfinite().all()):
        largest = f"{float(A.abs().amax()):.1e}"
        raise NonFiniteError(f"log Z overflows {A.dtype} at beta={beta} and |A_ij| up to {largest}; divide A")
    return value, marginals


def _constrained_sums(A: Tensor, beta: float, clamp: Tensor, groups: Groups) -> tuple[Tensor, Tensor]:
    value = torch.zeros(len(A), dtype=torch.float64, device=A.device)
    marginals = torch.zeros(A.shape, dtype=torch.float64, device=A.device)
    for part in reduced(A.double(), propagate_clamps(clamp, groups), groups):
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
    """Return E[x xᵀ] ``[b, n, n]`` of all bits from that of the free ones."""
    means = part.expand(inner.diagonal(dim1=1, dim2=2)[:, None])[:, 0]
    whole = means[:, :, None] * means[:, None]  # right if one is clamped
    bits = part.bits.to(inner.device)
    instance = torch.arange(len(bits), device=inner.device)[:, None, None]
    whole[instance, bits[:, :, None], bits[:, None]] = inner
    return whole


def _sums(A: Tensor, beta: float) -> tuple[Tensor, Tensor]:
    _check_bits(A.shape[2])
    A = A if A.dtype == torch.float64 else A.to(torch.float32)
    device = A.device.type
    if device == "cpu":
        return _sums_cpu(A, beta)
    if A.dtype == torch.float32 and A.shape[2] >= TRITON_BITS and available(A.device):
        return exhaustive_triton.log_partition_and_marginals(A, beta)
    # In float32 a GPU may round products to TF32.
    return exhaustive_torch.log_partition_and_marginals(A.double() if device == "cuda" else A, beta)


def _check_size(A: Qubo, clamp: Clamp | None, groups: Groups | None) -> None:
    """Raise unless the states of A can be summed, before a sparse A becomes dense."""
    if not isinstance(A, SparseQubo):
        check_plain("A", A)
    if clamp is None and groups is None:
        _check_bits(A.shape[-1])


def _check_beta(beta: object) -> None:
    if not isinstance(beta, Real) or not math.isfinite(beta):
        raise QubolearnError(f"beta={beta!r} must be a finite number; of a tensor pass beta.item()")


def _check_bits(n: int) -> None:
    if n > MAX_BITS:
        remedy = "learn with PseudoLikelihood, or sum over blocks of bits by clamp= and groups="
        raise QubolearnError(f"log Z of n={n} bits sums 2**{n} states (limit 2**{MAX_BITS}); {remedy}")


def _sums_cpu(A: Tensor, beta: float) -> tuple[Tensor, Tensor]:
    values = A.double().contiguous().numpy()
    batch, n = values.shape[:2]
    log_z, marginals = np.empty(batch), np.empty(values.shape)
    seconds = batch * (2**n * SECONDS_PER_STATE + 1e-6)
    with kernel_call(f"partition function, n={n}", seconds) as options:
        native().partition(values, beta, log_z, marginals, HELD, **options)
    value, moments = torch.from_numpy(log_z), torch.from_numpy(marginals)
    if np.isnan(log_z).any():  # exponents that leave the range of the kernel
        steep = value.isnan()
        value[steep], moments[steep] = exhaustive_torch.log_partition_and_marginals(A[steep].double(), beta)
    return value, moments
