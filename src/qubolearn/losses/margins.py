"""Losses that compare the energy of the solution with those of other states: the paper's gap, and hinges."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from qubolearn.errors import check_numbers
from qubolearn.losses.contract import Batch, EnergyLoss, Terms, require_unique_answer
from qubolearn.qubo import Qubo, SparseQubo

__all__ = ["Gap", "HammingHinge", "Hinge", "best_wrong", "hamming_augmented"]

#: The most right states for which a hinge requests one state more than there are.
MAX_RIGHT = 63


@dataclass(frozen=True)
class Gap(EnergyLoss):
    """The paper's data terms, L_gap + λ L_unique (QuAnt, Eq. 1 and 3).

    L_gap = E(x̂) - E(x*) pulls the solution down and pushes the minimizer up; it is 0 once they agree.
    L_unique = -|E(x̂) - E(x⁺)| works against several minimizers. While E(x̂) > E(x⁺) it pushes E(x̂) *up*;
    :class:`Hinge` is the same idea without that fault.

    ∂L_gap/∂A_ij = x̂_i x̂_j - x*_i x*_j. Cost: one solver call. Where instances have several right answers, x̂ is the
    one of lowest energy.

    Args:
        weight_unique: λ, the weight of L_unique, at least 0; with 0 the solver is not asked for a second state.

    >>> from qubolearn import Batch, ExhaustiveSearch, Instances
    >>> A, x = torch.tensor([[[1.0, -3.0], [0.0, 1.0]]]), torch.tensor([[1.0, 0.0]])  # E(10) = 1, E(11) = -1
    >>> batch = Batch(Instances(torch.zeros(1, 3), x, x), ExhaustiveSearch())
    >>> round(Gap(weight_unique=0.0)(A, batch).item(), 3)
    2.0
    """

    weight_unique: float = 1e-3
    solves = True

    def __post_init__(self) -> None:
        check_numbers(zero=True, weight_unique=self.weight_unique)

    @property
    def states(self) -> int:  # type: ignore[override]
        return 2 if self.weight_unique else 1

    def terms(self, A: Qubo, batch: Batch) -> Terms:
        X = torch.cat([batch.solution(A)[:, None], batch.best(A, self.states)], 1)  # x̂, x*, x⁺
        E = batch.energies(A, X)
        if not self.weight_unique:
            return Terms(X, _row((1.0, -1.0), E.dtype, E.device).expand_as(E), energies=E)
        # -λ|E(x̂) - E(x⁺)| = s E(x⁺) - s E(x̂) with s = λ sign(E(x̂) - E(x⁺))
        apart = _row((1.0, 0.0, -1.0), E.dtype, E.device)
        c = _row((1.0, -1.0, 0.0), E.dtype, E.device) - self.weight_unique * torch.outer((E @ apart).sign_(), apart)
        return Terms(X, c, energies=E)


@lru_cache
def _row(numbers: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return cached constants: a CUDA graph cannot copy them from the host."""
    return torch.tensor(numbers, dtype=dtype, device=device)


@dataclass(frozen=True)
class Hinge(EnergyLoss):
    """The structured SVM with 0/1 margin: max(0, m + E(x̂) - E(x̄)), where x̄ is the best state that is not right.

    It is zero once the solution is the minimizer by a gap of m. Cost: one solver call for two states, so it also runs
    on an annealer. Where instances have several right answers, x̂ is the one of lowest energy, and the call asks for
    one state more than there are right ones. Reference: Tsochantaridis et al., JMLR 2005.

    Args:
        margin: m, the energy gap to reach; less than 0 is refused.

    >>> from qubolearn import Batch, ExhaustiveSearch, Instances
    >>> A, x = torch.tensor([[[1.0, -3.0], [0.0, 1.0]]]), torch.tensor([[1.0, 0.0]])  # E(10) = 1, E(11) = -1
    >>> batch = Batch(Instances(torch.zeros(1, 3), x, x), ExhaustiveSearch())
    >>> round(Hinge(margin=0.5)(A, batch).item(), 3)
    2.5
    """

    margin: float = 1.0
    solves, states = True, 2

    def __post_init__(self) -> None:
        check_numbers(zero=True, margin=self.margin)

    def terms(self, A: Qubo, batch: Batch) -> Terms:
        other, found = best_wrong(A, batch)
        X = torch.stack([batch.solution(A), other], 1)
        E = batch.energies(A, X)
        apart = _row((1.0, -1.0), E.dtype, E.device)
        active = E @ apart > -self.margin
        active = (active if found is None else active & found).to(E.dtype)
        return Terms(X, torch.outer(active, apart), self.margin * active, energies=E)


def best_wrong(A: Qubo, batch: Batch) -> tuple[Tensor, Tensor | None]:
    """x̄ ``[batch, n]``, the best state that is not right, and whether one was found ``[batch]``; None: for all."""
    if batch.right is None:
        x_star, x_plus = batch.best(A, 2).unbind(1)
        right = (batch.x_true == x_star).all(-1, keepdim=True)
        return torch.where(right, x_plus, x_star), None
    n, t = batch.x_true.shape[1], batch.right.states.shape[1]
    states = batch.best(A, min(min(t, MAX_RIGHT) + 1, 2 ** min(n, 30)))
    wrong = ~batch.right.include(states)  # [batch, count]
    first = wrong.to(torch.uint8).argmax(1)[:, None, None].expand(-1, 1, n)
    return states.gather(1, first)[:, 0], wrong.any(1)


@dataclass(frozen=True)
class HammingHinge(EnergyLoss):
    """The structured SVM with Hamming margin: max_x m·Δ(x, x̂) + E(x̂) - E(x), where Δ counts wrong bits.

    The maximum is at x̃ = argmin of :func:`hamming_augmented`, so it costs one solver call on that QUBO, which has the
    graph of A. It is never negative, and refuses instances with several right answers.

    Args:
        margin: m, the energy gap to reach per wrong bit.

    >>> from qubolearn import Batch, ExhaustiveSearch, Instances
    >>> A, x = torch.tensor([[[1.0, -3.0], [0.0, 1.0]]]), torch.tensor([[1.0, 0.0]])  # E(10) = 1, E(11) = -1
    >>> batch = Batch(Instances(torch.zeros(1, 3), x, x), ExhaustiveSearch())
    >>> round(HammingHinge(margin=0.5)(A, batch).item(), 3)
    2.5
    """

    margin: float = 1.0
    solves = True

    def __post_init__(self) -> None:
        check_numbers(zero=True, margin=self.margin)

    def terms(self, A: Qubo, batch: Batch) -> Terms:
        require_unique_answer(batch.right, "HammingHinge", "Hinge or Likelihood")
        x_true = batch.x_true
        x_tilde = batch.solver(hamming_augmented(A, x_true, self.margin), 1).states[:, 0]
        ones = torch.ones_like(x_true[:, 0])
        distance = (x_tilde != x_true).sum(-1).to(A.dtype)
        return Terms(torch.stack([x_true, x_tilde], 1), torch.stack([ones, -ones], 1), self.margin * distance)


def hamming_augmented(A: Qubo, x_true: Tensor, margin: float = 1.0) -> Qubo:
    """Return the QUBO of E(x) - m·Δ(x, x̂), up to a constant: A - m·diag(1 - 2x̂). Same graph as A."""
    step = margin * (1 - 2 * x_true.to(A.dtype))
    if isinstance(A, SparseQubo):
        return A.with_values(A.linear - step, A.quadratic)
    return A - torch.diag_embed(step)
