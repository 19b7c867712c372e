"""Solving for permutations: rows as one-hot groups, columns by couplings that make every repeated column too dear."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.qubo import Groups, Qubo, as_dense
from qubolearn.solvers.contract import SearchResult, Solution, Solver, solve

__all__ = ["Assignment", "column_weights"]

#: The shares of the bound that are tried.
SHARES = (0.25, 0.5, 1.0)
#: By how much a weight exceeds the bound that suffices, as a share of it, and at least.
MARGIN, LEAST_MARGIN = 0.01, 1e-3


@dataclass(frozen=True)
class Assignment:
    """A solver of QUBOs of k² bits whose answer is a permutation: bit ``i * k + a`` says that i is matched with a.

    The bits of each i are a one-hot group, and two ones in a column cost a weight. :func:`column_weights` bounds the
    weight above which the lowest state is a permutation, but the ridges between permutations are as high. So a quarter
    of it is tried first: where that leads to a permutation, it is the lowest one, too. The others are solved again
    with twice the weight, at last with the bound. Energies of permutations are those of A; any other state that the
    solver returns has the cost of its columns in its energy.

    Args:
        solver: any solver; ParallelTempering moves within groups, others get penalties for them.

    >>> from qubolearn import ExhaustiveSearch
    >>> A = torch.diag(torch.tensor([-3.0, -2.0, -2.5, 0.0]))[None]  # both rows want column 0
    >>> Assignment(ExhaustiveSearch())(A, 1).states.tolist()
    [[[0.0, 1.0, 1.0, 0.0]]]
    """

    solver: Solver

    def __call__(self, A: Qubo, count: int = 1) -> Solution:
        dense = as_dense(A.detach())
        k = math.isqrt(dense.shape[-1])
        if k * k != dense.shape[-1]:
            raise QubolearnError(f"a matching of k things has k² bits, but the QUBO has n={dense.shape[-1]}")
        weights = column_weights(dense)
        found = self._solve(dense, SHARES[0] * weights, count)
        states, lowest = found.states, found.energies
        for share in SHARES[1:]:
            wrong = (states[:, 0].reshape(-1, k, k).sum(1) != 1).any(1).nonzero()[:, 0]
            if not len(wrong):
                break
            again = self._solve(dense[wrong], share * weights[wrong], count)
            states = states.index_copy(0, wrong, again.states)
            lowest = lowest.index_copy(0, wrong, again.energies)
        return Solution(states, lowest, {"source": found.info.get("source", "unknown")})

    def search_groups(self, A: Tensor, count: int, groups: Groups) -> SearchResult:
        """What :func:`qubolearn.solve` calls where the rows are given as groups; other groups are refused."""
        k = math.isqrt(A.shape[-1])
        if groups != Groups.consecutive(k, k):
            raise QubolearnError(f"Assignment solves with the k rows of k² bits as groups, not with {groups}")
        found = self(A, count)
        return SearchResult(found.states, found.info)

    def _solve(self, A: Tensor, weights: Tensor, count: int) -> Solution:
        """A with weights ``[batch]`` on pairs of ones in a column, one 1 in each row."""
        k = math.isqrt(A.shape[-1])
        column = torch.arange(k * k, device=A.device) % k
        pairs = (column[:, None] == column).to(A.dtype).fill_diagonal_(0)
        guarded = A + 0.5 * weights[:, None, None] * pairs
        return solve(guarded, self.solver, count, groups=Groups.consecutive(k, k))

    def with_seed(self, seed: int) -> Assignment:
        """The same with this seed, where the solver takes one."""
        with_seed: Any = getattr(self.solver, "with_seed", None)
        return self if with_seed is None else replace(self, solver=with_seed(seed))


def column_weights(A: Tensor) -> Tensor:
    """What two ones in a column must cost, so that every lowest state with one 1 a row is a permutation: ``[batch]``.

    Where a column holds two ones, another one is empty, and moving one of the two there takes away at least one pair.
    The move changes the energy by no more than max_a high_ia - min_a low_ia, where high and low bound what bit ia adds
    to the energy over all states with one 1 in each of the other rows.
    """
    batch, n, _ = A.shape
    k = math.isqrt(n)
    both = (A + A.mT).reshape(batch, n, k, k)  # bit ia against every row j
    own = torch.arange(n, device=A.device) // k == torch.arange(k, device=A.device)[:, None]  # [row j, bit ia]
    linear = A.diagonal(dim1=1, dim2=2)
    high = linear + both.amax(3).masked_fill(own.T, 0.0).sum(2)
    low = linear + both.amin(3).masked_fill(own.T, 0.0).sum(2)
    span = (high.reshape(batch, k, k).amax(2) - low.reshape(batch, k, k).amin(2)).amax(1)
    return span * (1 + MARGIN) + LEAST_MARGIN
