"""Quantum Graph Matching: the quadratic assignment problem of W as a QUBO, in three ways.

Reference: Seelbach Benkner et al., Adiabatic Quantum Graph Matching with Permutation Matrix Constraints, 3DV 2020
(arXiv 2107.04032). x = vec(X), bit k·i + a says "node i goes to node a". The penalties are analytic bounds: large
enough for any W, and for that reason much larger than W, which control errors of an annealer then drown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal

import torch
from torch import Tensor

from qubolearn.errors import unknown_name
from qubolearn.paper.baselines.direct import assignment_size

__all__ = ["QGM_VARIANTS", "MatchingQubo", "Variant", "qgm"]

Variant = Literal["baseline", "row-wise", "inserted"]


@dataclass(frozen=True)
class MatchingQubo:
    """A quadratic assignment problem as a QUBO: xᵀAx + offset is the assignment's energy where x is a permutation."""

    A: Tensor  # [batch, n, n], symmetric
    offset: Tensor  # [batch]
    k: int
    variant: Variant

    def decode(self, x: Tensor) -> Tensor:
        """Bits ``[..., n]`` -> entries ``[..., k]``, int64: -1 for a node that goes to none or to several."""
        full = x.round().to(torch.float64)
        if self.variant == "inserted":
            T, t = _insertion(self.k)
            full = full @ T.T.to(x.device) + t.to(x.device)
        X = full.reshape(*x.shape[:-1], self.k, self.k)
        one_hot = (X != 0).sum(-1).eq(1) & X.sum(-1).eq(1)
        return torch.where(one_hot, X.argmax(-1), -1)


def qgm(W: Tensor, variant: Variant = "baseline") -> MatchingQubo:
    """The QUBO of W ``[batch, k², k²]``: k² bits for *baseline* and *row-wise*, (k-1)² for *inserted*.

    >>> W = torch.ones(1, 9, 9)
    >>> [qgm(W, variant).A.shape[1] for variant in ("baseline", "row-wise", "inserted")]
    [9, 9, 4]
    """
    if variant not in QGM_VARIANTS:
        raise unknown_name("QGM variant", variant, QGM_VARIANTS)
    k = assignment_size(W)
    A, offset = QGM_VARIANTS[variant](W.to(torch.float64), k)
    return MatchingQubo(((A + A.mT) / 2).to(W.dtype), offset.to(W.dtype), k, variant)


def _baseline(W: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """One penalty λ(Cx - 1)² for all 2k constraints.

    A state that is no permutation breaks at least two constraints, and energies differ by at most Σ|W|: λ = Σ|W| / 2.
    """
    strength = _positive(W.abs().sum((1, 2)) / 2)
    return _penalised(W, k, strength[:, None].expand(-1, 2 * k))


def _row_wise(W: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """One penalty per constraint c: λ_c = max_{l in c} d_l + max_l d_l / 2, d_l bounding what a flip of bit l changes.

    Any state that is no permutation is mended by one to three flips that cost no more than they gain: add a bit where a
    row and a column are empty, move one within its column or row, or remove one from a full row and one from a full
    column and put one where their partners cross. The last is what the second term is for.
    """
    d = _largest_change(W)  # [batch, k²]
    of_constraint = (d[:, None] * _constraints(k).to(W.device)).amax(-1)  # [batch, 2k]
    return _penalised(W, k, _positive(of_constraint + d.amax(1, keepdim=True) / 2))


def _inserted(W: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The last row and column of X follow from the others, x = Ty + t, and are inserted: (k-1)² bits y are left.

    y is a permutation's where no row or column sum r exceeds 1 and all of it sums to S >= k - 2. The penalties
    λ_c·r(r - 1) with λ_c = (max_{l in c} d_l + max_l d_l) / 2 and max_l d_l / 2 · (S - k + 1)(S - k + 2) say so.
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
    A = A + largest[:, None, None] / 2 * (1 - (2 * k - 3) * torch.eye(A.shape[1], device=W.device, dtype=W.dtype))
    return A, offset + largest / 2 * (k - 1) * (k - 2)


#: The table of variants, in the order of the paper's.
QGM_VARIANTS: dict[str, Callable[[Tensor, int], tuple[Tensor, Tensor]]] = {
    "baseline": _baseline,
    "row-wise": _row_wise,
    "inserted": _inserted,
}


def _penalised(W: Tensor, k: int, strength: Tensor) -> tuple[Tensor, Tensor]:
    """xᵀWx + Σ_c λ_c (c·x - 1)² as A and offset; strength λ ``[batch, 2k]``."""
    C = _constraints(k).to(W.device)
    A = W + (C.T * strength[:, None]) @ C - 2 * torch.diag_embed(strength @ C)
    return A, strength.sum(1)


def _largest_change(A: Tensor) -> Tensor:
    """d_l = |A_ll| + Σ_{m≠l} |A_lm + A_ml|, a bound on the change of energy when bit l flips. ``[batch, n]``"""
    return (A + A.mT).abs().sum(-1) - A.diagonal(dim1=1, dim2=2).abs()


def _positive(strength: Tensor) -> Tensor:
    """Where W is zero, every bound is; the constraints still have to hold."""
    return torch.where(strength > 0, strength, 1.0)


@cache
def _constraints(k: int) -> Tensor:
    """C ``[2k, k²]``: row i of C sums row i of X, row k + a sums column a."""
    eye, ones = torch.eye(k, dtype=torch.float64), torch.ones(k, dtype=torch.float64)
    return torch.cat([torch.kron(eye, ones[None]), torch.kron(ones[None], eye)])


@cache
def _insertion(k: int) -> tuple[Tensor, Tensor]:
    """T ``[k², (k-1)²]`` and t ``[k²]`` with vec(X) = T·vec(Y) + t for X with Y in the corner and sums 1 all around."""
    complete = torch.cat([torch.eye(k - 1, dtype=torch.float64), -torch.ones(1, k - 1, dtype=torch.float64)])
    constant = torch.zeros(k, k, dtype=torch.float64)
    constant[-1] = constant[:, -1] = 1.0
    constant[-1, -1] = 2.0 - k
    return torch.kron(complete, complete), constant.flatten()
