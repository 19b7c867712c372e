"""QUBO algebra: energies xᵀAx in batches, costs of flips, normal forms, QUBO <-> Ising.

``A [batch, n, n]`` is a batch of QUBOs, or a :class:`~qubolearn.qubo.SparseQubo`; ``x [..., n]`` are bits, 0 or 1.
A need not be symmetric: only A_ij + A_ji matters.
"""

from __future__ import annotations

import math
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.qubo.sparse import Qubo, SparseQubo, check_dense, check_finite, check_range, upper_triangular

Q = TypeVar("Q", Tensor, SparseQubo)


def check_qubo(A: Qubo, what: str = "A") -> None:
    """Raise unless A is ``[batch, n, n]``, dense, real floating point, n >= 1 and finite, or a finite SparseQubo."""
    if isinstance(A, SparseQubo):
        check_finite(f"{what}.linear", A.linear)
        check_finite(f"{what}.quadratic", A.quadratic)
    else:
        check_dense(A, what)


def check_solvable(A: Qubo) -> None:
    """Raise unless A passes :func:`check_qubo` and float64 holds its energies."""
    check_qubo(A)
    for part in (A.linear, A.quadratic) if isinstance(A, SparseQubo) else (A,):
        check_range(part.detach(), A.shape[2])


def energies(A: Qubo, x: Tensor) -> Tensor:
    """Return E(x) = xᵀAx ``[batch, ...]`` in A's dtype, differentiable in A, of states x ``[batch, ..., n]``.

    >>> A = torch.tensor([[[1.0, -3.0], [0.0, 1.0]]])
    >>> energies(A, torch.tensor([[[0, 0], [1, 0], [1, 1]]]))
    tensor([[ 0.,  1., -1.]])
    """
    rows = _rows(A, x)
    if isinstance(A, SparseQubo):
        i, j = A.edges
        pairs = (rows[..., i] * rows[..., j]) @ A.quadratic[:, :, None]
        found = (rows.square() @ A.linear[:, :, None] + pairs)[..., 0]
    else:
        found = ((rows @ A) * rows).sum(-1)
    return found.reshape(x.shape[:-1])


def flip_costs(A: Qubo, x: Tensor) -> Tensor:
    """Return how much the energy of bits x ``[batch, ..., n]`` changes when bit i alone flips: ``[batch, ..., n]``.

    That is (1 - 2x_i) (A_ii + Σ_{j≠i} (A_ij + A_ji) x_j), differentiable in A, dense or sparse.
    """
    if isinstance(A, Tensor) and x.ndim == 2 and x.dtype == A.dtype and x.shape == A.shape[:2]:  # a training step
        fields = ((A + A.mT) @ x[:, :, None]).squeeze(-1)  # counts A_ii twice if x_i = 1
        return (1 - 2 * x) * fields + A.diagonal(dim1=1, dim2=2)
    rows = _rows(A, x)
    if isinstance(A, SparseQubo):
        (i, j), q = A.edges, A.quadratic[:, None]
        fields = A.linear[:, None].expand_as(rows).index_add(-1, i, q * rows[..., j]).index_add(-1, j, q * rows[..., i])
    else:
        diagonal = A.diagonal(dim1=1, dim2=2)[:, None]
        fields = rows @ A + rows @ A.mT + diagonal * (1 - 2 * rows)
    return ((1 - 2 * rows) * fields).reshape(x.shape)


def _rows(A: Qubo, x: Tensor) -> Tensor:
    """Return states x ``[batch, ..., n]`` as ``[batch, states, n]`` in A's dtype."""
    batch, n = A.shape[0], A.shape[-1]
    if not isinstance(x, Tensor):
        raise QubolearnError(f"expected states as a torch.Tensor [{batch}, ..., {n}], got {type(x).__name__}")
    if x.ndim < 2 or x.shape[0] != batch or x.shape[-1] != n:
        raise QubolearnError(f"states {list(x.shape)} do not fit QUBOs {list(A.shape)}: expected [{batch}, ..., {n}]")
    return x.to(A.dtype).reshape(batch, math.prod(x.shape[1:-1]), n)


def reflected(A: Qubo, x: Tensor) -> Qubo:
    """Return the QUBO of E(x XOR z) as a function of z, up to a constant: A dense or sparse, x ``[batch, n]``."""
    sign = 1 - 2 * x
    if isinstance(A, SparseQubo):
        (i, j), q = A.edges, A.quadratic
        fields = A.linear.index_add(1, i, q * x[:, j]).index_add(1, j, q * x[:, i])
        return A.with_values(sign * fields, q * sign[:, i] * sign[:, j])
    fields = (x[:, None] @ (A + A.mT))[:, 0]
    return A * sign[:, :, None] * sign[:, None] + torch.diag_embed(sign * fields)


def symmetric(A: Tensor) -> Tensor:
    """Return the symmetric matrix of the same energies, (A + Aᵀ) / 2: ``[..., n, n]``."""
    return (A + A.mT) / 2


def all_states(n: int, device: torch.device | str | None = None, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return all bit vectors ``[2**n, n]``; row r holds the bits of r, most significant first."""
    if n > 24:
        raise QubolearnError(f"all states of n={n} bits are 2**{n} rows (limit 2**24); use a solver instead")
    index = torch.arange(2**n, device=device)
    return ((index[:, None] >> torch.arange(n - 1, -1, -1, device=device)) & 1).to(dtype)


def code_bits(codes: Tensor, n: int) -> Tensor:
    """Return the states ``[..., n]`` (int64; uint8 on a CPU) of codes ``[...]``: bit i of a code is x_i."""
    if codes.is_cpu:  # without torch's threads, which would then wait on the cores of the kernels
        return torch.from_numpy((codes.numpy()[..., None] >> np.arange(n) & 1).astype(np.uint8))
    return (codes[..., None] >> torch.arange(n, device=codes.device)) & 1


class Ising(NamedTuple, Generic[Q]):
    """sᵀJs + bᵀs + offset over s in {-1, +1}^n."""

    J: Q  # [batch, n, n], upper triangular, zero diagonal; sparse if the QUBO was
    b: Tensor  # [batch, n]
    offset: Tensor  # [batch]


def to_ising(A: Q) -> Ising[Q]:
    """Return sᵀJs + bᵀs + offset with the energies of A ``[batch, n, n]``, dense or sparse, under s = 2x - 1."""
    if isinstance(A, SparseQubo):
        quarter = A.quadratic / 4
        b = _add_at_ends(A.linear / 2, A.edges, quarter)
        J = A.with_values(torch.zeros_like(A.linear), quarter)
        return Ising(J, b, A.linear.sum(-1) / 2 + quarter.sum(-1))
    U = upper_triangular(A)
    dense = U.triu(1) / 4
    diagonal = U.diagonal(dim1=-2, dim2=-1)
    b = diagonal / 2 + dense.sum(-1) + dense.sum(-2)
    offset = diagonal.sum(-1) / 2 + dense.sum((-1, -2))
    return Ising(dense, b, offset)


def from_ising(J: Q, b: Tensor) -> tuple[Q, Tensor]:
    """Return A and the offset ``[batch]`` with xᵀAx + offset = sᵀJs + bᵀs under s = 2x - 1.

    J is ``[batch, n, n]`` or sparse, b ``[batch, n]``. A = 4J + diag(2b - 2(J1 + Jᵀ1)), offset = 1ᵀJ1 - 1ᵀb; the
    formula printed in the QuAnt paper (1/4 J + ...) fails brute force. A diagonal of J is a constant, since s² = 1.
    """
    if isinstance(J, SparseQubo):
        linear = 2 * _add_at_ends(b, J.edges, -J.quadratic)
        return J.with_values(linear, 4 * J.quadratic), J.linear.sum(-1) + J.quadratic.sum(-1) - b.sum(-1)
    A = 4 * J + torch.diag_embed(2 * b - 2 * (J.sum(-1) + J.sum(-2)))
    return A, J.sum((-1, -2)) - b.sum(-1)


def _add_at_ends(bits: Tensor, edges: Tensor, values: Tensor) -> Tensor:
    """Add each edge's value ``[batch, m]`` to bits ``[batch, n]`` at both of its ends."""
    return bits.index_add(-1, edges[0], values).index_add(-1, edges[1], values)
