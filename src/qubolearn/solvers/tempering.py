"""Parallel tempering (replica exchange) of batches, with clamps and one-hot groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from qubolearn.errors import QubolearnError, check_counts, check_nondecreasing, check_numbers
from qubolearn.kernels import kernel_call, native
from qubolearn.qubo import Clamp, Groups, Qubo, as_clamp, as_groups, check_qubo, propagate_clamps
from qubolearn.qubo.sparse import check_memory
from qubolearn.solvers.contract import QuboSolver, SearchResult, check_exponents, instance_seeds
from qubolearn.solvers.forms import Bits, Floats, Seeds, SparseForm

__all__ = ["ParallelTempering", "move_chains"]

#: Replicas per vector.
LANES = 16
#: The most sweeps to choose temperatures.
LADDER_SWEEPS = 360


@dataclass(frozen=True)
class ParallelTempering(QuboSolver):
    """Search with copies of each QUBO at different temperatures, which swap states after every sweep.

    Use it if bits are in groups: a move draws which bit of a group is 1. Large sparse QUBOs, and
    groups that exclude each other by strong couplings, are for ``PopulationAnnealing``. Reference:
    Hukushima and Nemoto, Journal of the Physical Society of Japan 65, 1604 (1996).

    Args:
        replicas: copies of each QUBO, a multiple of 16.
        sweeps: the most sweeps per QUBO.
        target: an energy that ends the search, such as 0 if energies count violated rules, or
            ``"bound"``, a lower bound: a state that reaches it is proven to be lowest. With
            ``count=1`` it also excludes bits that are 1 in no such state; if no state reaches it,
            a second run follows.
        betas: 1/temperature of the replicas, from hot to cold; by default measured in at most 360
            sweeps, so that neighbors swap equally often.
        reads: the number of states that :meth:`sample` draws per QUBO.
        seed: fixes the result; instance i draws from a stream of (seed, i) alone.

    ``info`` holds ``betas`` and ``exchange_rates`` of the replicas, and the ``sweeps`` of each
    QUBO. To search one QUBO on all cores, pass it several times. GPUs are not used.

    >>> A = torch.tensor([[[1.0, -3.0], [0.0, 1.0]]])
    >>> ParallelTempering(sweeps=100, seed=0)(A).states.tolist()
    [[[1.0, 1.0], [0.0, 0.0]]]
    """

    replicas: int = LANES
    sweeps: int = 5000
    target: float | Literal["bound"] | None = None
    betas: tuple[float, ...] | None = None
    reads: int = 100
    seed: int | None = None
    takes_sparse: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_counts(replicas=self.replicas, sweeps=self.sweeps, reads=self.reads)
        if self.replicas % LANES:
            raise QubolearnError(f"replicas={self.replicas}; expected a multiple of {LANES}")
        target = 0.0 if self.target in (None, "bound") else self.target
        if not (isinstance(target, int | float) and math.isfinite(target)):
            raise QubolearnError(f"target={target}; expected an energy, 'bound', or None for all sweeps")
        if self.betas is not None:
            check_nondecreasing(self.replicas, betas=self.betas)
        instance_seeds(self.seed, 0)

    def search(self, A: Qubo, count: int) -> SearchResult:
        return self.search_held(A, count, as_clamp(None, *A.shape[:2]), Groups(()))

    def search_held(self, A: Qubo, count: int, clamp: Tensor, groups: Groups) -> SearchResult:
        self._check_memory(A, 0)
        form, held = SparseForm.make(A, groups), np.ascontiguousarray(clamp.numpy(), np.int8)
        if self.target == "bound":
            targets = form.lower_bounds(held)
        else:
            targets = np.full(len(held), -np.inf if self.target is None else self.target) / form.scale
        betas, (batch, n) = self._betas(form), held.shape
        states, rates = np.zeros((batch, count, n), np.int8), np.zeros((batch, self.replicas - 1))
        swept = np.zeros(batch, np.int64)
        with self._kernel_call(form, max(self.sweeps, LADDER_SWEEPS)) as options:
            goal = (betas, self.sweeps, targets, states, rates, swept)
            native().temper(self._problem(form, held), *goal, **options)
        info = {"source": "simulated", "betas": torch.from_numpy(betas / form.scale[:, None])}
        info |= {"exchange_rates": torch.from_numpy(rates), "sweeps": torch.from_numpy(swept)}
        return SearchResult(torch.from_numpy(states), info)

    def sample(
        self, A: Qubo, beta: float | None = None, *, clamp: Clamp | None = None, groups: Groups | None = None
    ) -> Tensor:
        """Return ``reads`` draws from p(x) ∝ exp(-β xᵀAx) over allowed states.

        Replicas mix for half of the sweeps; reads are taken evenly over the other half. Without
        ``beta`` it is the coldest of ``betas``.

        >>> A = torch.zeros(1, 2, 2)
        >>> solver = ParallelTempering(sweeps=4000, reads=2000, seed=0)
        >>> solver.sample(A, 1.0).mean((0, 1)).round(decimals=1)
        tensor([0.5000, 0.5000])
        """
        check_qubo(A)
        if beta is None and self.betas is None:
            raise QubolearnError("beta=None, and the solver has no betas; pass the β of the reads")
        check_numbers(beta=1.0 if beta is None else beta)
        groups, (batch, n, _) = as_groups(groups), A.shape
        held = np.ascontiguousarray(propagate_clamps(as_clamp(clamp, batch, n), groups).numpy(), np.int8)
        if batch == 0:
            return torch.zeros(0, self.reads, n, dtype=A.dtype, device=A.device)
        self._check_memory(A, self.reads)
        form = SparseForm.make(A.detach(), groups)
        betas = self._betas(form) if beta is None else np.zeros((batch, self.replicas))
        check_exponents(self.betas[-1] if beta is None else beta, form.scale)  # type: ignore[index]
        colds = betas[:, -1].copy() if beta is None else beta * form.scale
        burn, thin = self.sweeps // 2, max(1, self.sweeps // 2 // self.reads)
        reads = np.zeros((batch, self.reads, n), np.int8)
        with self._kernel_call(form, burn + thin * self.reads) as options:
            native().temper_sample(self._problem(form, held), betas, colds, burn, thin, reads, **options)
        return torch.from_numpy(reads).to(A.device, A.dtype)

    def _check_memory(self, A: Qubo, reads: int) -> None:
        batch, n, _ = A.shape
        check_memory(8 * self.replicas * n, A, self.replicas, "replica")
        check_memory(batch * reads * n * (1 + A.dtype.itemsize), A, reads)

    def _problem(self, form: SparseForm, held: Bits) -> tuple[Any, ...]:
        return form.qubos, form.units, held, instance_seeds(self.seed, len(held))

    def _betas(self, form: SparseForm) -> Floats:
        """Return β of the replicas of each scaled QUBO, 0 if the kernel chooses them."""
        if self.betas is None:
            return np.zeros((len(form.scale), self.replicas))
        return np.multiply.outer(form.scale, np.array(self.betas, np.float64))

    def _kernel_call(self, form: SparseForm, sweeps: int) -> AbstractContextManager[dict[str, Any]]:
        per_sweep = form.linear.size * 5e-9 + form.quadratic.size * 2e-10
        return kernel_call("parallel tempering", sweeps * self.replicas * per_sweep)


def move_chains(
    A: Qubo, states: Tensor, betas: Sequence[float], sweeps: int, seeds: Seeds, groups: Groups | None
) -> None:
    """Move Markov chains ``[batch, chains, n]``, int8 on the CPU, in place.

    Chain c moves at ``betas[c]``; ``seeds [batch]`` fix the moves. Each group has one bit set.
    """
    groups, (batch, chains, n) = as_groups(groups), states.shape
    held = np.ascontiguousarray(propagate_clamps(as_clamp(None, batch, n), groups).numpy(), np.int8)
    form = SparseForm.make(A.detach(), groups)
    check_exponents(max(betas), form.scale)
    colds, moved = np.multiply.outer(form.scale, np.asarray(betas, np.float64)), states.contiguous()
    with kernel_call("chains", batch * chains * n * sweeps * 1e-8) as options:
        native().move_chains((form.qubos, form.units, held, seeds), colds, sweeps, moved.numpy(), **options)
    states.copy_(moved)
