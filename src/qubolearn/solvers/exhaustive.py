"""Exhaustive search: the exact best states of a batch of QUBOs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from qubolearn.errors import QubolearnError, check_counts
from qubolearn.gpu import exhaustive_triton
from qubolearn.gpu.annealing import available
from qubolearn.kernels import HELD, kernel_call, native
from qubolearn.qubo import FREE, Groups, Inequalities, Qubo, can_read_values
from qubolearn.qubo.algebra import code_bits
from qubolearn.solvers import exhaustive_torch
from qubolearn.solvers.contract import QuboSolver, SearchResult
from qubolearn.solvers.exhaustive_torch import States, group_states

__all__ = ["ExhaustiveSearch", "allowed_states"]

#: The largest n by default: seconds for one QUBO.
MAX_BITS = {"cpu": 36, "cuda": 40}
OTHER_MAX_BITS = 28
#: The largest log2 of the number of allowed states with groups.
GROUPS_BITS = 28
#: Up to this many states torch is faster than branch and bound.
FEW_STATES = 2**13
#: Rough costs of the compiled kernel on one thread, by the bytes of a number.
SECONDS_PER_STATE = {4: 4e-11, 8: 8e-11}
SECONDS_PER_QUBO = 1e-6
#: Energies may overflow if Σ|A_ij| is larger than this.
OVERFLOW = {"float32": 1e37, "float64": 1e306}
#: From this n on the Triton kernel is faster than plain torch.
TRITON_BITS = 15
#: States beyond ``count`` that are ranked again in float64, for near ties.
SPARE_STATES = 6


@dataclass(frozen=True)
class ExhaustiveSearch(QuboSolver):
    """Visit all 2**n states of every QUBO: exact, for small n.

    Results are exact up to float64 rounding; on a GPU up to float32 rounding if more than 8 groups
    of states tie. Gray order as in Mücke, Faster QUBO Brute-Force Solving using Gray Code,
    arXiv:2310.19373 (2023).

    Args:
        max_bits: the largest n accepted, by default 36 on a CPU and 40 on an NVIDIA GPU.

    >>> A = torch.tensor([[[1.0, -3.0], [0.0, 1.0]]])
    >>> ExhaustiveSearch()(A, count=4).energies.tolist()
    [[-1.0, 0.0, 1.0, 1.0]]
    """

    max_bits: int | None = None

    def __post_init__(self) -> None:
        check_counts(max_bits=1 if self.max_bits is None else self.max_bits)

    def search(self, A: Tensor, count: int) -> SearchResult:
        n = A.shape[2]
        limit = MAX_BITS.get(A.device.type, OTHER_MAX_BITS) if self.max_bits is None else self.max_bits
        if n > limit:
            remedy = "use simulated annealing, or raise max_bits"
            raise QubolearnError(f"n={n}: exhaustive search of 2**{n} states (limit 2**{limit}); {remedy}")
        A = A if A.dtype == torch.float64 else A.to(torch.float32)
        if A.is_cpu:
            return _search_cpu(A, count)
        return SearchResult(code_bits(_lowest_codes(A, count), n), {"source": "exhaustive"}, distinct=True)

    def search_groups(self, A: Tensor, count: int, groups: Groups) -> SearchResult:
        """Search the states of consecutive groups of A's first bits."""
        states = allowed_states(A.double(), groups, GROUPS_BITS if self.max_bits is None else self.max_bits)
        if A.is_cpu and len(states.low) * states.high_count > FEW_STATES:
            free = torch.full(A.shape[:2], FREE, dtype=torch.int8)
            return self.search_limited(A, count, free, groups, Inequalities((), *A.shape[:2]))
        codes = exhaustive_torch.lowest_codes(A.double(), count, states)
        return SearchResult(states.of(codes), {"source": "exhaustive"}, distinct=True)

    def search_limited(
        self, A: Qubo, count: int, clamp: Tensor, groups: Groups, limits: Inequalities
    ) -> SearchResult:
        """Search the allowed states by branch and bound."""
        from qubolearn.solvers.inequalities import search_constrained

        return search_constrained(A, count, clamp, groups, limits, self.max_bits)


def allowed_states(A: Tensor, groups: Groups, max_bits: int) -> States:
    """Return all states, at most 2**max_bits, of consecutive groups and other bits."""
    sizes = [len(group) for group in groups.members]
    singles = A.shape[2] - sum(sizes)
    bits = sum(math.log2(size) for size in sizes) + singles
    if bits > max_bits:
        raise QubolearnError(
            f"{len(sizes)} groups and {singles} bits outside them have 2**{bits:.1f} allowed states "
            f"(limit 2**{max_bits}); use tempering, clamp more bits, or raise max_bits"
        )
    return group_states(sizes, singles, A)


def _search_cpu(A: Tensor, count: int) -> SearchResult:
    values = A.contiguous().numpy()
    batch, n = values.shape[:2]
    states, energies = np.empty((batch, count, n), values.dtype), np.empty((batch, count))
    seconds = batch * (2**n * SECONDS_PER_STATE[values.itemsize] + SECONDS_PER_QUBO)
    with kernel_call(f"exhaustive search, n={n}", seconds) as options:
        largest = native().search(values, states, energies, HELD, **options)
    if largest > OVERFLOW["float64"]:
        raise QubolearnError(f"energies of A overflow: |A_ij| add up to {largest:.1e}; divide A by 1e10")
    found = torch.from_numpy(states), torch.from_numpy(energies)
    return SearchResult(found[0], {"source": "exhaustive"}, distinct=True, energies=found[1])


def _lowest_codes(A: Tensor, count: int) -> Tensor:
    n, device = A.shape[2], A.device.type
    if n >= TRITON_BITS and available(A.device):
        overflows = can_read_values(A) and float(A.abs().amax()) * n * n > OVERFLOW["float32"]
        return exhaustive_triton.lowest_codes(A.double() if overflows else A, count)
    # In float32 a GPU may round products to TF32.
    A = A.double() if device == "cuda" else A
    return exhaustive_torch.lowest_codes(A, min(count + SPARE_STATES, 2**n))
