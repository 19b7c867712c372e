"""Any ``dimod.Sampler`` as a solver: neal, tabu, path-integral annealing, dimod's own, third parties'."""

from __future__ import annotations

import inspect
import math
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from qubolearn.errors import QubolearnError, unknown_name
from qubolearn.kernels.parallel import run_tasks, stop_flag, thread_count
from qubolearn.qubo import Qubo, as_dense, check_qubo, to_bqm, upper_triangular
from qubolearn.solvers.contract import Found, QuboSolver, no_temperature
from qubolearn.solvers.second_best import with_second_best
from qubolearn.solvers.seeds import instance_seeds
from qubolearn.typed import check_counts

if TYPE_CHECKING:
    from dimod.binary import BinaryQuadraticModel
    from dimod.core.sampler import Sampler

__all__ = ["DimodSolver", "dimod_annealing", "neal", "path_integral", "tabu"]

Floats = npt.NDArray[np.float64]
T = TypeVar("T")

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
    """Runs a ``dimod.Sampler`` on each QUBO of the batch, and completes x⁺ by descents from the neighbours of x*.

    Where a descent ends below every read, x* is that state. ``info["success_probability"]`` counts the reads alone.

    Args:
        sampler: any ``dimod.Sampler``.
        parameters: what is passed to ``sampler.sample``, such as ``num_reads``.
        seed: instance i gets one derived from (seed, i), so the result depends neither on the number of threads nor on
            the rest of the batch. A sampler without a ``seed`` parameter draws from Python's or NumPy's global
            generator, which is seeded for the call and put back after it.
        threads: by default as many as our kernels take for samplers that are known to release the GIL, else one.

    Ctrl-C ends samplers that take an ``interrupt_function`` between two reads; others end with the process.

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
        threads = 1 if self.threads is None else self.threads
        check_counts(num_reads=self.parameters.get("num_reads", 1), threads=threads)
        instance_seeds(self.seed, 0)

    @property
    def name(self) -> str:
        """The sampler's class."""
        return type(self.sampler).__name__

    def search(self, A: Tensor, count: int) -> Found:
        """The ``count`` best reads of each QUBO, and what completes x⁺: A ``[batch, n, n]``."""
        best = self._for_each(A, lambda U, reads: _best_of(U, reads, count))
        info: dict[str, Any] = {
            "sampler": self.name,
            "reads": self.parameters.get("num_reads"),
            "success_probability": torch.tensor([one.success_probability for one in best], dtype=torch.float64),
        }
        if self._module().startswith(_LOCAL_PACKAGES):
            info["source"] = "simulated"
        states = torch.from_numpy(np.stack([one.states for one in best]))
        return Found(with_second_best(A.cpu(), states, count), info)

    def sample(self, A: Qubo, beta: float | None = None) -> Tensor:
        """All reads, as they come from the sampler: A ``[batch, n, n]`` -> states ``[batch, reads, n]``.

        A sampler has a temperature of its own or none, so ``beta`` is refused.
        """
        if beta is not None:
            raise no_temperature(self.name, beta)
        check_qubo(A)
        A = as_dense(A)
        reads = self._for_each(A.detach(), lambda U, reads: np.repeat(reads.bits, reads.occurrences, axis=0))
        if len({len(bits) for bits in reads}) > 1:
            raise QubolearnError(f"{self.name} returned more reads of some QUBOs than of others; set num_reads")
        return torch.from_numpy(np.stack(reads)).to(A)

    def _for_each(self, A: Tensor, use: Callable[[Floats, _Reads], T]) -> list[T]:
        """``use`` of each QUBO, upper triangular in float64, and its reads."""
        U = upper_triangular(A.to("cpu", torch.float64))
        seeds, stop = instance_seeds(self.seed, len(U)).tolist(), stop_flag()
        found: dict[int, T] = {}

        def work(start: int, end: int) -> None:
            for i in range(start, end):
                found[i] = use(U[i].numpy(), self._read(i, U[i], seeds[i], stop))

        run_tasks(work, len(U), math.inf, stop=stop, threads=self._threads())
        return [found[i] for i in range(len(U))]

    def _module(self) -> str:
        return type(self.sampler).__module__ + "."

    def _threads(self) -> int:
        if self.threads is not None:
            return self.threads
        return thread_count() if self._module().startswith(_PARALLEL_PACKAGES) else 1

    def _read(self, index: int, U: Tensor, seed: int, stop: npt.NDArray[np.uint8]) -> _Reads:
        n, asked = U.shape[-1], self.parameters.get("num_reads", 1)
        if not bool(U.any()):
            # All states are equally good, and samplers that scale by the largest entry warn or divide by zero.
            drawn = np.random.default_rng(seed).integers(0, 2, (asked, n), np.int8)
            return _Reads(drawn, np.ones(asked, np.int64))
        try:
            sampleset = self._sample(to_bqm(U), seed, stop)
            labels, samples = list(sampleset.variables), sampleset.record.sample
        except Exception as error:
            raise QubolearnError(f"{self.name} failed on QUBO {index} of the batch: {error}") from error
        occurrences = sampleset.record.num_occurrences
        if (occurrences < 0).any():
            raise QubolearnError(
                f"{self.name} returned a read {occurrences.min()} times for QUBO {index}; want 0 or more"
            )
        if occurrences.sum() < asked:
            raise QubolearnError(f"{self.name} returned {occurrences.sum()} of {asked} reads for QUBO {index}")
        if set(labels) != set(range(n)):
            raise QubolearnError(f"{self.name} returned variables {labels[:8]} for QUBO {index}; want 0 ... {n - 1}")
        if not np.isin(samples, (-1, 0, 1)).all():
            raise QubolearnError(f"{self.name} returned the value {samples.max()} for QUBO {index}; want bits or spins")
        return _Reads((samples[:, np.argsort(labels)] > 0).astype(np.int8), occurrences)

    def _sample(self, bqm: BinaryQuadraticModel, seed: int, stop: npt.NDArray[np.uint8]) -> Any:
        parameters = dict(self.parameters)
        if "interrupt_function" in self.sampler.parameters:
            parameters.setdefault("interrupt_function", lambda: bool(stop[0]))
        if "seed" in self.sampler.parameters:
            # 31 bits are the largest range that all samplers of dwave-samplers take.
            return self.sampler.sample(bqm, seed=seed >> 1, **parameters)
        if self.seed is None:
            return self.sampler.sample(bqm, **parameters)
        with _seeded_global_generators(seed):
            return self.sampler.sample(bqm, **parameters)


class _Reads(NamedTuple):
    """One sample set."""

    bits: npt.NDArray[np.int8]  # [rows, n]
    occurrences: npt.NDArray[np.int64]  # [rows]: how often each row was read


class _Best(NamedTuple):
    """What is kept of a sample set."""

    states: npt.NDArray[np.int8]  # [count, n], best first; the best repeated where fewer distinct ones were read
    success_probability: float  # the share of reads at the lowest energy read


def _best_of(U: Floats, reads: _Reads, count: int) -> _Best:
    """The ``count`` lowest distinct reads under U ``[n, n]``."""
    states, row_of = np.unique(reads.bits, axis=0, return_inverse=True)
    times = np.bincount(row_of.reshape(-1), weights=reads.occurrences)
    energy = np.einsum("ri,ij,rj->r", states, U, states, optimize=True)
    order = np.argsort(energy, kind="stable")
    chosen = np.resize(order[:count], count)
    at_best = np.isclose(energy, energy[order[0]], rtol=1e-9, atol=1e-12 * np.abs(U).sum())
    return _Best(states[chosen], float(times[at_best].sum() / times.sum()))


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


def _made(sampler: str, seed: int | None, **parameters: Any) -> DimodSolver:
    """A solver of a sampler, ``package:class``."""
    package, _, name = sampler.partition(":")
    return DimodSolver(getattr(import_module(package), name)(), parameters, seed)


def neal(reads: int = 100, sweeps: int = 1000, seed: int | None = None) -> DimodSolver:
    """D-Wave's simulated annealing in C++, with its own range of temperatures."""
    return _made("dwave.samplers:SimulatedAnnealingSampler", seed, num_reads=reads, num_sweeps=sweeps)


def path_integral(reads: int = 100, sweeps: int = 1000, seed: int | None = None) -> DimodSolver:
    """D-Wave's simulated quantum annealing: path-integral Monte Carlo of a transverse-field Ising model."""
    return _made("dwave.samplers:PathIntegralAnnealingSampler", seed, num_reads=reads, num_sweeps=sweeps)


def tabu(reads: int = 10, restarts: int = 10, updates: int = 1000, seed: int | None = None) -> DimodSolver:
    """D-Wave's multistart tabu search: per read ``restarts`` searches of ``updates`` single flips each.

    The work is bounded by counts and not by the sampler's clock, so that a seed fixes the result.
    """
    work = {"timeout": None, "num_restarts": restarts, "lower_bound_z": updates, "coefficient_z_first": 1}
    return _made("dwave.samplers:TabuSampler", seed, num_reads=reads, coefficient_z_restart=1, **work)


def dimod_annealing(reads: int = 10, sweeps: int = 1000, seed: int | None = None) -> DimodSolver:
    """dimod's reference simulated annealing in pure Python: slow, a second opinion."""
    return _made("dimod:SimulatedAnnealingSampler", seed, num_reads=reads, num_sweeps=sweeps)
