"""Simulated annealing of whole batches, with neal's default range of temperatures and schedule."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.kernels.parallel import progress, run_tasks, stop_flag
from qubolearn.qubo import Qubo, as_dense, check_qubo, energies
from qubolearn.solvers.contract import Found, QuboSolver
from qubolearn.solvers.second_best import with_second_best
from qubolearn.solvers.seeds import instance_seeds

__all__ = ["SimulatedAnnealing", "default_beta_range"]


@dataclass(frozen=True)
class SimulatedAnnealing(QuboSolver):
    """``reads`` independent anneals per QUBO, each of ``sweeps`` Metropolis updates of every bit in turn.

    β = 1/temperature grows geometrically over ``beta_range``, by default over neal's range for each QUBO
    (:func:`default_beta_range`). The solution holds the lowest states among the final states of the reads, what
    steepest descent makes of them, and their neighbours; ``info["success_probability"]`` is the share of reads that
    reached the lowest energy of all reads. Instance i draws from a stream of (seed, i) alone.

    On the CPU a compiled kernel runs on ``torch.get_num_threads()`` threads, and the result does not depend on their
    number. On an NVIDIA GPU a Triton kernel does the same with other random numbers, for up to 62 bits; beyond, and
    on other devices, plain torch does.

    >>> A = torch.tensor([[[1.0, -3.0], [0.0, 1.0]]])
    >>> SimulatedAnnealing(reads=10, sweeps=100, seed=0)(A).states.tolist()
    [[[1.0, 1.0], [0.0, 0.0]]]
    """

    reads: int = 100
    sweeps: int = 1000
    beta_range: tuple[float, float] | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.reads < 1 or self.sweeps < 1:
            raise QubolearnError(f"reads={self.reads} and sweeps={self.sweeps}; want at least 1 of each")
        if self.beta_range is not None and not 0 < self.beta_range[0] <= self.beta_range[1] < float("inf"):
            raise QubolearnError(f"beta_range={self.beta_range}; want two finite numbers, 0 < first <= last")
        instance_seeds(self.seed, 0)

    def sample(self, A: Qubo, beta: float | None = None) -> Tensor:
        """The final states of all reads, as they are: A ``[batch, n, n]`` -> ``[batch, reads, n]`` in A's dtype.

        With ``beta`` they are draws from p(x) ∝ exp(-β xᵀAx): β grows to this value over the first half of the sweeps
        and stays there. Where barriers are too high for the second half to cross, reads keep to the valleys that
        they came to; more sweeps help, and :func:`qubolearn.pair_marginals` is exact for small n.
        """
        check_qubo(A)
        if beta is not None and not (0 < beta < math.inf):
            raise QubolearnError(f"beta={beta} must be finite and above 0")
        A = as_dense(A)
        S, scale = _scaled(A.detach())
        read = self._read if S.is_cpu else self._read_in_torch
        return read(S, self._schedules(S, scale) if beta is None else self._held(S, scale, beta)).to(A.dtype)

    def search(self, A: Tensor, count: int) -> Found:
        """The ``count`` lowest states of the reads, their descents and their neighbours."""
        S, scale = _scaled(A)
        if S.is_cpu:
            states, success = _harvest(S, self._read(S, self._schedules(S, scale)), count)
        else:
            states, success = _harvest_in_torch(A, self._read_in_torch(S, self._schedules(S, scale)), count)
        info = {"source": "simulated", "reads": self.reads, "sweeps": self.sweeps, "success_probability": success}
        return Found(states, info, distinct=S.is_cpu)

    def _read(self, S: Tensor, schedules: Tensor) -> Tensor:
        """The final states of QUBOs in the form of :func:`_scaled`: int8 ``[batch, reads, n]``."""
        from qubolearn.kernels.annealing_numba import anneal, thresholds

        batch, n, _ = S.shape
        reads = np.zeros((batch, self.reads, n), np.int8)
        seeds, stop = instance_seeds(self.seed, batch), stop_flag()

        def work(start: int, end: int) -> None:
            part = slice(start, end)
            betas = schedules.numpy()[part]
            anneal(S.numpy()[part], betas, self.sweeps, seeds[part], thresholds(), reads[part], stop)

        # About 0.1 ns for each update of a bit, and 1 ns more for every 100 bits: for the progress bar only.
        seconds = batch * self.reads * self.sweeps * n * (1e-10 + 1e-11 * n)
        with progress("simulated annealing", batch, seconds) as advance:
            run_tasks(work, batch, seconds, advance, stop=stop)
        return torch.from_numpy(reads)

    def _read_in_torch(self, S: Tensor, schedules: Tensor) -> Tensor:
        from qubolearn.kernels.annealing_torch import anneal

        return anneal(S, schedules, self.sweeps, instance_seeds(self.seed, len(S)), self.reads)

    def _schedules(self, S: Tensor, scale: Tensor) -> Tensor:
        """``[batch, 3]``: the first β, its growth from one sweep to the next, and no bound on it."""
        if self.beta_range is None:
            first, last = _beta_range(S).unbind(1)
        else:
            first, last = (beta * scale for beta in self.beta_range)
        if self.sweeps == 1:
            first, growth = last, torch.ones_like(last)
        else:
            growth = (last / first) ** (1 / (self.sweeps - 1))
        return torch.stack([first, growth, torch.full_like(last, math.inf)], 1)

    def _held(self, S: Tensor, scale: Tensor, beta: float) -> Tensor:
        """``[batch, 3]``, as :meth:`_schedules`, for β that reaches ``beta`` after half of the sweeps and stays."""
        last = beta * scale
        first = torch.minimum(_beta_range(S)[:, 0], last)
        return torch.stack([first, (last / first) ** (1 / max(1, self.sweeps // 2)), last], 1)


def default_beta_range(A: Tensor) -> Tensor:
    """First and last β for each QUBO of A ``[batch, n, n]`` as neal chooses them: ``[batch, 2]``, float64.

    At the first β even the largest ΔE, 2 max_i (|b_i| + Σ_j |J_ij|), is accepted every second time. At the last one
    the spins with the smallest coefficient m flip away with probability 0.01 in all: #spins · exp(-2βm) = 0.01.
    Coefficients below 1e-12 of the largest field count as zero: they are rounding errors of QUBO -> Ising.
    """
    S, scale = _scaled(A.detach())
    return _beta_range(S) / scale[:, None]


def _beta_range(S: Tensor) -> Tensor:
    """:func:`default_beta_range` of QUBOs in the form of :func:`_scaled`."""
    linear = S.diagonal(dim1=1, dim2=2)
    b = linear / 4 + S.sum(-1) / 4
    strength = S.abs() / 4  # |J_ij|, where J = (A + Aᵀ) / 4 off the diagonal
    strength.diagonal(dim1=1, dim2=2).copy_(b.abs())
    largest = strength.sum(-1).amax(-1)
    strength.masked_fill_(strength <= 1e-12 * largest[:, None, None], float("inf"))
    smallest_of_spin = strength.amin(-1)
    smallest = smallest_of_spin.amin(-1, keepdim=True)
    spins = (smallest_of_spin <= smallest * (1 + 1e-9)).sum(-1)
    betas = torch.stack([math.log(2) / (2 * largest), (spins / 0.01).log() / (2 * smallest[:, 0])], 1)
    zero = S.new_tensor([0.1, 1.0])  # any range does where all energies are equal
    return torch.where(largest[:, None] > 0, betas, zero)


def _scaled(A: Tensor) -> tuple[Tensor, Tensor]:
    """A + Aᵀ with A_ii on the diagonal, divided by A's largest entry so that float32 can hold it, and that entry.

    A ``[batch, n, n]`` -> float64 ``[batch, n, n]`` and ``[batch]``.
    """
    A = A.to(torch.float64)
    scale = A.abs().amax((1, 2))
    scale = torch.where(scale > 0, scale, 1.0)
    A = A / scale[:, None, None]
    S = A + A.mT
    S.diagonal(dim1=1, dim2=2).div_(2)
    return S.contiguous(), scale


def _harvest(S: Tensor, reads: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The ``count`` lowest states ``[batch, count, n]`` in and around the reads, and the share of reads at the best."""
    from qubolearn.kernels.harvest_numba import harvest

    batch, _, n = reads.shape
    states, success, stop = np.zeros((batch, count, n), np.int8), np.zeros(batch), stop_flag()

    def work(start: int, end: int) -> None:
        part = slice(start, end)
        harvest(S.numpy()[part], reads.numpy()[part], states[part], success[part], stop)

    run_tasks(work, batch, batch * n * (1e-6 + 1e-10 * n * reads.shape[1] + 1e-10 * n * n), stop=stop)
    return torch.from_numpy(states), torch.from_numpy(success)


def _harvest_in_torch(A: Tensor, reads: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Candidates for :func:`_harvest`'s states, on A's device, and the share of reads at the best."""
    energy = energies(A.to(torch.float64), reads)
    best, index = energy.min(dim=1)
    tolerance = 1e-12 * A.to(torch.float64).abs().sum((1, 2))
    success = (energy <= (best + tolerance)[:, None]).to(torch.float64).mean(1).cpu()
    lowest = reads.gather(1, index[:, None, None].expand(-1, 1, reads.shape[-1]))
    return with_second_best(A, torch.cat([lowest, reads], dim=1), count), success
