"""Which solver call each loss needs: (A, instances) -> one value per instance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.losses import equations as losses
from qubolearn.problems.contract import Instances
from qubolearn.solvers.contract import Solver

__all__ = ["OBJECTIVES", "Context"]


class Context(NamedTuple):
    """What an objective may use besides A and the instances."""

    soft_targets: Callable[[Tensor], tuple[Tensor, Tensor] | None]  # those of the problem
    solver: Solver
    config: Any


def gap(A: Tensor, batch: Instances, context: Context) -> Tensor:
    """The paper's data terms: L_gap + λ_unique · L_unique."""
    weight = context.config.weight_unique
    states = context.solver(A.detach(), 2 if weight else 1).states
    loss = losses.gap_loss(A, batch.x_true, states[:, 0])
    return loss + weight * losses.unique_loss(A, batch.x_true, states[:, 1]) if weight else loss


def hinge(A: Tensor, batch: Instances, context: Context) -> Tensor:
    x_star, x_plus = context.solver(A.detach(), 2).states.unbind(1)
    return losses.hinge_loss(A, batch.x_true, x_star, x_plus, context.config.margin)


def hamming(A: Tensor, batch: Instances, context: Context) -> Tensor:
    margin = context.config.margin
    augmented = losses.hamming_augmented(A.detach(), batch.x_true, margin)
    x_tilde = context.solver(augmented, 1).states[:, 0]
    return losses.hamming_hinge_loss(A, batch.x_true, x_tilde, margin)


def nll(A: Tensor, batch: Instances, context: Context) -> Tensor:
    """Exact likelihood, of the soft targets where the problem has them."""
    targets = context.soft_targets(batch.x_true)
    if targets is None:
        return losses.nll_loss(A, batch.x_true, context.config.beta)
    return losses.soft_nll_loss(A, *targets, context.config.beta)


def contrastive(A: Tensor, batch: Instances, context: Context) -> Tensor:
    """Likelihood gradient from the solver's own reads, where exact sums are out of reach."""
    sample = getattr(context.solver, "sample", None)
    if sample is None:
        raise QubolearnError(
            f"loss contrastive needs a solver that returns all its reads, not {context.config.solver!r}; "
            "use annealing or quantum"
        )
    return losses.contrastive_loss(A, batch.x_true, sample(A.detach()), context.config.beta)


def pseudo(A: Tensor, batch: Instances, context: Context) -> Tensor:
    return losses.pseudo_loss(A, batch.x_true, context.config.beta)


def l1(A: Tensor, batch: Instances, context: Context) -> Tensor:
    scores = -A.diagonal(dim1=-2, dim2=-1)
    return losses.l1_loss(scores, batch.x_true)


OBJECTIVES: Mapping[str, Callable[[Tensor, Instances, Context], Tensor]] = {
    "gap": gap,
    "hinge": hinge,
    "hamming": hamming,
    "nll": nll,
    "contrastive": contrastive,
    "pseudo": pseudo,
    "l1": l1,
}
