"""Estimate the temperature of a sampler by maximum pseudo-likelihood."""

from __future__ import annotations

import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.qubo import Qubo, check_qubo, flip_costs
from qubolearn.qubo.sparse import check_plain

__all__ = ["effective_beta"]

#: Doublings of an interval until it holds β, and halvings of it.
STEPS = 60


def effective_beta(A: Qubo, reads: Tensor) -> Tensor:
    """Return the β ``[batch]``, float64, of p(x) ∝ exp(-β xᵀAx) that best fits reads.

    Args:
        A: QUBOs ``[batch, n, n]``, or sparse ones.
        reads: bits ``[batch, r, n]``, repeats included.

    Given all other bits, bit i has its value with probability 1 / (1 + exp(-β c_i)), c_i the cost
    of flipping it; the product of these is maximal. β is infinite if every flip costs energy, -inf
    if every flip saves some, NaN if no flip changes the energy.

    >>> from qubolearn.solvers.tempering import ParallelTempering
    >>> A = torch.tensor([[[1.0, -3.0], [0.0, 1.0]]])
    >>> reads = ParallelTempering(sweeps=4000, reads=2000, seed=0).sample(A, 0.8)
    >>> bool((effective_beta(A, reads) - 0.8).abs() < 0.1)
    True
    """
    check_qubo(A)
    check_plain("reads", reads)
    batch, n = A.shape[0], A.shape[2]
    if reads.ndim != 3 or reads.shape[0] != batch or reads.shape[2] != n or reads.shape[1] < 1:
        raise QubolearnError(f"reads have shape {list(reads.shape)}; expected [{batch}, reads >= 1, {n}]")
    if not bool(((reads == 0) | (reads == 1)).all()):
        raise QubolearnError("reads hold values other than 0 and 1; for spins pass (spins + 1) / 2")
    costs = flip_costs(A.detach().to(torch.float64), reads.to(A.device, torch.float64)).flatten(1)
    scale = costs.abs().amax(1)
    beta = _root(costs / torch.where(scale > 0, scale, 1.0)[:, None])
    beta = torch.where((costs >= 0).all(1), torch.inf, torch.where((costs <= 0).all(1), -torch.inf, beta))
    return torch.where((costs == 0).all(1), torch.nan, beta) / scale


def _root(costs: Tensor) -> Tensor:
    """Return the β ``[batch]`` at which the mean costs ``[batch, k]`` sum to 0."""

    def slope(beta: Tensor) -> Tensor:
        return (costs * torch.sigmoid(-beta[:, None] * costs)).sum(1)

    reach = costs.new_ones(len(costs))
    for _ in range(STEPS):
        outside = (slope(reach) > 0) | (slope(-reach) < 0)
        if not bool(outside.any()):
            break
        reach = torch.where(outside, 2 * reach, reach)
    low, high = -reach, reach
    for _ in range(STEPS):
        middle = (low + high) / 2
        above = slope(middle) > 0
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    return (low + high) / 2
