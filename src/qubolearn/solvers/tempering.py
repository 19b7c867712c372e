"""Parallel tempering (replica exchange) of whole batches, dense or sparse, with clamped bits and one-hot groups."""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.kernels.parallel import progress, run_tasks, stop_flag
from qubolearn.qubo import Clamp, Groups, Qubo, SparseQubo, as_clamp, as_groups, check_qubo, forced
from qubolearn.qubo.checks import check_memory
from qubolearn.solvers.contract import Found, QuboSolver
from qubolearn.solvers.seeds import instance_seeds
from qubolearn.solvers.units import Units, as_units, best_around, lower_bounds
from qubolearn.typed import check_counts, check_numbers, check_rising

__all__ = ["ParallelTempering"]

#: Replicas share a vector of so many lanes.
LANES = 16


#: A program of the GPU holds one QUBO, and is slower than a core: smaller batches, and larger groups, stay on the CPU.
GPU_BATCH, GPU_OPTIONS = 64, 128
#: The most sweeps that choosing temperatures takes.
LADDER_SWEEPS = 360


def on_gpu(A: Qubo, groups: Groups, replicas: int, ladders: int = 1) -> bool:
    """Whether A is tempered where it lies, on an NVIDIA GPU."""
    if replicas not in (16, 32, 64):  # powers of two that fit beside each other
        return False
    if A.device.type != "cuda" or find_spec("triton") is None:
        return False
    return len(A) * ladders >= GPU_BATCH and max(map(len, groups.members), default=1) <= GPU_OPTIONS


@dataclass(frozen=True)
class ParallelTempering(QuboSolver):
    """Parallel tempering: ``replicas`` copies of each QUBO at different temperatures, swapped after every sweep.

    Take it where annealing gets stuck: cold replicas search valleys, hot ones carry states over the ridges between
    them. A move draws a bit, or which bit of a one-hot group is 1, from its exact conditional distribution. Clamped
    bits are held, and groups are never broken.

    Args:
        replicas: copies of each QUBO, a multiple of 16.
        sweeps: after so many a QUBO is done, or earlier when a state of at most ``target`` is found.
        target: an energy: 0 where energies count violated rules, or what another solver found. ``"bound"`` is the sum
            of what each bit or group, and each negative coupling, can add at best: a state that reaches it is proven
            to be lowest. With ``count=1`` a target also rules out every bit that is 1 in no state of at most that
            energy; where the target cannot be met, a second run without that follows.
        betas: 1/temperature of the replicas, from hot to cold. By default each QUBO gets its own: an annealing of at
            most 360 sweeps measures how often moves raise the energy, which says where to begin and end, and the mean
            energy, which says where replicas stand so that neighbours swap equally often.
        reads: how many states :meth:`sample` draws of each QUBO.
        seed: fixes the result; instance i draws from a stream of (seed, i) alone.
        ladders: independent sets of replicas that search each QUBO; the lowest states of all are kept. They share
            threads as instances do, so that several cores search one QUBO. On a CPU the first to meet a target, by
            sweeps, ends the others, and its states are the answer.

    ``info["betas"]`` are the temperatures taken, ``[batch, replicas]``, or ``[batch, ladders, replicas]`` with several
    ladders; ``info["exchange_rates"]`` are the shares of swaps accepted, NaN where another ladder ended the search, and
    ``info["sweeps"]`` how many sweeps each QUBO took, over all ladders. The result does not depend on the number of
    threads, over which instances are shared. Batches of 64 and more that lie on an NVIDIA GPU are tempered there, with
    other random numbers; all others on the CPU.

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
    ladders: int = 1
    takes_sparse: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_counts(replicas=self.replicas, sweeps=self.sweeps, reads=self.reads, ladders=self.ladders)
        if self.replicas % LANES:
            raise QubolearnError(f"replicas={self.replicas}; want a multiple of {LANES}, which run side by side")
        if self.target not in (None, "bound") and not (
            isinstance(self.target, int | float) and math.isfinite(self.target)
        ):
            raise QubolearnError(f"target={self.target}; want an energy, 'bound', or None to use all sweeps")
        if self.betas is not None:
            check_rising(self.replicas, betas=self.betas)
        instance_seeds(self.seed, 0)

    def search(self, A: Qubo, count: int) -> Found:
        """The ``count`` lowest states that any replica met, their descents and their neighbours."""
        return self.search_held(A, count, as_clamp(None, *A.shape[:2]), Groups(()))

    def search_held(self, A: Qubo, count: int, clamp: Tensor, groups: Groups) -> Found:
        """The same among the states that clamp ``[batch, n]`` and groups allow; clamp as ``forced`` returns it."""
        self._check_memory(A, 0)
        units, held = as_units(A, groups), clamp.numpy()
        if self.ladders > 1:  # each is an instance of its own
            rows = np.arange(len(A)).repeat(self.ladders)
            units, held = units.of(rows), held[rows]
        if self.target == "bound":
            targets = lower_bounds(units, held)
        else:
            targets = np.full(len(held), -np.inf if self.target is None else self.target) / units.scale
        if on_gpu(A, groups, self.replicas, self.ladders):
            found = self._search_on_gpu(units, count, held, targets, A.device)
        else:
            found = self._search_on_cpu(units, count, held, targets, self.sweeps)
        if self.ladders == 1:
            return found
        apart = {
            k: v.reshape(len(A), self.ladders, *v.shape[1:]) for k, v in found.info.items() if isinstance(v, Tensor)
        }
        info = {**found.info, **apart, "sweeps": apart["sweeps"].sum(1)}
        return Found(found.states.reshape(len(A), -1, A.shape[2]), info)

    def _search_on_cpu(self, units: Units, count: int, held: Any, targets: Any, sweeps: int) -> Found:
        from qubolearn.kernels.exchanges_numba import MOST_BITS, exchange
        from qubolearn.kernels.tempering_numba import NEVER, temper

        seeds, ladders, (batch, n) = instance_seeds(self.seed, len(held)), self._ladders(units), held.shape
        states, betas = np.zeros((batch, count, n), np.int8), np.zeros((batch, self.replicas))
        exchanges, swept = np.zeros((batch, self.replicas - 1)), np.zeros(batch, np.int64)
        last = np.zeros((batch, self.replicas, n), np.int8)
        ends, homes = np.full((batch // self.ladders, 1), NEVER), np.arange(batch) // self.ladders

        def work(some: slice, stop: npt.NDArray[np.uint8]) -> None:
            found = (states[some], betas[some], exchanges[some], swept[some], last[some])
            how = (seeds[some], ladders[some], sweeps, targets[some], stop, ends, homes[some])
            temper(units.problem(some), held[some], *how, found)
            if n <= MOST_BITS and not units.members[2].any() and (held[some] < 0).all():
                for b in range(some.start, some.stop):
                    exchange(units.dense(b), last[b : b + 1], states[b : b + 1], stop)

        self._share(work, units, max(sweeps, LADDER_SWEEPS))
        for qubo in np.flatnonzero(ends[:, 0] < NEVER) if self.ladders > 1 else ():
            self._keep_first(units, slice(qubo * self.ladders, (qubo + 1) * self.ladders), states, swept, exchanges)
        info = {"source": "simulated", "betas": torch.from_numpy(betas / units.scale[:, None])}
        info |= {"exchange_rates": torch.from_numpy(exchanges), "sweeps": torch.from_numpy(swept)}
        return Found(torch.from_numpy(states), info)

    @staticmethod
    def _keep_first(units: Units, some: slice, states: Any, swept: Any, exchanges: Any) -> None:
        """Let the ladders of a QUBO say what the first one says that met its target, by sweeps.

        How far the others came depends on the threads.
        """
        lowest = units.of(np.arange(some.start, some.stop)).energies(states[some]).min(1)
        first = some.start + np.lexsort((lowest, swept[some]))[0]
        rates = exchanges[first].copy()
        states[some], swept[some], exchanges[some] = states[first], swept[first], np.nan
        exchanges[first] = rates

    def _search_on_gpu(self, units: Units, count: int, held: Any, targets: Any, device: torch.device) -> Found:
        """The same: the CPU chooses temperatures and rules bits out, the GPU tempers, the CPU looks around the best."""
        from qubolearn.kernels.tempering_triton import temper

        ruled = self._ruled_out(units, held, targets) if count == 1 and self.target is not None else held
        found = self._search_on_cpu(units, count, ruled, targets, 1)
        states, info = found.states.numpy(), dict(found.info)
        open_, clamps = np.flatnonzero(units.energies(states).min(1) > targets + units.tolerance()), ruled
        for _ in range(2):  # once more, without what was ruled out, where the target was not met
            if len(open_):
                part, some = units.of(open_), clamps[open_]
                ladders = info["betas"].numpy()[open_] * part.scale[:, None]
                seeds = instance_seeds(self.seed, len(held))[open_]
                tempered = temper(part.problem(slice(None)), some, seeds, ladders, self.sweeps, targets[open_], device)
                around = best_around(part, some, np.concatenate([tempered.states, states[open_]], 1), count)
                lower = part.energies(around).min(1) <= part.energies(states[open_]).min(1)
                states[open_[lower]] = around[lower]
                info["sweeps"][open_] += torch.from_numpy(tempered.swept)
                info["exchange_rates"][open_] = torch.from_numpy(tempered.exchanges)
            left = (units.energies(states).min(1) > targets + units.tolerance()) & (ruled != held).any(1)
            open_, clamps = np.flatnonzero(left), held
        return Found(torch.from_numpy(states), info)

    def _ruled_out(self, units: Units, held: Any, targets: Any) -> Any:
        """The clamps with all bits fixed that the target fixes."""
        from qubolearn.kernels.tempering_numba import rule_out_all

        ruled = held.copy()

        def work(some: slice, stop: npt.NDArray[np.uint8]) -> None:
            rule_out_all(units.problem(some), held[some], targets[some], stop, ruled[some])

        self._share(work, units, 10)
        return ruled

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
        check_numbers(beta=1.0 if beta is None else beta)
        groups, (batch, n, _) = as_groups(groups), A.shape
        held = forced(as_clamp(clamp, batch, n), groups).numpy()
        if batch == 0:
            return torch.zeros(0, self.reads, n, dtype=A.dtype, device=A.device)
        self._check_memory(A, self.reads)
        units, seeds = as_units(A.detach(), groups), instance_seeds(self.seed, batch)
        ladders = self._ladders(units) if beta is None else np.zeros((batch, self.replicas))
        colds = ladders[:, -1] if beta is None else beta * units.scale
        burn, thin = self.sweeps // 2, max(1, self.sweeps // 2 // self.reads)
        there = on_gpu(A, groups, self.replicas)
        # For a GPU the CPU chooses the temperatures alone.
        reads, betas = np.zeros((batch, 0 if there else self.reads, n), np.int8), np.zeros((batch, self.replicas))

        def work(some: slice, stop: npt.NDArray[np.uint8]) -> None:
            how = (ladders[some], colds[some], 0 if there else burn, thin, stop)
            sample(units.problem(some), held[some], seeds[some], *how, reads[some], betas[some])

        self._share(work, units, LADDER_SWEEPS if there else burn + thin * self.reads)
        if there:
            from qubolearn.kernels.tempering_triton import sample as sample_on_gpu

            on_device = sample_on_gpu(units.problem(slice(None)), held, seeds, betas, burn, thin, self.reads, A.device)
            return on_device.to(A.dtype)
        return torch.from_numpy(reads).to(A.device, A.dtype)

    def _check_memory(self, A: Qubo, reads: int) -> None:
        batch, n, _ = A.shape
        sparse = n if isinstance(A, SparseQubo) else n * n
        what = f"{self.ladders} ladders of {batch} QUBOs of n={n} bits"
        check_memory(8 * batch * (self.ladders - 1) * sparse, what, "take fewer ladders")
        check_memory(8 * self.replicas * n, f"{self.replicas} replicas of n={n} bits", "take fewer replicas")
        needed = batch * reads * n * (1 + A.dtype.itemsize)
        check_memory(needed, f"{reads} reads of {batch} QUBOs of n={n} bits", "ask for fewer, or for fewer QUBOs")

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
