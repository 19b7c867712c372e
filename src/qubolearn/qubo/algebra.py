"""QUBO algebra: energies, costs of flips, normal forms, QUBO <-> Ising.

A need not be symmetric: only A_ij + A_ji matters.
"""

from __future__ import annotations

import math
from typing import Generic, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.types import Device

from qubolearn.errors import QubolearnError
from qubolearn.qubo.sparse import Q, Qubo, SparseQubo, upper_triangular


def energies(A: Qubo, x: Tensor) -> Tensor:
    """Return E(x) = xᵀAx ``[batch, ...]`` of states ``[batch, ..., n]``, differentiable in A.

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
    """Return the change of energy of x ``[batch, ..., n]`` when each bit alone flips.

    That is (1 - 2x_i) (A_ii + Σ_{j≠i} (A_ij + A_ji) x_j), differentiable in A.
    """
    if isinstance(A, Tensor) and x.dtype == A.dtype and x.shape == A.shape[:2]:  # in training
        fields = ((A + A.mT) @ x[:, :, None]).squeeze(-1)  # counts A_ii twice if x_i = 1
        return (1 - 2 * x) * fields + A.diagonal(dim1=1, dim2=2)
    rows = _rows(A, x)
    if isinstance(A, SparseQubo):
        (i, j), q = A.edges, A.quadratic[:, None]
        fields = A.linear[:, None].expand_as(rows).index_add(-1, i, q * rows[..., j])
        fields = fields.index_add(-1, j, q * rows[..., i])
    else:
        diagonal = A.diagonal(dim1=1, dim2=2)[:, None]
        fields = rows @ A + rows @ A.mT + diagonal * (1 - 2 * rows)
    return ((1 - 2 * rows) * fields).reshape(x.shape)


def _rows(A: Qubo, x: Tensor) -> Tensor:
    batch, n = A.shape[0], A.shape[-1]
    if not isinstance(x, Tensor):
        raise QubolearnError(f"expected states as a torch.Tensor [{batch}, ..., {n}], got {type(x).__name__}")
    if x.ndim < 2 or x.shape[0] != batch or x.shape[-1] != n:
        raise QubolearnError(f"states {list(x.shape)} do not fit; expected [{batch}, ..., {n}]")
    return x.to(A.dtype).reshape(batch, math.prod(x.shape[1:-1]), n)


def reflected(A: Qubo, x: Tensor) -> Qubo:
    """Return the QUBO of E(x XOR z) as a function of z, up to a constant."""
    sign = 1 - 2 * x
    if isinstance(A, SparseQubo):
        (i, j), q = A.edges, A.quadratic
        fields = A.linear.index_add(1, i, q * x[:, j]).index_add(1, j, q * x[:, i])
        return A.with_values(sign * fields, q * sign[:, i] * sign[:, j])
    fields = (x[:, None] @ (A + A.mT))[:, 0]
    return A * sign[:, :, None] * sign[:, None] + torch.diag_embed(sign * fields)


def symmetric(A: Tensor) -> Tensor:
    """Return (A + Aᵀ) / 2, which has the same energies."""
    return (A + A.mT) / 2


def all_states(n: int, device: Device = None, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return all states ``[2**n, n]``; row r holds the bits of r, most significant first."""
    if n > 24:
        raise QubolearnError(f"all states of n={n} bits are 2**{n} rows (limit 2**24); use a solver instead")
    return code_bits(torch.arange(2**n, device=device), n).flip(1).to(dtype)


def code_bits(codes: Tensor, n: int) -> Tensor:
    """Return the states ``[..., n]`` of codes ``[...]``: bit i of a code is x_i."""
    if codes.is_cpu:  # without torch's threads, which slow down kernels
        return torch.from_numpy((codes.numpy()[..., None] >> np.arange(n) & 1).astype(np.uint8))
    return (codes[..., None] >> torch.arange(n, device=codes.device)) & 1


class Ising(NamedTuple, Generic[Q]):
    """The Ising model sᵀJs + bᵀs + offset over spins s in {-1, +1}^n."""

    J: Q  # [batch, n, n], upper triangular, zero diagonal; sparse if the QUBO was
    b: Tensor  # [batch, n]
    offset: Tensor  # [batch]


def to_ising(A: Q) -> Ising[Q]:
    """Return the Ising model sᵀJs + bᵀs + offset that has the energies of A, with s = 2x - 1."""
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

    J is ``[batch, n, n]`` or sparse. A = 4J + diag(2b - 2(J1 + Jᵀ1)), offset = 1ᵀJ1 - 1ᵀb; the
    formula printed in the QuAnt paper (1/4 J + ...) fails brute force.
    """
    if isinstance(J, SparseQubo):
        linear = 2 * _add_at_ends(b, J.edges, -J.quadratic)
        return J.with_values(linear, 4 * J.quadratic), J.linear.sum(-1) + J.quadratic.sum(-1) - b.sum(-1)
    A = 4 * J + torch.diag_embed(2 * b - 2 * (J.sum(-1) + J.sum(-2)))
    return A, J.sum((-1, -2)) - b.sum(-1)


def _add_at_ends(bits: Tensor, edges: Tensor, values: Tensor) -> Tensor:
    """Add each edge's value ``[batch, m]`` to the bits at both of its ends."""
    return bits.index_add(-1, edges[0], values).index_add(-1, edges[1], values)
