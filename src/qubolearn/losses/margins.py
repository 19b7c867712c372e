"""Losses that compare energies: the paper's gap, and hinges."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from qubolearn.errors import QubolearnError, check_numbers
from qubolearn.losses.contract import Batch, Loss
from qubolearn.qubo import Qubo, SparseQubo, energies

#: The most right states for which a hinge requests one state more than there are.
MAX_RIGHT = 63


@dataclass(frozen=True)
class Gap(Loss):
    """The data terms of QuAnt: L_gap + λ L_unique.

    L_gap = E(x̂) - E(x*) is 0 once the solution is the minimizer. L_unique =
    -|E(x̂) - E(x⁺)| penalizes several minimizers, but *raises* E(x̂) while E(x̂) > E(x⁺);
    :class:`Hinge` does not. Cost: one solver call. Of several right answers, x̂ has the
    lowest energy. Reference: Seelbach Benkner et al., ICLR 2023, equations 1 and 3.

    Args:
        weight_unique: λ, the weight of L_unique, at least 0; with 0 the solver returns one state only.

    >>> # A and batch are those of the example of Likelihood
    >>> round(Gap(weight_unique=0.0)(A, batch).item(), 3)
    2.0
    """

    weight_unique: float = 1e-3
    solves = True

    def __post_init__(self) -> None:
        check_numbers(zero=True, weight_unique=self.weight_unique)

    @property
    def states(self) -> int:  # type: ignore[override]
        """Return the number of states per solver call."""
        return 2 if self.weight_unique else 1

    def __call__(self, A: Qubo, batch: Batch) -> Tensor:
        with torch.no_grad():
            x, lowest = batch.solution(A), batch.best(A, self.states)
            if isinstance(A, Tensor):  # linear in A nearby
                right = _outer(x)
                slope = right - _outer(lowest[:, 0])
                if self.weight_unique:
                    other = right - _outer(lowest[:, 1])
                    side = (A * other).sum((1, 2)).sign()[:, None, None]
                    slope.addcmul_(side, other, value=-self.weight_unique)
        if isinstance(A, Tensor):
            return (A * slope).sum((1, 2))
        value = excess(A, x, lowest[:, 0])
        return value - self.weight_unique * excess(A, x, lowest[:, 1]).abs() if self.weight_unique else value


def excess(A: Qubo, x: Tensor, y: Tensor) -> Tensor:
    """Return E(x) - E(y) ``[batch]``; of a dense A as one product."""
    if isinstance(A, SparseQubo):
        return energies(A, x) - energies(A, y)
    return (A * (_outer(x) - _outer(y))).sum((1, 2))


def _outer(x: Tensor) -> Tensor:
    return x[:, :, None] * x[:, None]


@dataclass(frozen=True)
class Hinge(Loss):
    """The structured SVM with 0/1 margin: max(0, m + E(x̂) - E(x̄)), x̄ the best wrong state.

    Zero once the solution is the minimizer by a gap of m. Cost: one solver call for two states. If
    several answers are right, x̂ is the lowest of them, and the call returns one state more than these.
    Reference: Tsochantaridis et al., JMLR 2005.

    Args:
        margin: m, the energy gap to reach, at least 0.

    >>> # A and batch are those of the example of Likelihood
    >>> round(Hinge(margin=0.5)(A, batch).item(), 3)
    2.5
    """

    margin: float = 1.0
    solves, states = True, 2

    def __post_init__(self) -> None:
        check_numbers(zero=True, margin=self.margin)

    def __call__(self, A: Qubo, batch: Batch) -> Tensor:
        with torch.no_grad():
            x, (other, found) = batch.solution(A), best_wrong(A, batch)
        value = torch.relu(self.margin + excess(A, x, other))
        return value if found is None else value * found


def best_wrong(A: Qubo, batch: Batch) -> tuple[Tensor, Tensor | None]:
    """Return x̄ ``[batch, n]`` and a mask of the instances that have one, or None if all do."""
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
class HammingHinge(Loss):
    """The structured SVM with Hamming margin: max_x m·Δ(x, x̂) + E(x̂) - E(x), Δ the number of wrong bits.

    Cost: one solver call on :func:`hamming_augmented`, which has the graph of A. Needs
    one right answer per instance. Reference: Taskar et al., NeurIPS 2003.

    Args:
        margin: m, the energy gap to reach per wrong bit.

    >>> # A and batch are those of the example of Likelihood
    >>> round(HammingHinge(margin=0.5)(A, batch).item(), 3)
    2.5
    """

    margin: float = 1.0
    solves = True

    def __post_init__(self) -> None:
        check_numbers(zero=True, margin=self.margin)

    def __call__(self, A: Qubo, batch: Batch) -> Tensor:
        if batch.right is not None:
            raise QubolearnError("HammingHinge takes one right answer per instance; use Hinge for several")
        x_true = batch.x_true
        with torch.no_grad():
            x_tilde = batch.solver(hamming_augmented(A.detach(), x_true, self.margin), 1).states[:, 0]
        distance = (x_tilde != x_true).sum(-1).to(A.dtype)
        return self.margin * distance + excess(A, x_true, x_tilde)


def hamming_augmented(A: Qubo, x_true: Tensor, margin: float = 1.0) -> Qubo:
    """Return the QUBO A - m·diag(1 - 2x̂) of E(x) - m·Δ(x, x̂) + constant."""
    step = margin * (1 - 2 * x_true.to(A.dtype))
    if isinstance(A, SparseQubo):
        return A.with_values(A.linear - step, A.quadratic)
    return A - torch.diag_embed(step)
