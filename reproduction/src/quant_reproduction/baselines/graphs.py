"""Baselines for graph matching: direct search and QGM.

Quantum Graph Matching (Seelbach Benkner et al., 3DV 2020, arXiv 2107.04032) is the assignment
problem as a QUBO. Bit k·i + a is "node i is mapped to node a".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal

import torch
from torch import Tensor

from qubolearn.data.encodings import all_permutations
from qubolearn.errors import QubolearnError

MAX_K = 8
#: Energies per chunk: 32 MB in float32.
MAX_ENERGIES = 2**23
Variant = Literal["baseline", "row-wise", "inserted"]


def direct(W: Tensor) -> Tensor:
    """Return argmin_P Σ_ij W[(i, P(i)), (j, P(j))] for W ``[batch, k², k²]``."""
    k = assignment_size(W)
    if k > MAX_K:
        needs = f"direct search over permutations of k={k} needs {math.factorial(k)} states (limit k={MAX_K})"
        raise QubolearnError(f"{needs}; use a QGM baseline with an annealer")
    P = all_permutations(k).to(W.device)
    step = max(1, MAX_ENERGIES // len(P))
    best = [assignment_energies(part, P).argmin(1) for part in torch.split(W, step)]
    return P[torch.cat(best)] if best else P[:0]


def assignment_energies(W: Tensor, P: Tensor) -> Tensor:
    """Return the energies ``[batch, count]`` of P ``[count, k]``."""
    k = assignment_size(W)
    pairs = W.reshape(-1, k, k, k, k)  # [batch, i, a, j, b]
    total = W.new_zeros(len(W), len(P))
    for i in range(k):
        for j in range(i, k):
            weight = pairs[:, i, :, j, :] + (pairs[:, j, :, i, :].mT if i < j else 0)  # [batch, a, b]
            total += weight.reshape(-1, k * k).index_select(1, P[:, i] * k + P[:, j])
    return total


def assignment_size(W: Tensor) -> int:
    """Return k of finite weights ``[batch, k², k²]``."""
    shape = list(W.shape)
    k = math.isqrt(shape[-1])
    if W.ndim != 3 or shape[1] != shape[2] or k < 2 or k * k != shape[2]:
        raise QubolearnError(f"expected W [batch, k², k²] with k >= 2, got {shape}")
    if not W.dtype.is_floating_point or not bool(torch.isfinite(W).all()):
        raise QubolearnError(f"expected finite floats in W, got {W.dtype}; check the features for NaN")
    return k


@dataclass(frozen=True)
class MatchingQubo:
    """A QUBO: xᵀAx + offset is a permutation's energy."""

    A: Tensor  # [batch, n, n], symmetric
    offset: Tensor  # [batch]
    k: int
    variant: Variant

    def decode(self, x: Tensor) -> Tensor:
        """Return entries ``[..., k]``; -1 if a node is not mapped to one."""
        full = x.round().to(torch.float64)
        if self.variant == "inserted":
            T, t = _insertion(self.k)
            full = full @ T.T.to(x.device) + t.to(x.device)
        X = full.reshape(*x.shape[:-1], self.k, self.k)
        one_hot = (X != 0).sum(-1).eq(1) & X.sum(-1).eq(1)
        return torch.where(one_hot, X.argmax(-1), -1)


def qgm(W: Tensor, variant: Variant = "baseline") -> MatchingQubo:
    """Return the QUBO of W ``[batch, k², k²]``: k² bits, or (k-1)² for *inserted*."""
    k = assignment_size(W)
    A, offset = QGM_VARIANTS[variant](W.to(torch.float64), k)
    return MatchingQubo(((A + A.mT) / 2).to(W.dtype), offset.to(W.dtype), k, variant)


def _baseline(W: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Use one penalty λ(Cx - 1)² for all 2k constraints.

    Other states break two constraints or more, and energies differ by at most Σ|W|: λ = Σ|W| / 2.
    """
    strength = _positive(W.abs().sum((1, 2)) / 2)
    return _penalized(W, k, strength[:, None].expand(-1, 2 * k))


def _row_wise(W: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Use one penalty per constraint: λ_c = max_{l in c} d_l + max_l d_l / 2.

    d_l bounds the effect of bit l. One to three flips at no cost make any state a permutation.
    """
    d = _largest_change(W)  # [batch, k²]
    of_constraint = (d[:, None] * _constraints(k).to(W.device)).amax(-1)  # [batch, 2k]
    return _penalized(W, k, _positive(of_constraint + d.amax(1, keepdim=True) / 2))


def _inserted(W: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Insert the last row and column of X, which follow from the others: x = Ty + t.

    y belongs to a permutation if no row or column sum r exceeds 1 and the total S >= k - 2. The penalties are
    λ_c·r(r - 1) with λ_c = (max_{l in c} d_l + max_l d_l) / 2, and max_l d_l / 2 · (S - k + 1)(S - k + 2).
    """
    T, t = (tensor.to(W.device) for tensor in _insertion(k))
    linear = ((W + W.mT) @ t) @ T
    A = T.T @ W @ T + torch.diag_embed(linear)
    offset = (W @ t) @ t

    d = _largest_change(A)
    largest = _positive(d.amax(1))
    C = _constraints(k - 1).to(W.device)
    strength = ((d[:, None] * C).amax(-1) + largest[:, None]) / 2
    A = A + (C.T * strength[:, None]) @ C - torch.diag_embed(strength @ C)
    # (S - k + 1)(S - k + 2) = S² - (2k - 3)S + (k - 1)(k - 2)
    A = A + largest[:, None, None] / 2 * (1 - (2 * k - 3) * torch.eye(A.shape[1]).to(W))
    return A, offset + largest / 2 * (k - 1) * (k - 2)


#: Variants in the order of the paper.
QGM_VARIANTS: dict[str, Callable[[Tensor, int], tuple[Tensor, Tensor]]] = {
    "baseline": _baseline,
    "row-wise": _row_wise,
    "inserted": _inserted,
}


def _penalized(W: Tensor, k: int, strength: Tensor) -> tuple[Tensor, Tensor]:
    """Return A and offset of xᵀWx + Σ_c λ_c (c·x - 1)² for strengths λ ``[batch, 2k]``."""
    C = _constraints(k).to(W.device)
    A = W + (C.T * strength[:, None]) @ C - 2 * torch.diag_embed(strength @ C)
    return A, strength.sum(1)


def _largest_change(A: Tensor) -> Tensor:
    """Return d_l = |A_ll| + Σ_{m≠l} |A_lm + A_ml|, a bound for flips."""
    return (A + A.mT).abs().sum(-1) - A.diagonal(dim1=1, dim2=2).abs()


def _positive(strength: Tensor) -> Tensor:
    """Replace 0 by 1: if W is 0, the constraints still have to hold."""
    return torch.where(strength > 0, strength, 1.0)


@cache
def _constraints(k: int) -> Tensor:
    """Return C ``[2k, k²]``: row i of C sums row i of X, row k + a sums column a."""
    eye, ones = torch.eye(k, dtype=torch.float64), torch.ones(k, dtype=torch.float64)
    return torch.cat([torch.kron(eye, ones[None]), torch.kron(ones[None], eye)])


@cache
def _insertion(k: int) -> tuple[Tensor, Tensor]:
    """Return T ``[k², (k-1)²]`` and t with vec(X) = T·vec(Y) + t; X has corner Y."""
    complete = torch.cat([torch.eye(k - 1, dtype=torch.float64), -torch.ones(1, k - 1, dtype=torch.float64)])
    constant = torch.zeros(k, k, dtype=torch.float64)
    constant[-1] = constant[:, -1] = 1.0
    constant[-1, -1] = 2.0 - k
    return torch.kron(complete, complete), constant.flatten()
