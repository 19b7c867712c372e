"""At which temperature did a sampler draw these reads? The maximum pseudo-likelihood estimate of β."""

from __future__ import annotations

import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.qubo import FREE, Clamp, Qubo, as_clamp, check_qubo, flip_costs
from qubolearn.qubo.checks import check_plain

__all__ = ["effective_beta"]

#: Halvings of the interval that holds β: to the last digit of float64.
HALVINGS = 60
DOUBLINGS = 60


def effective_beta(A: Qubo, reads: Tensor, clamp: Clamp | None = None) -> Tensor:
    """The inverse temperature β of p(x) ∝ exp(-β xᵀAx) that fits the reads of a sampler best.

    Args:
        A: QUBOs ``[batch, n, n]``, or sparse ones.
        reads: bits ``[batch, r, n]``, repeats included.
        clamp: bits that the sampler held, as in :func:`qubolearn.solve`; they are left out.

    Returns:
        β of each QUBO, float64 ``[batch]``.

    Raises:
        QubolearnError: where shapes do not fit, there is no read, or reads are not 0 and 1.

    Annealers return reads at a temperature of their own, which depends on chip, QUBO and annealing time; a likelihood
    needs to know it. Given all other bits, bit i has its value with probability 1 / (1 + exp(-β c_i)), where c_i is
    what flipping it costs. The estimate maximises the product of these over bits and reads, which is concave in β
    and needs no sum over all states.

    The result is infinite where every flip of every read costs energy (or every one saves some: -inf), and NaN where
    no flip changes the energy, so that all temperatures fit alike.

    >>> from qubolearn.solvers.tempering import ParallelTempering
    >>> A = torch.tensor([[[1.0, -3.0], [0.0, 1.0]]])
    >>> reads = ParallelTempering(sweeps=4000, reads=2000, seed=0).sample(A, 0.8)
    >>> bool((effective_beta(A, reads) - 0.8).abs() < 0.1)
    True
    """
    check_qubo(A)
    batch, n = A.shape[0], A.shape[2]
    check_plain("reads", reads)
    if reads.ndim != 3 or reads.shape[0] != batch or reads.shape[2] != n or reads.shape[1] < 1:
        raise QubolearnError(f"reads have shape {list(reads.shape)}; want [{batch}, reads, {n}] with at least one read")
    if not bool(((reads == 0) | (reads == 1)).all()):
        raise QubolearnError("reads hold values other than 0 and 1; want bits, (spins + 1) / 2")
    costs = flip_costs(A.detach().to(torch.float64), reads.to(A.device, torch.float64))
    free = (as_clamp(clamp, batch, n) == FREE).to(A.device)
    costs = (costs * free[:, None]).flatten(1)  # [batch, r n]; a cost of 0 says nothing about β
    scale = costs.abs().amax(1)
    return _root(costs / torch.where(scale > 0, scale, 1.0)[:, None]) / scale


def _root(costs: Tensor) -> Tensor:
    """The β at which Σ_k c_k / (1 + exp(β c_k)) is 0, for costs ``[batch, k]`` of at most 1 in size: ``[batch]``."""

    def slope(beta: Tensor) -> Tensor:
        return (costs * torch.sigmoid(-beta[:, None] * costs)).sum(1)

    reach = torch.ones(len(costs), dtype=costs.dtype, device=costs.device)
    for _ in range(DOUBLINGS):
        outside = (slope(reach) > 0) | (slope(-reach) < 0)
        if not bool(outside.any()):
            break
        reach = torch.where(outside, 2 * reach, reach)
    low, high = -reach, reach
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        above = slope(middle) > 0
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    beta = (low + high) / 2
    beta = torch.where((costs >= 0).all(1), float("inf"), torch.where((costs <= 0).all(1), -float("inf"), beta))
    return torch.where((costs == 0).all(1), float("nan"), beta)
