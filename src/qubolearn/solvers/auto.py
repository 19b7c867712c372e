"""The default solver for a QUBO, chosen by the measured curves of docs/solvers.md."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from qubolearn.qubo import Groups, Inequalities, Qubo, allowed_bits, as_clamp, as_groups
from qubolearn.solvers.annealing import SimulatedAnnealing
from qubolearn.solvers.constrained import solve_constrained
from qubolearn.solvers.contract import QuboSolver, SearchResult
from qubolearn.solvers.exhaustive import ExhaustiveSearch
from qubolearn.solvers.forms import SparseForm
from qubolearn.solvers.population import PopulationAnnealing
from qubolearn.solvers.tempering import ParallelTempering

__all__ = ["CHOICES", "AutoSolver", "Choice", "auto_solver"]


class Choice(NamedTuple):
    """A solver, and the largest log2 of the number of allowed states and neighbors per bit for which it is used."""

    groups: bool
    bits: float
    solver: QuboSolver
    neighbors: float = math.inf


#: The first line that fits is used. Without groups, bits are those that are not clamped.
CHOICES = (
    Choice(False, 24, ExhaustiveSearch()),
    Choice(False, 128, SimulatedAnnealing(reads=32, sweeps=250)),
    Choice(False, 1000, PopulationAnnealing(sweeps=1000), neighbors=100),
    Choice(False, math.inf, PopulationAnnealing(sweeps=4000), neighbors=100),
    Choice(False, 1000, SimulatedAnnealing(reads=32, sweeps=1000)),
    Choice(False, math.inf, SimulatedAnnealing(reads=32, sweeps=4000)),
    Choice(True, 14, ExhaustiveSearch()),
    Choice(True, math.inf, ParallelTempering(sweeps=2000)),
)


#: Up to this log2 of the number of states, QUBOs under inequalities are solved exactly.
EXACT_CONSTRAINED_BITS = 20
#: What also searches QUBOs with groups, in about the time of tempering.
SECOND = SimulatedAnnealing(reads=32, sweeps=250)


def auto_solver(
    n: int,
    seed: int | None = 0,
    groups: Groups | None = None,
    clamp: Tensor | None = None,
    neighbors: float = math.inf,
) -> QuboSolver:
    """Return exhaustive search if it takes milliseconds, otherwise what was best in its time on such QUBOs.

    Args:
        n: the number of bits.
        seed: the seed of solvers that draw random numbers.
        groups: the one-hot groups, which tempering never breaks.
        clamp: the values of clamped bits, ``[batch, n]`` with -1 for free ones; the instance with the most free bits
            decides.
        neighbors: the mean number of neighbors of a bit, by default many.

    >>> auto_solver(8), auto_solver(40)
    (ExhaustiveSearch(max_bits=None), SimulatedAnnealing(reads=32, sweeps=250, beta_range=None, seed=0))
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
    """Return the mean number of neighbors of a bit; on a GPU infinity, where only annealing runs."""
    n = A.shape[2]
    if not A.is_cpu or n <= CHOICES[1].bits:
        return math.inf
    if isinstance(A, Tensor):
        coupled = (A != 0).any(0)
        return float((coupled | coupled.mT).sum() - coupled.diagonal().sum()) / n
    return 2 * A.edges.shape[1] / n


def _explained(info: Mapping[str, Any], solver: QuboSolver, A: Qubo, why: str = "") -> dict[str, Any]:
    """Return the info with the solver that was chosen, and why."""
    neighbors = _neighbors(A)
    density = f" with {neighbors:.3g} neighbors on average" if math.isfinite(neighbors) else ""
    return {**info, "choice": f"{solver!r} for {A.shape[2]} bits{density}{why}"}


@dataclass(frozen=True)
class AutoSolver(QuboSolver):
    """Solve with :func:`auto_solver` for each batch, its clamps and groups.

    ``info["choice"]`` names the solver and the reason, ``info["source"]`` shows if it is exact.
    QUBOs with groups are tempered, and annealed as well unless tempering reached a proven lower bound. Neither is
    better on all problems: tempering wins on Sudoku and colorings, annealing on assignments with capacities.

    Args:
        seed: the seed of solvers that draw random numbers.

    >>> import torch
    >>> A = -torch.eye(3)[None]
    >>> AutoSolver()(A, count=1).states.tolist()
    [[[1.0, 1.0, 1.0]]]
    """

    seed: int | None = 0
    takes_sparse: ClassVar[bool] = True

    def search(self, A: Tensor, count: int) -> SearchResult:
        solver = auto_solver(A.shape[2], self.seed, neighbors=_neighbors(A))
        found = solver.search(A if solver.takes_sparse or isinstance(A, Tensor) else A.dense(), count)
        return found._replace(info=_explained(found.info, solver, A))

    def search_limited(self, A: Qubo, count: int, clamp: Tensor, groups: Groups, limits: Inequalities) -> SearchResult:
        """Search the states that clamp, groups and inequalities allow, exactly if there are at most 2**20."""
        exact = float(allowed_bits(clamp, groups).max()) <= EXACT_CONSTRAINED_BITS
        solver = ExhaustiveSearch() if exact else SECOND.with_seed(self.seed)
        found: SearchResult = solver.search_limited(A, count, clamp, groups, limits)
        return found._replace(info=_explained(found.info, solver, A, " under inequalities"))

    def search_held(self, A: Qubo, count: int, clamp: Tensor, groups: Groups) -> SearchResult:
        """Search the states that clamp ``[batch, n]`` and groups allow."""
        solver = auto_solver(A.shape[2], self.seed, groups, clamp, _neighbors(A))
        first = solve_constrained(A, solver, count, clamp, groups)
        if not isinstance(solver, ParallelTempering):
            why = " with clamps" + (" and groups" if len(groups) else "")
            return SearchResult(first.states, _explained(first.info, solver, A, why))
        states, form = first.states.repeat(1, 2, 1), SparseForm.make(A, groups)
        proven = (form.lower_bounds(clamp.numpy()) + form.tolerance()) * form.scale
        left = (first.energies[:, 0].cpu() > torch.from_numpy(proven)).nonzero()[:, 0]
        if len(left):
            there = left.to(A.device)
            second = solve_constrained(A[there], SECOND.with_seed(self.seed), count, clamp[left], groups)
            states[there, count:] = second.states
        also = f" with groups, then {SECOND!r} for those not proven lowest"
        return SearchResult(states, _explained(first.info, solver, A, also))
