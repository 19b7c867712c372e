"""Any ``dimod.Sampler`` as a solver: neal, tabu, path-integral annealing, dimod's own, third parties'."""

from __future__ import annotations

import inspect
import random
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from qubolearn.errors import QubolearnError, unknown_name
from qubolearn.qubo import to_bqm, upper_triangular
from qubolearn.solvers.contract import Found, QuboSolver
from qubolearn.solvers.second_best import with_second_best
from qubolearn.solvers.seeds import instance_seeds

if TYPE_CHECKING:
    from dimod.binary import BinaryQuadraticModel
    from dimod.core.sampler import Sampler

__all__ = ["DimodSolver", "dimod_annealing", "neal", "path_integral", "tabu"]

#: Packages of samplers that compute here, so that their results are marked as simulated.
_LOCAL_PACKAGES = ("dwave.samplers.", "dimod.")
#: Samplers that release the GIL while they work and keep no state between calls (read in dwave-samplers 1.8).
_PARALLEL_PACKAGES = (
    "dwave.samplers.sa.",
    "dwave.samplers.sqa.",
    "dwave.samplers.tabu.",
    "dwave.samplers.greedy.",
)
_global_generators = threading.Lock()


@dataclass(frozen=True)
class DimodSolver(QuboSolver):
    """Runs a ``dimod.Sampler`` on each QUBO of the batch and completes x⁺ by descents from the neighbours of x*.

    Where a descent ends below every read, x* is that state. ``info["success_probability"]`` speaks of the reads alone.

    ``parameters`` are passed to ``sampler.sample``. Instance i gets a seed derived from (seed, i), so the result
    depends neither on the number of threads nor on the rest of the batch. A sampler without a ``seed`` parameter
    draws from Python's or NumPy's global generator, which is seeded for the call and put back after it.

    ``threads=None`` is ``torch.get_num_threads()`` for samplers that are known to release the GIL, and one for others.

    >>> A = torch.tensor([[[1.0, -3.0], [0.0, 1.0]]])
    >>> neal(reads=10, sweeps=100, seed=0)(A).states.tolist()
    [[[1.0, 1.0], [0.0, 0.0]]]
    """

    sampler: Sampler
    parameters: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        known = set(self.sampler.parameters) | set(inspect.signature(self.sampler.sample).parameters)
        for name in self.parameters:
            if name not in known:
                raise unknown_name(f"parameter of {self.name}", name, known - {"bqm", "kwargs"})
        if "seed" in self.parameters:
            raise QubolearnError(
                f"'seed' in the parameters of {self.name} would give every QUBO the same random numbers; "
                "pass DimodSolver(..., seed=...)"
            )
        if self.threads is not None and self.threads < 1:
            raise QubolearnError(f"threads={self.threads}; want at least 1, or None for the default")
        instance_seeds(self.seed, 0)

    @property
    def name(self) -> str:
        """The sampler's class."""
        return type(self.sampler).__name__

    def search(self, A: Tensor, count: int) -> Found:
        """The ``count`` best reads of each QUBO, and what completes x⁺: A ``[batch, n, n]``."""
        U = upper_triangular(A.to("cpu", torch.float64))
        jobs = zip(range(len(U)), U, instance_seeds(self.seed, len(U)).tolist(), [count] * len(U), strict=True)
        with ThreadPoolExecutor(self._threads()) as pool:
            reads = list(pool.map(lambda job: self._solve_one(*job), jobs))
        states = torch.from_numpy(np.stack([read.states for read in reads]))
        info: dict[str, Any] = {
            "sampler": self.name,
            "reads": self.parameters.get("num_reads"),
            "success_probability": torch.tensor([read.success_probability for read in reads], dtype=torch.float64),
        }
        if self._module().startswith(_LOCAL_PACKAGES):
            info["source"] = "simulated"
        return Found(with_second_best(A.cpu(), states, count), info)

    def _module(self) -> str:
        return type(self.sampler).__module__ + "."

    def _threads(self) -> int:
        if self.threads is not None:
            return self.threads
        return torch.get_num_threads() if self._module().startswith(_PARALLEL_PACKAGES) else 1

    def _solve_one(self, index: int, U: Tensor, seed: int, count: int) -> _Reads:
        n = U.shape[-1]
        if not bool(U.any()):
            # All states are equally good, and samplers that scale by the largest entry warn or divide by zero.
            return _Reads(_first_states(count, n), success_probability=1.0)
        try:
            sampleset = self._sample(to_bqm(U), seed)
            labels, samples = list(sampleset.variables), sampleset.record.sample
        except Exception as error:
            raise QubolearnError(f"{self.name} failed on QUBO {index} of the batch: {error}") from error
        asked = self.parameters.get("num_reads", 1)
        occurrences = sampleset.record.num_occurrences
        if occurrences.sum() < asked:
            raise QubolearnError(f"{self.name} returned {occurrences.sum()} of {asked} reads for QUBO {index}")
        if set(labels) != set(range(n)):
            raise QubolearnError(f"{self.name} returned variables {labels[:8]} for QUBO {index}; want 0 ... {n - 1}")
        if not np.isin(samples, (-1, 0, 1)).all():
            raise QubolearnError(f"{self.name} returned the value {samples.max()} for QUBO {index}; want bits or spins")
        bits = (samples[:, np.argsort(labels)] > 0).astype(np.int8)
        return _best_reads(U.numpy(), bits, occurrences, count)

    def _sample(self, bqm: BinaryQuadraticModel, seed: int) -> Any:
        if "seed" in self.sampler.parameters:
            # 31 bits are the largest range that all samplers of dwave-samplers take.
            return self.sampler.sample(bqm, seed=seed >> 1, **self.parameters)
        if self.seed is None:
            return self.sampler.sample(bqm, **self.parameters)
        with _seeded_global_generators(seed):
            return self.sampler.sample(bqm, **self.parameters)


class _Reads(NamedTuple):
    """What is kept of one sample set."""

    states: npt.NDArray[np.int8]  # [count, n], best first; the best repeated where fewer distinct ones were read
    success_probability: float  # the share of reads at the lowest energy read


def _best_reads(
    U: npt.NDArray[np.float64], bits: npt.NDArray[np.int8], occurrences: npt.NDArray[np.int64], count: int
) -> _Reads:
    """The ``count`` lowest distinct rows of bits ``[rows, n]`` under U ``[n, n]``, each read ``occurrences`` times."""
    states, row_of = np.unique(bits, axis=0, return_inverse=True)
    times = np.bincount(row_of.reshape(-1), weights=occurrences)
    energy = np.einsum("ri,ij,rj->r", states, U, states, optimize=True)
    order = np.argsort(energy, kind="stable")
    chosen = np.resize(order[:count], count)
    at_best = np.isclose(energy, energy[order[0]], rtol=1e-9, atol=1e-12 * np.abs(U).sum())
    return _Reads(states[chosen], float(times[at_best].sum() / times.sum()))


def _first_states(count: int, n: int) -> npt.NDArray[np.int8]:
    """``[count, n]``: the numbers 0 ... count-1 in binary."""
    return ((np.arange(count)[:, None] >> np.minimum(np.arange(n), 62)) & 1).astype(np.int8)


@contextmanager
def _seeded_global_generators(seed: int) -> Iterator[None]:
    """Seed Python's and NumPy's global generators, and put them back as they were."""
    with _global_generators:
        python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)  # noqa: NPY002


def _sampler(package: str, name: str) -> Any:
    return getattr(import_module(package), name)()


def neal(reads: int = 100, sweeps: int = 1000, seed: int | None = None) -> DimodSolver:
    """D-Wave's simulated annealing in C++, with its own range of temperatures."""
    return DimodSolver(
        _sampler("dwave.samplers", "SimulatedAnnealingSampler"), {"num_reads": reads, "num_sweeps": sweeps}, seed
    )


def path_integral(reads: int = 100, sweeps: int = 1000, seed: int | None = None) -> DimodSolver:
    """D-Wave's simulated quantum annealing: path-integral Monte Carlo of a transverse-field Ising model."""
    return DimodSolver(
        _sampler("dwave.samplers", "PathIntegralAnnealingSampler"), {"num_reads": reads, "num_sweeps": sweeps}, seed
    )


def tabu(reads: int = 10, restarts: int = 10, updates: int = 1000, seed: int | None = None) -> DimodSolver:
    """D-Wave's multistart tabu search: per read ``restarts`` searches of ``updates`` single flips each.

    The work is bounded by counts and not by the sampler's clock, so that a seed fixes the result.
    """
    work = {"timeout": None, "num_restarts": restarts, "lower_bound_z": updates, "coefficient_z_first": 1}
    return DimodSolver(
        _sampler("dwave.samplers", "TabuSampler"), {"num_reads": reads, "coefficient_z_restart": 1, **work}, seed
    )


def dimod_annealing(reads: int = 10, sweeps: int = 1000, seed: int | None = None) -> DimodSolver:
    """dimod's reference simulated annealing in pure Python: slow, a second opinion."""
    return DimodSolver(_sampler("dimod", "SimulatedAnnealingSampler"), {"num_reads": reads, "num_sweeps": sweeps}, seed)
