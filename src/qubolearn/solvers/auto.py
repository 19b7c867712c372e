"""The solver to take where nobody has chosen one: it depends on the number of bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from qubolearn.solvers.annealing import SimulatedAnnealing
from qubolearn.solvers.contract import Found, QuboSolver
from qubolearn.solvers.exhaustive import ExhaustiveSearch

__all__ = ["AutoSolver", "auto_solver"]

#: Up to so many bits all states are visited in about a millisecond.
EXACT_BITS = 24


def auto_solver(n: int, seed: int | None = 0) -> QuboSolver:
    """Exhaustive search where it takes milliseconds, simulated annealing beyond.

    >>> auto_solver(8), auto_solver(40)
    (ExhaustiveSearch(max_bits=None), SimulatedAnnealing(reads=32, sweeps=200, beta_range=None, seed=0))
    """
    return ExhaustiveSearch() if n <= EXACT_BITS else SimulatedAnnealing(reads=32, sweeps=200, seed=seed)


@dataclass(frozen=True)
class AutoSolver(QuboSolver):
    """:func:`auto_solver` for the number of bits of each batch that it is given; ``info["source"]`` says which it was.

    Args:
        seed: of simulated annealing.
    """

    seed: int | None = 0
    takes_sparse: ClassVar[bool] = True

    def search(self, A: Tensor, count: int) -> Found:
        solver = auto_solver(A.shape[2], self.seed)
        return solver.search(A if solver.takes_sparse or isinstance(A, Tensor) else A.dense(), count)
