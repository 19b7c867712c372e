"""The solver to take where nobody has chosen one, by the measured curves of docs/solvers.md."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from torch import Tensor

from qubolearn.qubo import Groups, allowed_bits, as_clamp, as_groups
from qubolearn.solvers.annealing import SimulatedAnnealing
from qubolearn.solvers.contract import Found, QuboSolver
from qubolearn.solvers.exhaustive import ExhaustiveSearch
from qubolearn.solvers.tempering import ParallelTempering

__all__ = ["CHOICES", "AutoSolver", "Choice", "auto_solver"]


class Choice(NamedTuple):
    """A solver, and up to which log2 of the number of allowed states it is taken."""

    groups: bool
    bits: float
    solver: QuboSolver


#: The first line that fits is taken. Without groups, bits are those that are not clamped. Whether couplings are few or
#: many, and how many reads share a vector, decides which kernel anneals, and not which solver.
CHOICES = (
    Choice(False, 24, ExhaustiveSearch()),
    Choice(False, 128, SimulatedAnnealing(reads=32, sweeps=250)),
    Choice(False, 1000, SimulatedAnnealing(reads=32, sweeps=1000)),
    Choice(False, math.inf, SimulatedAnnealing(reads=32, sweeps=4000)),
    Choice(True, 14, ExhaustiveSearch()),
    Choice(True, math.inf, ParallelTempering(sweeps=2000)),
)


def auto_solver(n: int, seed: int | None = 0, groups: Groups | None = None, clamp: Tensor | None = None) -> QuboSolver:
    """Exhaustive search where it takes milliseconds; beyond, simulated annealing, or tempering where bits have groups.

    Args:
        n: the number of bits.
        seed: the seed of simulated annealing and of tempering.
        groups: the one-hot groups, which tempering never breaks.
        clamp: the values of clamped bits, ``[batch, n]`` with -1 for free ones; the instance with the most free bits
            decides.

    Returns:
        The solver of the first line of :data:`CHOICES` that fits.

    >>> auto_solver(8), auto_solver(40)
    (ExhaustiveSearch(max_bits=None), SimulatedAnnealing(reads=32, sweeps=250, beta_range=None, seed=0))
    >>> auto_solver(40, groups=Groups.consecutive(10, 4))
    ParallelTempering(replicas=16, sweeps=2000, target=None, betas=None, reads=100, seed=0, ladders=1)
    """
    groups = as_groups(groups)
    bits = allowed_bits(as_clamp(clamp, 1 if clamp is None else len(clamp), n), groups)
    most, grouped = float(bits.max()) if len(bits) else 0.0, len(groups) > 0
    chosen = next(choice for choice in CHOICES if choice.groups == grouped and most <= choice.bits + 1e-9)
    return chosen.solver.with_seed(seed)


@dataclass(frozen=True)
class AutoSolver(QuboSolver):
    """A solver that takes :func:`auto_solver` for each batch, its clamps and groups; ``info["source"]`` says which.

    Args:
        seed: the seed of simulated annealing and of tempering.

    >>> import torch
    >>> A = -torch.eye(3)[None]
    >>> AutoSolver()(A, count=1).states.tolist()
    [[[1.0, 1.0, 1.0]]]
    """

    seed: int | None = 0
    takes_sparse: ClassVar[bool] = True

    def search(self, A: Tensor, count: int) -> Found:
        solver = self.choose(A.shape[2])
        return solver.search(A if solver.takes_sparse or isinstance(A, Tensor) else A.dense(), count)

    def choose(self, n: int, clamp: Tensor | None = None, groups: Groups | None = None) -> QuboSolver:
        """The solver that is taken for QUBOs of n bits with these clamps and groups."""
        return auto_solver(n, self.seed, groups, clamp)
