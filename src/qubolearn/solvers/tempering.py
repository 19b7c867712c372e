"""Parallel tempering (replica exchange) of whole batches, dense or sparse, with clamped bits and one-hot groups."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.kernels.parallel import progress, run_tasks, stop_flag
from qubolearn.qubo import Clamp, Groups, Qubo, as_clamp, check_qubo, forced
from qubolearn.solvers.contract import Found, QuboSolver
from qubolearn.solvers.seeds import instance_seeds
from qubolearn.solvers.units import Units, as_units

__all__ = ["ParallelTempering"]

#: Replicas share a vector of so many lanes.
LANES = 16


@dataclass(frozen=True)
class ParallelTempering(QuboSolver):
    """Parallel tempering: ``replicas`` copies of each QUBO at different temperatures, swapped after every sweep.

    Take it where annealing gets stuck: cold replicas search valleys, hot ones carry states over the ridges between
    them. A move draws a bit, or which bit of a one-hot group is 1, from its exact conditional distribution. Clamped
    bits are held, and groups are never broken.

    ``betas``, from hot to cold, are 1/temperature of the replicas. By default each QUBO gets its own: an annealing of
    at most 360 sweeps measures how often moves raise the energy, which says where to begin and end, and the mean
    energy, which says where replicas stand so that neighbours swap equally often.

    A QUBO is done after ``sweeps`` sweeps, or when a state of at most ``target`` is found: 0 where energies count
    violated rules, or what another solver found. With ``count=1`` a target also rules out every bit that is 1 in no
    state of at most that energy, by a bound on the energy; where the target cannot be met, a second run without
    that follows.

    ``info["betas"]`` are the temperatures taken, ``info["exchange_rates"]`` the shares of swaps accepted, and
    ``info["sweeps"]`` how many sweeps each QUBO took. Instance i draws from a stream of (seed, i) alone; the result
    does not depend on the number of threads, over which instances are shared. It runs on the CPU; tensors on other
    devices are copied there. ``reads`` is how many states :meth:`sample` draws of each QUBO.

    >>> A = torch.tensor([[[1.0, -3.0], [0.0, 1.0]]])
    >>> ParallelTempering(sweeps=100, seed=0)(A).states.tolist()
    [[[1.0, 1.0], [0.0, 0.0]]]
    """

    replicas: int = LANES
    sweeps: int = 5000
    target: float | None = None
    betas: tuple[float, ...] | None = None
    reads: int = 100
    seed: int | None = None
    takes_sparse: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.replicas < LANES or self.replicas % LANES:
            raise QubolearnError(f"replicas={self.replicas}; want a multiple of {LANES}, which run side by side")
        if self.sweeps < 1 or self.reads < 1:
            raise QubolearnError(f"sweeps={self.sweeps} and reads={self.reads}; want at least 1 of each")
        if self.target is not None and not math.isfinite(self.target):
            raise QubolearnError(f"target={self.target}; want an energy, or None to use all sweeps")
        if self.betas is not None:
            rising = all(0 < a <= b < math.inf for a, b in zip(self.betas, self.betas[1:], strict=False))
            if len(self.betas) != self.replicas or not rising:
                raise QubolearnError(f"betas={self.betas}; want {self.replicas} numbers above 0, from hot to cold")
        instance_seeds(self.seed, 0)

    def search(self, A: Qubo, count: int) -> Found:
        """The ``count`` lowest states that any replica met, their descents and their neighbours."""
        return self.search_held(A, count, as_clamp(None, *A.shape[:2]), Groups(()))

    def search_held(self, A: Qubo, count: int, clamp: Tensor, groups: Groups) -> Found:
        """The same among the states that clamp ``[batch, n]`` and groups allow; clamp as ``forced`` returns it."""
        from qubolearn.kernels.tempering_numba import temper

        units, seeds = as_units(A, groups), instance_seeds(self.seed, len(clamp))
        batch, n = clamp.shape
        targets = np.full(batch, -np.inf if self.target is None else self.target) / units.scale
        ladders, held = self._ladders(units), clamp.numpy()
        states, betas = np.zeros((batch, count, n), np.int8), np.zeros((batch, self.replicas))
        exchanges, swept = np.zeros((batch, self.replicas - 1)), np.zeros(batch, np.int64)

        def work(some: slice, stop: npt.NDArray[np.uint8]) -> None:
            found = (states[some], betas[some], exchanges[some], swept[some])
            temper(units.problem(some), held[some], seeds[some], ladders[some], self.sweeps, targets[some], stop, found)

        self._share(work, units, self.sweeps)
        info = {"source": "simulated", "betas": torch.from_numpy(betas / units.scale[:, None])}
        info |= {"exchange_rates": torch.from_numpy(exchanges), "sweeps": torch.from_numpy(swept)}
        return Found(torch.from_numpy(states), info)

    def sample(
        self, A: Qubo, beta: float | None = None, *, clamp: Clamp | None = None, groups: Groups | None = None
    ) -> Tensor:
        """``reads`` draws from p(x) ∝ exp(-β xᵀAx) over allowed states: A -> ``[batch, reads, n]`` in A's dtype.

        Replicas at β and hotter ones mix for half of the sweeps; over the other half reads are taken at equal
        distances from the one at β. Without ``beta`` that is the coldest of ``betas``.

        >>> A = torch.zeros(1, 2, 2)
        >>> ParallelTempering(sweeps=4000, reads=2000, seed=0).sample(A, 1.0).mean((0, 1)).round(decimals=1)
        tensor([0.5000, 0.5000])
        """
        from qubolearn.kernels.tempering_numba import sample

        check_qubo(A)
        if beta is None and self.betas is None:
            raise QubolearnError("beta=None, and betas are not given; say at which temperature reads are wanted")
        if beta is not None and not 0 < beta < math.inf:
            raise QubolearnError(f"beta={beta} must be finite and above 0")
        groups, (batch, n, _) = groups or Groups(()), A.shape
        held = forced(as_clamp(clamp, batch, n), groups).numpy()
        if batch == 0:
            return torch.zeros(0, self.reads, n, dtype=A.dtype, device=A.device)
        units, seeds = as_units(A.detach(), groups), instance_seeds(self.seed, batch)
        ladders = self._ladders(units) if beta is None else np.zeros((batch, self.replicas))
        colds = ladders[:, -1] if beta is None else beta * units.scale
        reads = np.zeros((batch, self.reads, n), np.int8)
        burn, thin = self.sweeps // 2, max(1, self.sweeps // 2 // self.reads)

        def work(some: slice, stop: npt.NDArray[np.uint8]) -> None:
            sample(
                units.problem(some), held[some], seeds[some], ladders[some], colds[some], burn, thin, stop, reads[some]
            )

        self._share(work, units, burn + thin * self.reads)
        return torch.from_numpy(reads).to(A.device, A.dtype)

    def _ladders(self, units: Units) -> npt.NDArray[np.float64]:
        """β of the replicas of each QUBO in the units of the kernel, 0 where it is to choose them."""
        if self.betas is None:
            return np.zeros((len(units.scale), self.replicas))
        return np.multiply.outer(units.scale, self.betas)

    def _share(self, work: Any, units: Units, sweeps: int) -> None:
        """Run work(some instances, stop flag) on all threads, with a progress bar where that is long."""
        batch, stop = len(units.scale), stop_flag()
        seconds = batch * sweeps * self.replicas * (units.linear.shape[1] * 5e-9 + units.quadratic.shape[1] * 2e-10)
        with progress("parallel tempering", batch, seconds) as advance:
            run_tasks(lambda first, last: work(slice(first, last), stop), batch, seconds, advance, stop=stop)
