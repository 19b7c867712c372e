"""The solver to take where nobody has chosen one: it depends on the number of bits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from qubolearn.qubo import Groups
from qubolearn.solvers.annealing import SimulatedAnnealing
from qubolearn.solvers.contract import Found, QuboSolver
from qubolearn.solvers.exhaustive import ExhaustiveSearch
from qubolearn.solvers.tempering import ParallelTempering

__all__ = ["AutoSolver", "auto_solver"]

#: The largest number of bits for which all states are visited in about a millisecond.
EXACT_BITS = 24


def auto_solver(n: int, seed: int | None = 0, groups: Groups | None = None) -> QuboSolver:
    """Exhaustive search where it takes milliseconds; beyond, simulated annealing, or tempering where bits have groups.

    Args:
        n: the number of bits; up to 24 all states are visited.
        seed: the seed of simulated annealing and of tempering.
        groups: the one-hot groups, of which tempering never breaks one; up to 2**24 allowed states are all visited.

    Returns:
        A solver.

    >>> auto_solver(8), auto_solver(40)
    (ExhaustiveSearch(max_bits=None), SimulatedAnnealing(reads=32, sweeps=200, beta_range=None, seed=0))
    """
    if groups:
        free = n - sum(map(len, groups.members)) + sum(math.log2(len(group)) for group in groups.members)
        return ExhaustiveSearch() if free <= EXACT_BITS else ParallelTempering(sweeps=1000, seed=seed)
    return ExhaustiveSearch() if n <= EXACT_BITS else SimulatedAnnealing(reads=32, sweeps=200, seed=seed)


@dataclass(frozen=True)
class AutoSolver(QuboSolver):
    """A solver that takes :func:`auto_solver` for each batch, by its number of bits; ``info["source"]`` says which.

    Args:
        seed: the seed of simulated annealing.

    >>> import torch
    >>> A = -torch.eye(3)[None]
    >>> AutoSolver()(A, count=1).states.tolist()
    [[[1.0, 1.0, 1.0]]]
    """

    seed: int | None = 0
    takes_sparse: ClassVar[bool] = True

    def search(self, A: Tensor, count: int) -> Found:
        solver = auto_solver(A.shape[2], self.seed)
        return solver.search(A if solver.takes_sparse or isinstance(A, Tensor) else A.dense(), count)
