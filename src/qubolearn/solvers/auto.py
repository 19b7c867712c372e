"""The default solver, chosen by the measured curves of docs/solvers.md."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from qubolearn.errors import check_numbers
from qubolearn.qubo import Groups, Inequalities, Qubo, allowed_bits, as_clamp, as_groups
from qubolearn.solvers.annealing import SimulatedAnnealing
from qubolearn.solvers.constrained import solve_constrained
from qubolearn.solvers.contract import QuboSolver, SearchResult, best_distinct, search_for
from qubolearn.solvers.exhaustive import ExhaustiveSearch
from qubolearn.solvers.forms import SparseForm
from qubolearn.solvers.population import PopulationAnnealing
from qubolearn.solvers.tempering import ParallelTempering

__all__ = ["CHOICES", "AutoSolver", "Choice", "auto_solver"]


class Choice(NamedTuple):
    """A solver, and its limits of allowed states (log2) and neighbors per bit."""

    groups: bool
    bits: float
    solver: QuboSolver
    neighbors: float = math.inf


#: The first line that fits is used. Without groups, clamped bits do not count.
CHOICES = (
    Choice(False, 24, ExhaustiveSearch()),
    Choice(False, 128, SimulatedAnnealing(reads=32, sweeps=250)),
    Choice(False, 1000, PopulationAnnealing(sweeps=1000), neighbors=100),
    Choice(False, math.inf, PopulationAnnealing(sweeps=4000), neighbors=100),
    Choice(False, 1000, SimulatedAnnealing(reads=32, sweeps=1000, beta_range="fields")),
    Choice(False, math.inf, SimulatedAnnealing(reads=16, sweeps=3000, beta_range="fields")),
    Choice(True, 14, ExhaustiveSearch()),
    Choice(True, math.inf, ParallelTempering(sweeps=2000)),
)


#: Under inequalities: exact up to this log2 of states, then this solver.
EXACT_CONSTRAINED_BITS = 20
CONSTRAINED = PopulationAnnealing(sweeps=1000)


def auto_solver(
    n: int,
    seed: int | None = 0,
    groups: Groups | None = None,
    clamp: Tensor | None = None,
    neighbors: float = math.inf,
) -> QuboSolver:
    """Return exhaustive search if it takes milliseconds, else the best solver by measurement.

    Args:
        n: the number of bits.
        seed: the seed of solvers that draw random numbers.
        groups: the one-hot groups.
        clamp: the values of clamped bits, ``[batch, n]`` with -1 for free ones.
        neighbors: the mean number of neighbors of a bit, by default many; twice that for fractional couplings.

    >>> auto_solver(8)
    ExhaustiveSearch(max_bits=None)
    >>> auto_solver(40)
    SimulatedAnnealing(reads=32, sweeps=250, beta_range=None, seed=0)
    >>> auto_solver(2000, neighbors=20)
    PopulationAnnealing(sweeps=4000, reads=64, seed=0, seconds=None, target=None)
    >>> auto_solver(40, groups=Groups.consecutive(10, 4))
    ParallelTempering(replicas=16, sweeps=2000, target=None, betas=None, reads=100, seed=0)
    """
    groups = as_groups(groups)
    bits = allowed_bits(as_clamp(clamp, 1 if clamp is None else len(clamp), n), groups)
    most, grouped = float(bits.max()) if len(bits) else 0.0, len(groups) > 0
    fits = (c for c in CHOICES if c.groups == grouped and most <= c.bits + 1e-9 and neighbors <= c.neighbors)
    return next(fits).solver.with_seed(seed)


def _neighbors(A: Qubo) -> float:
    """Return the mean neighbors of a bit, twice for fractions, infinity on a GPU."""
    n = A.shape[2]
    if not A.is_cpu or n <= CHOICES[1].bits:
        return math.inf
    if isinstance(A, Tensor):
        coupled, values = (A != 0).any(0), A
        neighbors = float((coupled | coupled.mT).sum() - coupled.diagonal().sum()) / n
    else:
        values, neighbors = A.quadratic, 2 * A.edges.shape[1] / n
    return neighbors if bool((values == values.round()).all()) else 2 * neighbors


def _explained(info: Mapping[str, Any], solver: QuboSolver, A: Qubo, why: str = "") -> dict[str, Any]:
    if math.isfinite(neighbors := _neighbors(A)):
        why = f" with {neighbors:.3g} neighbors on average (fractional ones count twice){why}"
    return {**info, "choice": f"{solver!r} for {A.shape[2]} bits{why}"}


@dataclass(frozen=True)
class AutoSolver(QuboSolver):
    """Solve with :func:`auto_solver` for each batch, its clamps, groups and inequalities.

    ``info["choice"]`` names the solver and the reason, ``info["source"]`` shows whether it is exact.
    QUBOs with groups are tempered, then searched by a population unless a lower bound was reached.
    Selection by features of a problem: Rice, Advances in Computers 15, 65 (1976).

    Args:
        seed: the seed of solvers that draw random numbers.
        seconds: a time limit for the batch instead of sweeps. The result then depends on the machine.

    >>> import torch
    >>> A = -torch.eye(3)[None]
    >>> AutoSolver()(A, count=1).states.tolist()
    [[[1.0, 1.0, 1.0]]]
    """

    seed: int | None = 0
    seconds: float | None = None
    takes_sparse: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_numbers(seconds=1.0 if self.seconds is None else self.seconds)

    def search(self, A: Tensor, count: int) -> SearchResult:
        solver = auto_solver(A.shape[2], self.seed, neighbors=_neighbors(A))
        given = A if solver.takes_sparse or isinstance(A, Tensor) else A.dense()
        found = self._timed(solver, lambda solver: solver.search(given, count))
        return found._replace(info=_explained(found.info, solver, A))

    def search_limited(
        self, A: Qubo, count: int, clamp: Tensor, groups: Groups, limits: Inequalities
    ) -> SearchResult:
        exact = float(allowed_bits(clamp, groups).max()) <= EXACT_CONSTRAINED_BITS
        solver = ExhaustiveSearch() if exact else CONSTRAINED.with_seed(self.seed)
        found = self._timed(solver, lambda solver: solver.search_limited(A, count, clamp, groups, limits))
        return found._replace(info=_explained(found.info, solver, A, " under inequalities"))

    def search_held(self, A: Qubo, count: int, clamp: Tensor, groups: Groups) -> SearchResult:
        solver = auto_solver(A.shape[2], self.seed, groups, clamp, _neighbors(A))
        tempers = isinstance(solver, ParallelTempering)
        first = self._held(solver, A, count, clamp, groups, 0.5 if tempers else 1.0)
        if not tempers:
            why = " with clamps" + (" and groups" if len(groups) else "")
            return first._replace(info=_explained(first.info, solver, A, why))
        form = SparseForm.make(A, groups)
        proven = torch.from_numpy((form.lower_bounds(clamp.numpy()) + form.tolerance()) * form.scale)
        lowest = best_distinct(A, first.states, 1).energies[:, 0].cpu()
        left = (lowest > proven).nonzero()[:, 0]
        states, second = first.states, CONSTRAINED.with_seed(self.seed)
        if len(left):
            there = left.to(A.device)
            more = self._held(second, A[there], count, clamp[left], groups, 0.5).states
            states = torch.cat([states, states[:, :1].repeat(1, more.shape[1], 1)], 1)
            states[there, first.states.shape[1] :] = more
        also = f" with groups, then {second!r} for those not proven lowest"
        return SearchResult(states, _explained(first.info, solver, A, also))

    def _held(
        self, solver: QuboSolver, A: Qubo, count: int, clamp: Tensor, groups: Groups, share: float
    ) -> SearchResult:
        def search(solver: QuboSolver) -> SearchResult:
            found = solve_constrained(A, solver, count, clamp, groups)
            return SearchResult(found.states, found.info)

        return self._timed(solver, search, share)

    def _timed(
        self, solver: QuboSolver, search: Callable[[Any], SearchResult], share: float = 1.0
    ) -> SearchResult:
        """Search with a solver, or for this share of the seconds."""
        if self.seconds is None or isinstance(solver, ExhaustiveSearch):
            return search(solver)
        return search_for(share * self.seconds, lambda sweeps: search(replace(solver, sweeps=sweeps)))  # type: ignore[type-var]
