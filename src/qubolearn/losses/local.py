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
    """Minus log Π_i p(x̂_i | the other bits of x̂): Σ_i log(1 + exp(-β(E(x̂ with bit i flipped) - E(x̂)))).

    It makes x̂ a deep local minimum. Where instances have several right answers, x̂ is the one of lowest energy. Cost: n
    energies and no solver, for any n. Reference: Besag, The Statistician 1975.

    Args:
        beta: β, the inverse temperature.

    >>> from qubolearn import Batch, ExhaustiveSearch, Instances
    >>> A, x = torch.tensor([[[1.0, -3.0], [0.0, 1.0]]]), torch.tensor([[1.0, 0.0]])  # E(10) = 1, E(11) = -1
    >>> batch = Batch(Instances(torch.zeros(1, 3), x, x), ExhaustiveSearch())
    >>> round(PseudoLikelihood(beta=1.0)(A, batch).item(), 3)
    3.44
    """

    beta: float = 6.0

    def __call__(self, A: Qubo, batch: Batch) -> Tensor:
        with torch.no_grad():
            x = batch.solution(A.detach())
        return torch.nn.functional.softplus(-self.beta * flip_costs(A, x)).sum(-1)


@dataclass(frozen=True)
class L1(Loss):
    """Regression of the bits, for the *Pure* baseline: the mean of |score_i - (2x̂_i - 1)|, with scores -A_ii.

    At test time a bit is 1 where its score is above 0.

    Where instances have several right answers, scores are pulled towards the given label: a regression of bits
    has no way to say "this or its complement".

    >>> from qubolearn import Batch, ExhaustiveSearch, Instances
    >>> A, x = torch.tensor([[[1.0, -3.0], [0.0, 1.0]]]), torch.tensor([[1.0, 0.0]])  # E(10) = 1, E(11) = -1
    >>> batch = Batch(Instances(torch.zeros(1, 3), x, x), ExhaustiveSearch())
    >>> round(L1()(A, batch).item(), 3)
    1.0
    """

    def __call__(self, A: Qubo, batch: Batch) -> Tensor:
        scores = -(A.linear if isinstance(A, SparseQubo) else A.diagonal(dim1=-2, dim2=-1))
        return (scores - (2 * batch.x_true - 1)).abs().mean(-1)


@dataclass(frozen=True)
class SparseFeatures(Loss):
    """Sparse hidden features: L_mlp = Σ_f ‖f‖₁ / |f| over hidden layers f ``[batch, hidden]`` (QuAnt, Eq. 4).

    The network's body must return its features beside its outputs, as :class:`qubolearn.MLP` does; a body that returns
    none is refused.

    >>> from qubolearn import Batch, Instances
    >>> x, f = torch.ones(1, 2), torch.tensor([[2.0, 0.0, 0.0, 2.0]])
    >>> SparseFeatures()(torch.zeros(1, 2, 2), Batch(Instances(x, x, x), None, features=[f])).tolist()
    [1.0]
    """

    def __call__(self, A: Qubo, batch: Batch) -> Tensor:
        if not batch.features:
            raise QubolearnError("SparseFeatures needs a body that returns (outputs, features), such as MLP")
        return torch.stack([f.abs().mean(-1) for f in batch.features]).sum(0)
