"""At which temperature did a sampler draw these reads? The maximum pseudo-likelihood estimate of β."""

from __future__ import annotations

import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.qubo import (
    FREE,
    Clamp,
    Groups,
    Qubo,
    as_clamp,
    as_groups,
    check_qubo,
    flip_costs,
    forced,
    without_pairs,
)
from qubolearn.qubo.checks import check_plain

__all__ = ["effective_beta"]

#: Halvings of the interval that holds β: to the last digit of float64.
HALVINGS = 60
DOUBLINGS = 60


def effective_beta(A: Qubo, reads: Tensor, clamp: Clamp | None = None, groups: Groups | None = None) -> Tensor:
    """The inverse temperature β of p(x) ∝ exp(-β xᵀAx) that fits the reads of a sampler best.

    Args:
        A: QUBOs ``[batch, n, n]``, or sparse ones.
        reads: bits ``[batch, r, n]``, repeats included.
        clamp: bits that the sampler held, as in :func:`qubolearn.solve`; they are left out.
        groups: sets of bits of which exactly one is 1 in every read.

    Returns:
        β of each QUBO, float64 ``[batch]``.

    Raises:
        QubolearnError: where shapes do not fit, there is no read, reads are not 0 and 1, or one breaks a group.

    Annealers return reads at a temperature of their own, which depends on chip, QUBO and annealing time; a likelihood
    needs to know it. Given all other bits, bit i has its value with probability 1 / (1 + exp(-β c_i)), where c_i is
    what flipping it costs; and a group has its choice with probability 1 / Σ_o exp(-β c_o), where c_o is what the
    choice of bit o in its place costs. The estimate maximises the product of these over bits, groups and reads, which
    is concave in β and needs no sum over all states.

    The result is infinite where every change of every read costs energy (or every one saves some: -inf), and NaN where
    no change does either, so that all temperatures fit alike.

    >>> from qubolearn.solvers.tempering import ParallelTempering
    >>> A = torch.tensor([[[1.0, -3.0], [0.0, 1.0]]])
    >>> reads = ParallelTempering(sweeps=4000, reads=2000, seed=0).sample(A, 0.8)
    >>> bool((effective_beta(A, reads) - 0.8).abs() < 0.1)
    True
    """
    check_qubo(A)
    check_plain("reads", reads)
    batch, n, groups = A.shape[0], A.shape[2], as_groups(groups)
    if reads.ndim != 3 or reads.shape[0] != batch or reads.shape[2] != n or reads.shape[1] < 1:
        raise QubolearnError(f"reads have shape {list(reads.shape)}; want [{batch}, reads, {n}] with at least one read")
    if not bool(((reads == 0) | (reads == 1)).all()):
        raise QubolearnError("reads hold values other than 0 and 1; want bits, (spins + 1) / 2")
    reads, free = reads.to(A.device, torch.float64), forced(as_clamp(clamp, batch, n), groups) == FREE
    if not bool(groups.allowed(reads).all()):
        raise QubolearnError("reads break a group; want exactly one 1 among the bits of each in every read")
    flips, moves = _changes(A.detach().to(torch.float64), reads, free.to(A.device), groups)
    costs = torch.cat([flips, *(part.flatten(1) for part, _ in moves)], 1)
    scale = costs.abs().amax(1)
    units = torch.where(scale > 0, scale, 1.0)[:, None]
    beta = _root(flips / units, [(part / units[:, :, None], possible) for part, possible in moves])
    beta = torch.where((costs >= 0).all(1), torch.inf, torch.where((costs <= 0).all(1), -torch.inf, beta))
    return torch.where((costs == 0).all(1), torch.nan, beta) / scale


def _changes(A: Qubo, reads: Tensor, free: Tensor, groups: Groups) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
    """What flips of bits in no group cost ``[batch, k]``, and other choices of groups: parts ``[batch, k, size]``.

    Each part holds the groups of one size, and which of their bits can be chosen.
    """
    costs = flip_costs(without_pairs(A, groups), reads)
    single = (groups.of_bits(A.shape[2]) < 0).to(A.device)
    flips = (costs * free[:, None])[:, :, single].flatten(1)  # of no cost where clamped, which says nothing about β
    fields, parts = costs * (1 - 2 * reads), []
    for size in sorted(set(map(len, groups.members))):
        bits = torch.tensor([group for group in groups.members if len(group) == size], device=A.device)
        chosen = reads[:, :, bits] == 1  # [batch, r, groups, size]
        possible = chosen | free[:, None, bits]
        moves = fields[:, :, bits] - (fields[:, :, bits] * chosen).sum(3, keepdim=True)
        parts.append((moves.masked_fill(~possible, 0.0).flatten(1, 2), possible.flatten(1, 2)))
    return flips, parts


def _root(flips: Tensor, moves: list[tuple[Tensor, Tensor]]) -> Tensor:
    """The β at which the mean costs of all choices are 0 in sum, for costs of at most 1 in size: ``[batch]``."""

    def slope(beta: Tensor) -> Tensor:
        found = (flips * torch.sigmoid(-beta[:, None] * flips)).sum(1)
        for costs, possible in moves:
            weights = (-beta[:, None, None] * costs).masked_fill(~possible, -torch.inf).softmax(2)
            found += (weights * costs).sum((1, 2))
        return found

    reach = flips.new_ones(len(flips))
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
    return (low + high) / 2
