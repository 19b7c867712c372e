"""Losses without a solver: pseudo-likelihoods, L1, sparse features."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.losses.contract import Batch, Loss
from qubolearn.qubo import Groups, Qubo, SparseQubo, flip_costs, shared_qubo
from qubolearn.random import stream


@dataclass(frozen=True)
class PseudoLikelihood(Loss):
    """Minus log Π_i p(x̂_i | the other bits of x̂): Σ_i log(1 + exp(-β(E(x̂ with bit i flipped) - E(x̂)))).

    It makes x̂ a deep local minimum; of several right answers, x̂ has the lowest
    energy. Cost: n energies, for any n. Reference: Besag, The Statistician 1975.

    Args:
        beta: β, the inverse temperature.

    >>> # A and batch are those of the example of Likelihood
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
    """Regression of bits, for direct heads: mean of |score_i - (2x̂_i - 1)|, scores -A_ii.

    A bit is 1 if its score is above 0. L1 cannot express several right answers, such
    as a state or its complement. Reference: Seelbach Benkner et al., ICLR 2023
    (baseline "pure").

    >>> # A and batch are those of the example of Likelihood
    >>> round(L1()(A, batch).item(), 3)
    1.0
    """

    def __call__(self, A: Qubo, batch: Batch) -> Tensor:
        scores = -(A.linear if isinstance(A, SparseQubo) else A.diagonal(dim1=-2, dim2=-1))
        return (scores - (2 * batch.x_true - 1)).abs().mean(-1)


@dataclass(frozen=True)
class SparseFeatures(Loss):
    """Sparse hidden features: Σ_f ‖f‖₁ / |f| over hidden layers f (QuAnt, equation 4).

    The body must return ``(outputs, features)``, as :class:`qubolearn.MLP` does.

    >>> batch.features = [torch.tensor([[2.0, 0.0, 0.0, 2.0]])]
    >>> SparseFeatures()(A, batch).tolist()
    [1.0]
    """

    def __call__(self, A: Qubo, batch: Batch) -> Tensor:
        if not batch.features:
            raise QubolearnError("SparseFeatures needs a body that returns (outputs, features), such as MLP")
        return torch.stack([f.abs().mean(-1) for f in batch.features]).sum(0)


@dataclass(frozen=True)
class GroupPseudoLikelihood(Loss):
    """Pseudo-likelihood of one-hot groups: -Σ_g log p(x̂_g | the groups that are shown).

    With f_i = A_ii + Σ_j (A_ij + A_ji) x̂_j over bits j of other shown groups, p(bit i
    of g is the one) = exp(-βf_i) / Σ_{k in g} exp(-βf_k). In every step each instance
    hides random groups: if one row already decides a Sudoku's cell, columns and boxes
    would teach nothing. Bits outside of groups are shown. Cost: one product of x̂ and
    A. Reference: Besag, The Statistician 1975.

    Args:
        groups: the one-hot groups, which the model is given and does not learn.
        beta: β, the inverse temperature.
        masking: the largest share of hidden groups; each instance draws its own between 0 and this one.

    >>> loss = GroupPseudoLikelihood(Groups([[0, 1]]))
    >>> one = torch.diag(torch.tensor([1.0, 3.0]))[None]
    >>> round(loss(one, batch).item(), 3)  # log(1 + exp(1 - 3))
    0.127
    """

    groups: Groups
    beta: float = 1.0
    masking: float = 0.9
    draws, capturable = True, False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.masking <= 1:
            raise QubolearnError(f"masking={self.masking}; expected a share of groups from 0 to 1")
        if not len(self.groups):
            raise QubolearnError("expected at least one group; use PseudoLikelihood for bits without groups")

    def __call__(self, A: Qubo, batch: Batch) -> Tensor:
        x = batch.x_true.to(A.dtype)
        refuse_broken(self.groups, x)
        number = self.groups.of_bits(x.shape[1]).to(x.device)
        fields = _fields(A, x * self.shown(batch), number)
        logits = (-self.beta * fields)[:, number >= 0]
        home = number[number >= 0].expand(len(x), -1)
        empty = logits.new_zeros(len(x), len(self.groups))
        top = empty.scatter_reduce(1, home, logits.detach(), "amax", include_self=False)
        log_sum = empty.scatter_add(1, home, (logits - top.gather(1, home)).exp()).log() + top
        return log_sum.sum(1) - (logits * x[:, number >= 0]).sum(1)

    def shown(self, batch: Batch) -> Tensor:
        """Return a mask ``[batch, n]`` of the shown bits."""
        draws = torch.rand(len(batch), len(self.groups) + 1, generator=stream(batch.seed, "masking"))
        shown = (draws[:, :-1] >= self.masking * draws[:, -1:]).to(batch.x_true)
        number = self.groups.of_bits(batch.x_true.shape[1]).to(shown.device)
        return torch.nn.functional.pad(shown, (0, 1), value=1.0)[:, number]  # -1: in no group


def refuse_broken(groups: Groups, x: Tensor) -> None:
    """Raise if a group of x ``[batch, n]`` has not exactly one 1."""
    broken = (~groups.allowed(x)).nonzero()
    if len(broken):
        raise QubolearnError(f"x_true of instance {int(broken[0])} has a group without exactly one 1")


def _fields(A: Qubo, x: Tensor, number: Tensor) -> Tensor:
    """Return each bit's share of the energy, given other groups."""
    if isinstance(A, SparseQubo):
        i, j = A.edges
        apart = ((number[i] != number[j]) | (number[i] < 0)).to(x) * A.quadratic
        return A.linear.index_add(1, i, apart * x[:, j]).index_add(1, j, apart * x[:, i])
    together = (number[:, None] == number) & (number >= 0)
    together.fill_diagonal_(True)
    if (shared := shared_qubo(A)) is not None:
        one: Tensor = shared[0]
        return one.diagonal() + x @ (one + one.T).masked_fill(together, 0.0)
    couplings = (A + A.mT).masked_fill(together, 0.0)
    return A.diagonal(dim1=1, dim2=2) + (x[:, None] @ couplings)[:, 0]
