"""Solve QUBOs under linear inequalities, by annealing or exactly."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.kernels import kernel_call, native
from qubolearn.qubo import FREE, Groups, Qubo, allowed_bits
from qubolearn.qubo.constraints import Inequalities
from qubolearn.solvers.contract import NothingFoundError, SearchResult, instance_seeds
from qubolearn.solvers.forms import SparseForm

#: Pairs of moves to try if single ones leave too few allowed states.
MAX_PAIRS = 10_000
#: The largest log2 of the number of states for exact search.
MAX_BITS = 32


def anneal_constrained(
    A: Qubo,
    count: int,
    clamp: Tensor,
    groups: Groups,
    limits: Inequalities,
    reads: int,
    sweeps: int,
    seed: int | None,
    colony: int = 1,
    target: float | None = None,
) -> SearchResult:
    """Anneal with exchanges and moves in groups; violated constraints gain weight."""
    form, (batch, _, n) = SparseForm.make(A, groups), A.shape
    states, excess = np.zeros((batch, reads, n), np.int8), np.zeros((batch, reads))
    problem = form.qubos, form.units, clamp.contiguous().numpy(), limits.lists()
    targets, swept = (-np.inf if target is None else target) / form.scale + 1e-6, np.full(batch, sweeps)
    goal = form.beta_ranges, sweeps, targets, colony, instance_seeds(seed, batch), states, excess, swept
    with kernel_call("constrained annealing", states.size * sweeps * 1e-7) as options:
        native().anneal_constrained(*problem, *goal, **options)
    found = torch.from_numpy(states)
    allowed = limits.satisfied(found)
    if not bool(allowed.any(1).all()):
        row = int((~allowed.any(1)).nonzero()[0])
        least = f"smallest excess {excess[row].min():g}; raise reads or sweeps, or check the bounds"
        raise NothingFoundError(f"found no state within the constraints of instance {row}: {least}")
    energies = torch.from_numpy(form.energies(states)).masked_fill(~allowed, float("inf"))
    best = found.gather(1, energies.argmin(1)[:, None, None].expand(-1, 1, n))
    found = torch.where(allowed[:, :, None], found, best)
    if count > 1:
        moved = _neighbors(best[:, 0], clamp, groups)
        around = torch.where(limits.satisfied(moved)[:, :, None], moved, best)
        same = (around == best).all(2)
        for row in ((~same).sum(1) < count - 1).nonzero()[:, 0].tolist():
            pairs = _pairs_of_moves(best[row], moved[row], groups)
            pairs = pairs[limits.satisfied(pairs.expand(batch, -1, -1))[row]][: same[row].sum()]
            around[row, same[row].nonzero()[: len(pairs), 0]] = pairs
        found = torch.cat([found, around], 1)
    info = {"source": "simulated", "reads": reads, "feasible": allowed.double().mean(1)}
    return SearchResult(found, {**info, "sweeps": torch.from_numpy(swept)})


def search_constrained(
    A: Qubo, count: int, clamp: Tensor, groups: Groups, limits: Inequalities, max_bits: int | None = None
) -> SearchResult:
    bits, limit = float(allowed_bits(clamp, groups).max()), MAX_BITS if max_bits is None else max_bits
    if bits > limit:
        raise QubolearnError(f"2**{bits:.1f} states to search (limit 2**{limit}); use SimulatedAnnealing")
    form, (batch, _, n) = SparseForm.make(A, groups), A.shape
    states, energies = np.zeros((batch, count, n), np.int8), np.zeros((batch, count))
    found = np.zeros(batch, np.int64)
    problem = form.qubos, form.units, clamp.contiguous().numpy(), limits.lists()
    with kernel_call("exact search", batch * 2.0 ** min(bits, 24) * 1e-8) as options:
        native().search_constrained(*problem, states, energies, found, **options)
    if (found < count).any():
        row = int((found < count).argmax())
        raise QubolearnError(f"count={count}, but the constraints of instance {row} allow {found[row]}")
    return SearchResult(torch.from_numpy(states), {"source": "exhaustive"}, distinct=True)


def _neighbors(x: Tensor, clamp: Tensor, groups: Groups) -> Tensor:
    """Return the states ``[batch, n, n]`` one move from ``[batch, n]``."""
    one, number = torch.eye(x.shape[1], dtype=x.dtype), groups.of_bits(x.shape[1])
    inside, together = (number >= 0)[:, None], number[:, None] == number
    around = torch.where(inside, torch.where(together, one, x[:, None]), x[:, None] ^ one)
    return torch.where((clamp == FREE)[:, :, None], around, x[:, None])


def _pairs_of_moves(x: Tensor, around: Tensor, groups: Groups) -> Tensor:
    """Return some states ``[k, n]`` two moves from x; ``around`` are one move away."""
    pairs = torch.combinations((around != x).any(1).nonzero()[:, 0])
    i, j = pairs[torch.randperm(len(pairs), generator=torch.Generator().manual_seed(0))[:MAX_PAIRS]].T
    both = around[i] ^ around[j] ^ x
    return both[groups.allowed(both)]
