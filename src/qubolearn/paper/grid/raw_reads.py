"""A sampler's reads as they are: x* and x⁺ are the lowest among them, and nothing completes them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor

from qubolearn.solvers.contract import Found, QuboSolver

__all__ = ["RawReads"]


@dataclass(frozen=True)
class RawReads(QuboSolver):
    """The lowest states among the reads of a sampler alone, as the paper's training takes them.

    Our own solvers add the neighbours of x*, since reads rarely hold the true x⁺. Where all reads of a QUBO are one
    state, which leaves no x⁺ at all, the last read has one bit flipped, chosen by ``seed``.

    >>> from qubolearn import SimulatedAnnealing
    >>> A = torch.tensor([[[1.0, -3.0], [0.0, 1.0]]])
    >>> RawReads(SimulatedAnnealing(reads=10, seed=0))(A, count=1).states.tolist()
    [[[1.0, 1.0]]]
    """

    sampler: Any  # a SamplingSolver
    seed: int | None = None

    def search(self, A: Tensor, count: int) -> Found:
        reads = self.sampler.sample(A).clone()
        alone = (reads == reads[:, :1]).all(2).all(1)
        generator = torch.Generator().manual_seed(self.seed or 0)
        bit = torch.randint(A.shape[2], (len(A),), generator=generator).to(A.device)[alone]
        rows = alone.nonzero()[:, 0]
        reads[rows, -1, bit] = 1 - reads[rows, -1, bit]
        return Found(reads, {"source": "simulated"})

    def with_seed(self, seed: int | None) -> Self:
        """The same with this seed, of the sampler too."""
        return replace(self, sampler=self.sampler.with_seed(seed), seed=seed)
