"""Solve with clamped bits and one-hot groups by any solver, which receives the free bits.

A solver may implement more:

- ``search_held(A, count, clamp, groups)``, with the whole QUBO;
- ``search_groups(A, count, groups)``: groups of consecutive bits from bit 0 on;
- ``search_limited(A, count, clamp, groups, limits)``, with inequalities as well;
- ``search_reads(A)`` returns all reads under penalties, each of which is repaired.

For any other solver groups become penalties, and its answers are repaired.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from qubolearn.errors import QubolearnError, check_counts
from qubolearn.qubo import (
    FREE,
    Clamp,
    Groups,
    Inequalities,
    LinearConstraint,
    Qubo,
    Reduced,
    allowed_bits,
    as_clamp,
    as_dense,
    as_groups,
    check_solvable,
    propagate_clamps,
    reduced,
    with_penalties,
)
from qubolearn.solvers.contract import Solution, Solver, best_distinct
from qubolearn.solvers.forms import SparseForm


def solve_constrained(
    A: Qubo,
    solver: Solver,
    count: int,
    clamp: Clamp | None = None,
    groups: Groups | None = None,
    constraints: Sequence[LinearConstraint] = (),
) -> Solution:
    """Solve with clamped bits, groups or inequalities."""
    check_solvable(A)
    A, (batch, _, n) = A.detach(), A.shape
    groups = as_groups(groups)
    held = propagate_clamps(as_clamp(clamp, batch, n), groups)
    _check_count(held, groups, count)
    if batch == 0:
        empty = torch.zeros(0, count, dtype=torch.float64, device=A.device)
        return Solution(empty.to(A.dtype)[:, :, None].expand(0, count, n), empty)
    if len(constraints):
        limits = Inequalities(constraints, batch, n)
        limits.check_possible(held, groups)
        if not hasattr(solver, "search_limited"):
            raise QubolearnError(f"{solver!r} does not support constraints; use AutoSolver")
        found = solver.search_limited(A.to("cpu"), count, held, groups, limits)
        return best_distinct(A, found.states, count, found.info, found.distinct)
    if not bool((held == FREE).any()):
        return best_distinct(A, held[:, None], 1, {"source": "exhaustive"})  # the only state
    if hasattr(solver, "search_held"):
        found = solver.search_held(A, count, held, groups)
        return best_distinct(A, found.states, count, found.info, found.distinct)
    states = torch.zeros(batch, count, n, dtype=A.dtype, device=A.device)
    infos = []
    for part in reduced(A, held, groups):
        some, info = _solve_part(part, solver, count)
        states[part.rows.to(A.device)] = part.expand(some.to(states))
        infos.append((part.rows, info))
    return best_distinct(A, states, count, _joined(infos, batch))


@dataclass(frozen=True)
class Constrained:
    """A solver with fixed clamps, groups and inequalities."""

    solver: Solver
    clamp: Clamp | None
    groups: Groups | None
    constraints: Sequence[LinearConstraint] = ()

    def __call__(self, A: Qubo, count: int = 2) -> Solution:
        return solve_constrained(A, self.solver, count, self.clamp, self.groups, self.constraints)

    def sample(self, A: Qubo, beta: float | None = None) -> Tensor:
        """Return reads ``[batch, reads, n]`` among the allowed states."""
        if len(self.constraints) or not hasattr(self.solver, "search_held"):
            raise QubolearnError(f"{self.solver!r} samples no clamps or groups; use ParallelTempering")
        reads: Tensor = self.solver.sample(A, beta, clamp=self.clamp, groups=self.groups)  # type: ignore[attr-defined]
        return reads


def _check_count(clamp: Tensor, groups: Groups, count: int) -> None:
    check_counts(count=count)
    bits = allowed_bits(clamp, groups)
    few = bits < math.log2(count) - 1e-9
    if bool(few.any()):
        row = int(few.nonzero()[0])
        left = round(2 ** bits[row].item())
        raise QubolearnError(f"count={count}, but clamps and groups of instance {row} allow {left} states")


def _solve_part(part: Reduced, solver: Solver, count: int) -> tuple[Tensor, Mapping[str, Any]]:
    """Return states ``[b, count, f]`` of the free bits, and the solver's info."""
    if part.A.shape[2] == 0:
        return torch.zeros(len(part.rows), 1, 0), {}
    if not len(part.groups):
        solution = solver(part.A, count)
        return solution.states, solution.info
    if hasattr(solver, "search_groups"):
        dense = as_dense(part.A)
        found = solver.search_groups(dense, count, part.groups)
        return best_distinct(dense, found.states, count, distinct=found.distinct).states, found.info
    if hasattr(solver, "search_limited") and not hasattr(solver, "search_reads"):
        free, none = as_clamp(None, *part.A.shape[:2]), Inequalities((), *part.A.shape[:2])
        found = solver.search_limited(part.A.to("cpu"), count, free, part.groups, none)
        return _repaired(part, found.states, count), found.info
    penalized, _ = with_penalties(part.A, part.groups)
    if hasattr(solver, "search_reads"):
        found = solver.search_reads(penalized)
        return _repaired(part, found.states, count), found.info
    solution = solver(penalized, count)
    return _repaired(part, solution.states, count), solution.info


def _repaired(part: Reduced, states: Tensor, count: int) -> Tensor:
    """Return the lowest allowed states in and around states ``[b, c, f]``."""
    reads = states.cpu().to(torch.int8).contiguous().numpy()
    return torch.from_numpy(SparseForm.make(part.A, part.groups).refine(reads, count)[0])


def _joined(infos: Sequence[tuple[Tensor, Mapping[str, Any]]], batch: int) -> dict[str, Any]:
    """Join the info of all parts: values per instance, others of the first."""
    joined: dict[str, Any] = {}
    for rows, info in infos:
        for key, value in info.items():
            if isinstance(value, Tensor) and value.ndim and len(value) == len(rows):
                whole = joined.setdefault(key, value.new_ones(batch, *value.shape[1:]))
                whole[rows.to(value.device)] = value
            else:
                joined.setdefault(key, value)
    return joined
