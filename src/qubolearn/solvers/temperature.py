"""Estimate the temperature of a sampler from its reads, by maximum pseudo-likelihood."""

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
    drop_intragroup_couplings,
    flip_costs,
    propagate_clamps,
)
from qubolearn.qubo.sparse import check_plain

__all__ = ["effective_beta"]

#: Halvings of the interval that holds β: to the last digit of float64.
HALVINGS = 60
DOUBLINGS = 60


def effective_beta(A: Qubo, reads: Tensor, clamp: Clamp | None = None, groups: Groups | None = None) -> Tensor:
    """Return the inverse temperature β ``[batch]``, float64, of p(x) ∝ exp(-β xᵀAx) that best fits a sampler's reads.

    Args:
        A: QUBOs ``[batch, n, n]``, or sparse ones.
        reads: bits ``[batch, r, n]``, repeats included.
        clamp: bits that the sampler held, as in :func:`qubolearn.solve`; they are left out.
        groups: sets of bits of which exactly one is 1 in every read.

    Given all other bits, bit i has its value with probability 1 / (1 + exp(-β c_i)), where c_i is the cost of flipping
    it; and a group has its choice with probability 1 / Σ_o exp(-β c_o), where c_o is the cost of choosing bit o. The
    estimate maximizes the product of these over bits, groups and reads, which is concave in β and needs no sum over
    all states. It is infinite if every change of every read costs energy (-inf if every one saves some), and NaN if no
    change does either.

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
        raise QubolearnError(f"reads have shape {list(reads.shape)}; expected [{batch}, reads >= 1, {n}]")
    if not bool(((reads == 0) | (reads == 1)).all()):
        raise QubolearnError("reads hold values other than 0 and 1; for spins pass (spins + 1) / 2")
    reads, free = reads.to(A.device, torch.float64), propagate_clamps(as_clamp(clamp, batch, n), groups) == FREE
    if not bool(groups.allowed(reads).all()):
        raise QubolearnError("reads break a group; expected exactly one 1 among the bits of each")
    flips, moves = _changes(A.detach().to(torch.float64), reads, free.to(A.device), groups)
    costs = torch.cat([flips, *(part.flatten(1) for part, _ in moves)], 1)
    scale = costs.abs().amax(1)
    units = torch.where(scale > 0, scale, 1.0)[:, None]
    beta = _root(flips / units, [(part / units[:, :, None], possible) for part, possible in moves])
    beta = torch.where((costs >= 0).all(1), torch.inf, torch.where((costs <= 0).all(1), -torch.inf, beta))
    return torch.where((costs == 0).all(1), torch.nan, beta) / scale


def _changes(A: Qubo, reads: Tensor, free: Tensor, groups: Groups) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
    """Return costs of flips of bits in no group ``[batch, k]``, and of choices in groups of each size.

    The latter are ``[batch, k, size]``, with a mask of the bits that can be chosen.
    """
    costs = flip_costs(drop_intragroup_couplings(A, groups), reads)
    single = (groups.of_bits(A.shape[2]) < 0).to(A.device)
    flips = (costs * free[:, None])[:, :, single].flatten(1)  # no cost if clamped, which does not depend on β
    fields, parts = costs * (1 - 2 * reads), []
    for size in sorted(set(map(len, groups.members))):
        bits = torch.tensor([group for group in groups.members if len(group) == size], device=A.device)
        chosen = reads[:, :, bits] == 1  # [batch, r, groups, size]
        possible = chosen | free[:, None, bits]
        moves = fields[:, :, bits] - (fields[:, :, bits] * chosen).sum(3, keepdim=True)
        parts.append((moves.masked_fill(~possible, 0.0).flatten(1, 2), possible.flatten(1, 2)))
    return flips, parts


def _root(flips: Tensor, moves: list[tuple[Tensor, Tensor]]) -> Tensor:
    """Return the β ``[batch]`` at which the mean costs of all choices sum to 0, for costs of at most 1 in size."""

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
