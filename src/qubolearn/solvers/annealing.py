"""Simulated annealing of batches, with neal's default schedule."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from qubolearn.errors import QubolearnError, check_counts, check_nondecreasing, check_numbers
from qubolearn.gpu.annealing import GRAPH_UPDATES, available, replayed, takes_lists
from qubolearn.kernels import thread_count
from qubolearn.qubo import Groups, Inequalities, Qubo, SparseQubo, as_dense, check_qubo
from qubolearn.qubo.sparse import check_memory, check_plain
from qubolearn.solvers.contract import QuboSolver, SearchResult, instance_seeds, lowest_around
from qubolearn.solvers.forms import DenseForm, SparseForm

__all__ = ["SimulatedAnnealing", "default_beta_range"]

#: From this n on, dense QUBOs with few couplings are annealed as sparse ones.
SPARSE_BITS = 64
#: The first and last temperature of large dense QUBOs, per field.
FIELD_SHARES = (0.3, 0.02)
#: Cold sweeps of a descent on a GPU.
DESCENT = 4
#: Up to this n, a GPU also descends from each neighbor of the best state.
HELD_BITS = 512
#: Bytes per read and thread of the table of distinct reads.
SEEN_BYTES = 4 * 24


@dataclass(frozen=True)
class SimulatedAnnealing(QuboSolver):
    """Anneal independent reads of each QUBO by Metropolis updates.

    Args:
        reads: the number of anneals per QUBO.
        sweeps: how often each bit is updated in a read.
        beta_range: the first and the last β = 1/temperature; by default neal's range for each QUBO
            (:func:`default_beta_range`). ``"fields"``: temperatures from 0.3 to 0.02 of the root
            mean square field of a bit (CPU only), better for large dense QUBOs.
        seed: fixes the result; instance i draws from a stream of (seed, i) alone.

    The solution holds the lowest of the final states, their descents and their neighbors.
    ``info["success_probability"]`` is the share of reads at the lowest energy. QUBOs on an NVIDIA
    GPU stay there, with other random numbers. Reference: Kirkpatrick, Gelatt and Vecchi, Science
    220, 671 (1983).

    >>> A = torch.tensor([[[1.0, -3.0], [0.0, 1.0]]])
    >>> SimulatedAnnealing(reads=10, sweeps=100, seed=0)(A).states.tolist()
    [[[1.0, 1.0], [0.0, 0.0]]]
    """

    reads: int = 100
    sweeps: int = 1000
    beta_range: tuple[float, float] | Literal["fields"] | None = None
    seed: int | None = None

    takes_sparse: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_counts(reads=self.reads, sweeps=self.sweeps)
        if self.beta_range is not None and str(self.beta_range) != "fields":
            check_nondecreasing(2, beta_range=self.beta_range)
        instance_seeds(self.seed, 0)

    def sample(self, A: Qubo, beta: float | None = None, *, initial: Tensor | None = None) -> Tensor:
        """Return the final states of all reads ``[batch, reads, n]`` in A's dtype.

        Reads begin at random bits or at ``initial``. With ``beta`` they are draws from p(x) ∝
        exp(-β xᵀAx), unless barriers are too high: β grows to this value in the first half of the sweeps.
        """
        check_qubo(A)
        check_numbers(beta=1.0 if beta is None else beta)
        shape = (len(A), self.reads, A.shape[2])
        if initial is not None:
            check_plain("initial", initial)
            if tuple(initial.shape) != shape or not bool(((initial == 0) | (initial == 1)).all()):
                raise QubolearnError(f"initial is {list(initial.shape)}; expected 0 and 1 {list(shape)}")
        A = A.detach()
        self._check_memory(A, 1 + A.dtype.itemsize)
        if available(A.device):
            return self._read_on_gpu(A, beta, initial).to(A.dtype)
        return self._read(_on_cpu(A.to("cpu")), A.shape[2], beta, initial).to(A.device, A.dtype)

    def search(self, A: Qubo, count: int) -> SearchResult:
        n = A.shape[2]
        self._check_memory(A, 2, SEEN_BYTES * thread_count())
        if not available(A.device) or count > n:
            _, states, success = self._refined(A, count, exchanges=True)
            return SearchResult(states, self._info(success), distinct=True)
        work, seeds = partial(self._search_on_gpu, count=count), self._seeds(A)
        if isinstance(A, Tensor) and len(A) * (n + 64) * (self.reads + 64) * self.sweeps <= GRAPH_UPDATES:
            key = (repr(replace(self, seed=None)), count, A.shape, A.dtype)
            states, energy, success = replayed(work, key, A, seeds)
        else:
            states, energy, success = work(A, seeds)
        return SearchResult(states, self._info(success), energies=energy)

    def _search_on_gpu(self, A: Qubo, seeds: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
        qubos, ranges, scale = _on_gpu(A)
        reads = qubos.anneal(self._betas(ranges, scale, None), seeds, self.reads, descent=DESCENT)
        cold = ranges.new_full((len(A), DESCENT), torch.inf, dtype=torch.float32)

        def held(best: Tensor) -> Tensor:
            return qubos.anneal(cold, seeds, A.shape[2], flipped=best.to(torch.int8))  # type: ignore[no-any-return]

        more = held if isinstance(A, Tensor) and A.shape[2] <= HELD_BITS else None
        states, low, energy = lowest_around(A, reads, count, more)
        energy = energy[:, : self.reads]  # before the descent
        lowest = energy.amin(1, keepdim=True)
        reached = energy <= torch.add(lowest, lowest.abs(), alpha=1e-9)
        return states, low, reached.mean(1, dtype=torch.float64)

    def search_reads(self, A: Qubo) -> SearchResult:
        """Return all reads and the lowest state around them."""
        if available(A.device):
            return SearchResult(self._read_on_gpu(A, descent=DESCENT), self._info())
        self._check_memory(A, 1, SEEN_BYTES * thread_count())
        reads, states, success = self._refined(A, 1, exchanges=False)
        return SearchResult(torch.cat([states, reads], 1), self._info(success))

    def search_limited(
        self, A: Qubo, count: int, clamp: Tensor, groups: Groups, limits: Inequalities
    ) -> SearchResult:
        from qubolearn.solvers.inequalities import anneal_constrained

        self._check_memory(A, 2)
        return anneal_constrained(A, count, clamp, groups, limits, self.reads, self.sweeps, self.seed)

    def _refined(self, A: Qubo, count: int, exchanges: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Return reads, the lowest states around them, and the success rates."""
        qubos = _on_cpu(A.to("cpu"))
        reads = self._read(qubos, A.shape[2])
        states, success = qubos.refine(reads.numpy(), count, exchanges)
        return reads, torch.from_numpy(states), torch.from_numpy(success)

    def _info(self, success: Tensor | None = None) -> dict[str, Any]:
        info = {"source": "simulated", "reads": self.reads, "sweeps": self.sweeps}
        return info if success is None else {**info, "success_probability": success}

    def _check_memory(self, A: Qubo, bytes_per_bit: int, bytes_per_read: int = 0) -> None:
        needed = self.reads * (len(A) * A.shape[2] * bytes_per_bit + bytes_per_read)
        check_memory(needed, A, self.reads)

    def _read(
        self, qubos: DenseForm | SparseForm, n: int, beta: float | None = None, initial: Tensor | None = None
    ) -> Tensor:
        batch = len(qubos.scale)
        reads = np.zeros((batch, self.reads, n), np.int8)
        if initial is not None:
            reads[:] = initial.cpu().numpy()
        ranges = qubos.beta_ranges
        if isinstance(self.beta_range, str) and (sizes := qubos.field_sizes()).all():
            ranges = 1 / np.multiply.outer(sizes, FIELD_SHARES)
        betas, steps = self._schedule(torch.from_numpy(ranges), torch.from_numpy(qubos.scale), beta)
        seeds = instance_seeds(self.seed, batch)
        qubos.anneal(betas.contiguous().numpy(), steps, self.sweeps, seeds, initial is not None, reads)
        return torch.from_numpy(reads)

    def _read_on_gpu(
        self, A: Qubo, beta: float | None = None, initial: Tensor | None = None, descent: int = 0
    ) -> Tensor:
        """Return the final states of all reads, and those after a descent."""
        qubos, ranges, scale = _on_gpu(A)
        given = None if initial is None else initial.to(A.device)
        betas = self._betas(ranges, scale, beta)
        return qubos.anneal(betas, self._seeds(A), self.reads, given, descent)  # type: ignore[no-any-return]

    def _seeds(self, A: Qubo) -> Tensor:
        return torch.from_numpy(instance_seeds(self.seed, len(A)).astype(np.int64)).to(A.device)

    def _betas(self, ranges: Tensor, scale: Tensor, beta: float | None) -> Tensor:
        betas, steps = self._schedule(ranges, scale, beta)
        end = (self.sweeps - 1) / steps
        share = torch.linspace(0, end, self.sweeps, device=betas.device, dtype=betas.dtype).clamp(max=1)
        logarithms = betas.log()
        return torch.lerp(logarithms[:, :1], logarithms[:, 1:], share).exp()

    def _schedule(self, default: Tensor, scale: Tensor, beta: float | None) -> tuple[Tensor, int]:
        """Return the first and last β ``[batch, 2]``, and the sweeps between."""
        if beta is not None:
            last = beta * scale
            betas = torch.stack([torch.minimum(default[:, 0], last), last], 1)
            return betas.clamp(1e-300, 1e300), max(1, self.sweeps // 2)
        given, betas = self.beta_range, default
        if given is not None and not isinstance(given, str):
            betas = torch.stack([scale * given[0], scale * given[1]], 1)
        if self.sweeps == 1:
            betas = betas[:, 1:].expand(-1, 2)
        return betas.clamp(1e-300, 1e300), max(1, self.sweeps - 1)


def _on_gpu(A: Qubo) -> tuple[Any, Tensor, Tensor]:
    """Return the form of A that a GPU anneals, its β ranges and its scale."""
    if isinstance(A, SparseQubo) and takes_lists(A.linear, A.edges):
        from qubolearn.gpu.sparse_annealing_triton import SparseQubos

        form = SparseForm.make(A)
        arrays = (form.linear, form.quadratic, form.beta_ranges, form.scale)
        linear, quadratic, ranges, scale = (torch.from_numpy(array).to(A.device) for array in arrays)
        return SparseQubos.make(linear, quadratic, A.edges.cpu().numpy()), ranges, scale
    from qubolearn.gpu.dense_annealing_triton import DenseQubos

    dense = DenseQubos.make(as_dense(A))
    return dense, dense.beta_ranges, dense.scale


def _on_cpu(A: Qubo) -> DenseForm | SparseForm:
    """Return the form of A, dense or sparse, that is annealed fastest."""
    n = A.shape[2]
    if isinstance(A, SparseQubo):
        edges = A.edges.shape[1]
    elif n >= SPARSE_BITS:
        coupled = (A != 0).any(0)
        edges = int((coupled | coupled.mT).sum() - coupled.diagonal().sum()) // 2
    else:
        edges = n * n
    # Measured: an update takes 0.09 + 0.021 d ns by lists, 0.0055 n ns by tables.
    return SparseForm.make(A) if 2 * edges < n * (n / 4 - 4) else DenseForm(as_dense(A))


def default_beta_range(A: Qubo) -> Tensor:
    """Return neal's first and last β ``[batch, 2]``, float64, for each QUBO.

    At the first β even the largest ΔE, 2 max_i (|b_i| + Σ_j |J_ij|), is accepted every second time.
    At the last one the spins with the smallest coefficient m flip with probability 0.01 in all:
    #spins · exp(-2βm) = 0.01. Coefficients below 1e-12 of the largest field are rounding errors and
    count as zero.
    """
    qubos = _on_cpu(A.detach().to("cpu"))
    return torch.from_numpy(qubos.beta_ranges / qubos.scale[:, None])
