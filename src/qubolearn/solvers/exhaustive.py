"""Exhaustive search: the exact best states of a batch of QUBOs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.solvers.contract import Found, QuboSolver
from qubolearn.solvers.exhaustive_torch import code_bits, lowest_codes

__all__ = ["ExhaustiveSearch"]

#: States returned beyond ``count``: the contract ranks them again in float64, which repairs near ties.
SPARE_STATES = 6

MAX_BITS = 24


@dataclass(frozen=True)
class ExhaustiveSearch(QuboSolver):
    """Visits all 2**n states: exact, for small n."""

    def search(self, A: Tensor, count: int) -> Found:
        n = A.shape[2]
        if n > MAX_BITS:
            raise QubolearnError(
                f"exhaustive search over n={n} bits needs 2**{n} states (limit 2**{MAX_BITS}); use simulated annealing"
            )
        A = A if A.dtype == torch.float64 else A.to(torch.float32)
        codes = lowest_codes(A, min(count + SPARE_STATES, 2**n))
        return Found(code_bits(codes, n), {"source": "exhaustive"})
