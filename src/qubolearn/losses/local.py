"""Losses without a solver: pseudo-likelihood, the l1 regression of *Pure*, and sparse features."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.losses.contract import Batch, Loss
from qubolearn.qubo import Qubo, SparseQubo, flip_costs

__all__ = ["L1", "PseudoLikelihood", "SparseFeatures"]


@dataclass(frozen=True)
class PseudoLikelihood(Loss):
    """Σ_i log(1 + exp(-β(E(x̂ with bit i flipped) - E(x̂)))): minus the log of Π_i p(x̂_i | the other bits of x̂).

    Makes x̂ a deep local minimum. Where instances have several right answers, x̂ is the one of lowest energy. Cost: n
    energies and no solver, for any n. Reference: Besag, The Statistician 1975.

    Args:
        beta: β, the inverse temperature.
    """

    beta: float = 6.0

    def __call__(self, A: Qubo, batch: Batch) -> Tensor:
        with torch.no_grad():
            x = batch.solution(A.detach())
        return torch.nn.functional.softplus(-self.beta * flip_costs(A, x)).sum(-1)


@dataclass(frozen=True)
class L1(Loss):
    """Mean |score - (2x̂ - 1)| over the bits, for the *Pure* baseline, whose scores -A_ii are cut at 0.

    Where instances have several right answers, scores are drawn to the given one, the label: a regression of bits
    has no way to say "this or its complement".
    """

    def __call__(self, A: Qubo, batch: Batch) -> Tensor:
        scores = -(A.linear if isinstance(A, SparseQubo) else A.diagonal(dim1=-2, dim2=-1))
        return (scores - (2 * batch.x_true - 1)).abs().mean(-1)


@dataclass(frozen=True)
class SparseFeatures(Loss):
    """L_mlp = Σ_f ‖f‖₁ / |f| over the outputs f ``[batch, hidden]`` of the hidden layers (QuAnt, Eq. 4).

    The network's body must return its features beside its outputs, as :class:`qubolearn.MLP` does.
    """

    def __call__(self, A: Qubo, batch: Batch) -> Tensor:
        if not batch.features:
            raise QubolearnError("SparseFeatures needs a body that returns (outputs, features), such as MLP")
        return torch.stack([f.abs().mean(-1) for f in batch.features]).sum(0)
