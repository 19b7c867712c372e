"""One equation, one function, one value per instance; the mean is taken in the training loop.

With φ(x) = xxᵀ and E(x) = <A, φ(x)> = xᵀAx. A ``[batch, n, n]`` comes from the network; x_true (x̂) are the
bits of the solution, x_star (x*) and x_plus (x⁺) the best and second-best states of A, all ``[batch, n]``.
States never carry a gradient: ∂x*/∂A is zero almost everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from qubolearn.qubo import energies
from qubolearn.solvers.partition import log_partition

__all__ = [
    "best_other",
    "contrastive_loss",
    "gap_loss",
    "hamming_augmented",
    "hamming_hinge_loss",
    "hinge_loss",
    "l1_loss",
    "mlp_loss",
    "nll_loss",
    "pseudo_loss",
    "soft_nll_loss",
    "unique_loss",
]


def gap_loss(A: Tensor, x_true: Tensor, x_star: Tensor) -> Tensor:
    """L_gap = E(x̂) - E(x*) (QuAnt, Eq. 1): pull the solution down, push the minimiser up; 0 once they agree.

    ∂L/∂A_ij = x̂_i x̂_j - x*_i x*_j. Cost: one solver call.
    """
    return energies(A, x_true) - energies(A, x_star)


def unique_loss(A: Tensor, x_true: Tensor, x_plus: Tensor) -> Tensor:
    """L_unique = -|E(x̂) - E(x⁺)| (QuAnt, Eq. 3), against several minimisers. Cost: the second state of the same call.

    While E(x̂) > E(x⁺) this pushes E(x̂) *up*; :func:`hinge_loss` is the same idea without that fault.
    """
    return -(energies(A, x_true) - energies(A, x_plus)).abs()


def mlp_loss(features: Sequence[Tensor]) -> Tensor:
    """L_mlp = Σ_f ‖f‖₁ / |f| over the outputs f ``[batch, hidden]`` of all layers but the last (QuAnt, Eq. 4)."""
    return torch.stack([f.abs().mean(-1) for f in features]).sum(0)


def best_other(x_true: Tensor, x_star: Tensor, x_plus: Tensor) -> Tensor:
    """x̄ ``[batch, n]``, the best state other than x̂: x* where the solver is wrong, else x⁺."""
    right = (x_true == x_star).all(-1, keepdim=True)
    return torch.where(right, x_plus, x_star)


def hinge_loss(A: Tensor, x_true: Tensor, x_star: Tensor, x_plus: Tensor, margin: float = 1.0) -> Tensor:
    """max(0, m + E(x̂) - E(x̄)), x̄ the best state other than x̂: the structured SVM with 0/1 margin.

    Zero once the solution is the minimiser by a gap of m. Cost: one solver call for two states, so it also
    runs on an annealer. Reference: Tsochantaridis et al., JMLR 2005.
    """
    return (margin + energies(A, x_true) - energies(A, best_other(x_true, x_star, x_plus))).clamp_min(0)


def hamming_augmented(A: Tensor, x_true: Tensor, margin: float = 1.0) -> Tensor:
    """The QUBO of E(x) - m·Δ(x, x̂), up to a constant: A - m·diag(1 - 2x̂). Same graph as A. ``[batch, n, n]``"""
    return A - margin * torch.diag_embed(1 - 2 * x_true)


def hamming_hinge_loss(A: Tensor, x_true: Tensor, x_tilde: Tensor, margin: float = 1.0) -> Tensor:
    """max_x m·Δ(x, x̂) + E(x̂) - E(x), reached at x̃ = argmin of :func:`hamming_augmented`; never negative.

    The structured SVM with Hamming margin Δ (number of wrong bits). Cost: one solver call, on the augmented A.
    """
    distance = (x_tilde != x_true).sum(-1).to(A.dtype)
    return margin * distance + energies(A, x_true) - energies(A, x_tilde)


def nll_loss(A: Tensor, x_true: Tensor, beta: float = 1.0) -> Tensor:
    """βE(x̂) + log Σ_x exp(-βE(x)): minus the log-likelihood of x̂ under the Boltzmann distribution of A.

    ∂L/∂A = β(φ(x̂) - E[φ]), with exact log-partition and pair marginals. Cost: 2ⁿ states per instance.
    """
    return beta * energies(A, x_true) + log_partition(A, beta)


def soft_nll_loss(A: Tensor, states: Tensor, weights: Tensor, beta: float = 1.0) -> Tensor:
    """βΣ_t w_t E(x_t) + log Σ_x exp(-βE(x)): cross entropy against states ``[batch, t, n]``, weights ``[batch, t]``.

    For solutions that are numbers, where the neighbouring bins are nearly right. Equals NLL for a single state.
    """
    return beta * (weights * energies(A, states)).sum(-1) + log_partition(A, beta)


def contrastive_loss(A: Tensor, x_true: Tensor, samples: Tensor, beta: float = 1.0) -> Tensor:
    """β(E(x̂) - mean_r E(x_r)) over samples ``[batch, reads, n]`` of the Boltzmann distribution of A.

    Its gradient is that of :func:`nll_loss` with the marginals taken from samples, for n beyond exact sums; its
    value is no likelihood. Reference: Hinton, Neural Computation 2002.
    """
    return beta * (energies(A, x_true) - energies(A, samples).mean(-1))


def pseudo_loss(A: Tensor, x_true: Tensor, beta: float = 1.0) -> Tensor:
    """Σ_i log(1 + exp(-β(E(x̂ with bit i flipped) - E(x̂)))): minus the log of Π_i p(x̂_i | the other bits of x̂).

    Makes x̂ a deep local minimum. Cost: n energies and no solver, for any n. Reference: Besag, The Statistician 1975.
    """
    sign = 1 - 2 * x_true
    fields = ((A + A.mT) @ x_true[:, :, None]).squeeze(-1)  # Σ_j (A_ij + A_ji) x̂_j, counts A_ii twice where x̂_i = 1
    diagonal = A.diagonal(dim1=-2, dim2=-1)
    raise_by = sign * fields + diagonal  # E(flipped) - E(x̂)
    return torch.nn.functional.softplus(-beta * raise_by).sum(-1)


def l1_loss(scores: Tensor, x_true: Tensor) -> Tensor:
    """Mean |score - (2x̂ - 1)| over the bits, for the *Pure* baseline, whose scores ``[batch, n]`` are cut at 0."""
    return (scores - (2 * x_true - 1)).abs().mean(-1)
