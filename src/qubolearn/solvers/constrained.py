"""Solving with clamped bits and one-hot groups, by any solver: the solver sees what is left of the QUBO.

A solver that knows groups, or that holds clamped bits itself, says so by a method more:

- ``search_held(A, count, clamp, groups)`` takes the whole QUBO, ``clamp [batch, n]`` and groups (tempering does);
- ``search_groups(A, count, groups)`` takes QUBOs without clamped bits, whose groups are consecutive bits from bit 0 on
  (exhaustive search does).

For any other solver groups become penalties, and what it returns is repaired where they are broken. Where it has
``search_reads(A)``, all of its reads are, which finds lower states than its own search does (annealing does).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.qubo import (
    FREE,
    Clamp,
    Groups,
    Qubo,
    Reduced,
    SparseQubo,
    allowed_bits,
    as_clamp,
    as_dense,
    as_groups,
    check_qubo,
    decoupled,
    forced,
    reduced,
    with_penalties,
)
from qubolearn.solvers.contract import Found, Solution, Solver, best_distinct
from qubolearn.solvers.persistency import with_persistent_bits
from qubolearn.solvers.units import as_units, best_around
from qubolearn.typed import check_counts

#: The share of free bits from which updating clamped ones as well costs less than parting the batch.
WHOLE_SHARE = 0.75

__all__ = ["Constrained", "in_order", "solve_constrained"]


@runtime_checkable
class HoldsBits(Protocol):
    """A solver that takes clamps and groups itself."""

    def search_held(self, A: Qubo, count: int, clamp: Tensor, groups: Groups) -> Found: ...


@runtime_checkable
class Chooses(Protocol):
    """A solver that takes another one, which depends on the clamps and groups."""

    def choose(self, n: int, clamp: Tensor, groups: Groups) -> Solver: ...


@runtime_checkable
class KnowsGroups(Protocol):
    """A solver that moves within consecutive groups."""

    def search_groups(self, A: Tensor, count: int, groups: Groups) -> Found: ...


@runtime_checkable
class GivesReads(Protocol):
    """A solver that hands out all of its reads."""

    def search_reads(self, A: Qubo) -> Found: ...


def solve_constrained(
    A: Qubo, solver: Solver, count: int, clamp: Clamp | None = None, groups: Groups | None = None
) -> Solution:
    """:func:`qubolearn.solve` with clamped bits or groups."""
    check_qubo(A)
    A, (batch, _, n) = A.detach(), A.shape
    groups = as_groups(groups)
    held = forced(as_clamp(clamp, batch, n), groups)
    _check_count(held, groups, count)
    if batch == 0:
        empty = torch.zeros(0, count, dtype=torch.float64, device=A.device)
        return Solution(empty.to(A.dtype)[:, :, None].expand(0, count, n), empty)
    if count == 1 and not len(groups):
        held = with_persistent_bits(A, held)
    if not bool((held == FREE).any()):
        return best_distinct(A, held[:, None], 1, {"source": "exhaustive"})  # the only state there is
    if isinstance(solver, Chooses):
        solver = solver.choose(n, held, groups)
    if isinstance(solver, HoldsBits):
        found = solver.search_held(A, count, held, groups)
        return best_distinct(A, found.states, count, found.info, found.distinct)
    if isinstance(A, SparseQubo) and getattr(solver, "takes_sparse", False) and _stays_whole(held, groups, count):
        whole = solver(decoupled(A, held), count)
        known = held.to(A.device)[:, None]
        return best_distinct(A, torch.where(known == FREE, whole.states, known.to(A.dtype)), count, whole.info)
    states = torch.zeros(batch, count, n, dtype=A.dtype, device=A.device)
    infos = []
    for part in reduced(A, held, groups):
        some, info = _solve_part(part, solver, count)
        states[part.rows.to(A.device)] = part.expand(some.to(states))
        infos.append((part.rows, info))
    return best_distinct(A, states, count, _joined(infos, batch))


@dataclass(frozen=True)
class Constrained:
    """A solver for QUBOs whose clamps and groups are known already, called as any other solver."""

    solver: Solver
    clamp: Clamp | None
    groups: Groups | None

    def __call__(self, A: Qubo, count: int = 2) -> Solution:
        return solve_constrained(A, self.solver, count, self.clamp, self.groups)

    def sample(self, A: Qubo, beta: float | None = None) -> Tensor:
        """Reads ``[batch, reads, n]`` among the allowed states, of a solver that takes clamps and groups itself."""
        if not isinstance(self.solver, HoldsBits):
            raise QubolearnError(f"{self.solver!r} draws no samples with clamps and groups; use ParallelTempering")
        reads: Tensor = self.solver.sample(A, beta, clamp=self.clamp, groups=self.groups)  # type: ignore[attr-defined]
        return reads


def _stays_whole(clamp: Tensor, groups: Groups, count: int) -> bool:
    """Whether a sparse batch is solved as it is, clamped bits among the free ones: it would fall into many parts.

    Measured at 64 QUBOs of 200 and 1,000 bits, a part costs 1.5 ms beside the annealing itself.
    """
    free = clamp == FREE
    if len(groups) or int(free.sum(1).min()) < count or float(free.double().mean()) < WHOLE_SHARE:
        return False
    return bool((free != free[:1]).any())


def _check_count(clamp: Tensor, groups: Groups, count: int) -> None:
    """Raise unless every instance has ``count`` allowed states."""
    check_counts(count=count)
    bits = allowed_bits(clamp, groups)
    few = bits < math.log2(count) - 1e-9
    if bool(few.any()):
        row = int(few.nonzero()[0])
        left = round(2 ** bits[row].item())
        raise QubolearnError(f"count={count} states asked for, but clamps and groups of instance {row} allow {left}")


def _solve_part(part: Reduced, solver: Solver, count: int) -> tuple[Tensor, Mapping[str, Any]]:
    """``count`` states ``[b, count, f]`` of the free bits, and what the solver measured."""
    if part.A.shape[2] == 0:
        return torch.zeros(len(part.rows), 1, 0), {}
    if not len(part.groups):
        solution = solver(part.A, count)
        return solution.states, solution.info
    if isinstance(solver, KnowsGroups):
        dense, groups, order = in_order(part)
        found = solver.search_groups(dense, count, groups)
        best = best_distinct(dense, found.states, count, distinct=found.distinct).states
        return best[:, :, order.argsort()], found.info
    penalised, _ = with_penalties(part.A, part.groups)
    if isinstance(solver, GivesReads):
        found = solver.search_reads(penalised)
        return _repaired(part, found.states, count), found.info
    solution = solver(penalised, count)
    return _repaired(part, solution.states, count), solution.info


def in_order(part: Reduced) -> tuple[Tensor, Groups, Tensor]:
    """Dense QUBOs whose bits are sorted by group, those in no group last; the groups; and the order ``[f]``."""
    number = part.groups.of_bits(part.A.shape[2])
    order = torch.where(number < 0, len(part.groups), number).argsort(stable=True)
    sizes = [len(group) for group in part.groups.members]
    ends = np.cumsum(sizes).tolist()
    groups = Groups(range(end - size, end) for size, end in zip(sizes, ends, strict=True))
    place = order.to(part.A.device)
    return as_dense(part.A)[:, place][:, :, place], groups, order


def _repaired(part: Reduced, states: Tensor, count: int) -> Tensor:
    """The ``count`` lowest allowed states in and around states ``[b, c, f]``."""
    units = as_units(part.A, part.groups)
    clamp = np.full(units.linear.shape, FREE, np.int8)
    return torch.from_numpy(best_around(units, clamp, states.cpu().to(torch.int8).numpy(), count))


def _joined(infos: Sequence[tuple[Tensor, Mapping[str, Any]]], batch: int) -> dict[str, Any]:
    """What the solver measured of all parts: numbers of instances in the order of the batch, others of one part."""
    joined: dict[str, Any] = {}
    for rows, info in infos:
        for key, value in info.items():
            if isinstance(value, Tensor) and value.ndim and len(value) == len(rows):
                whole = joined.setdefault(key, value.new_ones(batch, *value.shape[1:]))
                whole[rows.to(value.device)] = value
            else:
                joined.setdefault(key, value)
    return joined
