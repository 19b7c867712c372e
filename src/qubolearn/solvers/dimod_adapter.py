"""dimod in both directions: any ``dimod.Sampler`` as a solver, and any solver as a ``dimod.Sampler``.

Importing this module imports dimod.
"""

from __future__ import annotations

import inspect
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from dimod.binary import BinaryQuadraticModel
from dimod.core.initialized import Initialized
from dimod.core.sampler import Sampler
from dimod.sampleset import SampleSet
from dimod.vartypes import SPIN
from torch import Tensor

from qubolearn.errors import QubolearnError, check_counts, unknown_name
from qubolearn.kernels import thread_count
from qubolearn.qubo import Qubo, as_dense, check_qubo, from_bqms, to_bqm, upper_triangular
from qubolearn.qubo.interchange import check_bqm
from qubolearn.solvers.annealing import SimulatedAnnealing
from qubolearn.solvers.contract import QuboSolver, SearchResult, Solver, check_solver, instance_seeds, no_temperature
from qubolearn.solvers.forms import with_second_best

__all__ = ["DimodSolver", "QubolearnSampler", "dimod_annealing", "neal", "path_integral", "tabu"]

Bits = npt.NDArray[np.int8]
Floats = npt.NDArray[np.float64]
T = TypeVar("T")

#: Packages of samplers that compute locally: their results are marked as simulated.
_LOCAL_PACKAGES = ("dwave.samplers.", "dimod.")
#: Samplers that release the GIL while they work and keep no state between calls (as of dwave-samplers 1.8).
_PARALLEL_PACKAGES = tuple(f"dwave.samplers.{name}." for name in ("sa", "sqa", "tabu", "greedy"))
_global_generators = threading.Lock()
#: Seconds between two looks at signals, and to wait for interrupted samplers.
STEP, GRACE = 0.1, 0.8


@dataclass(frozen=True)
class DimodSolver(QuboSolver):
    """Run a ``dimod.Sampler`` on each QUBO of the batch, and complete x⁺ by descents from the neighbors of x*.

    If a descent ends below every read, x* is that state. ``info["success_probability"]`` counts the reads alone.

    Args:
        sampler: any ``dimod.Sampler``.
        parameters: arguments of ``sampler.sample``, such as ``num_reads``.
        seed: instance i gets a seed derived from (seed, i). A sampler without a ``seed`` parameter draws from Python's
            or NumPy's global generator, which is seeded for the call and restored after it.
        threads: by default as many as our kernels use if the sampler is known to release the GIL, otherwise one.

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

    def search(self, A: Tensor, count: int) -> SearchResult:
        best = self._for_each(A, lambda U, reads: _best_of(U, reads, count))
        info: dict[str, Any] = {
            "sampler": self.name,
            "reads": self.parameters.get("num_reads"),
            "success_probability": torch.tensor([one.success_probability for one in best], dtype=torch.float64),
        }
        if self._module().startswith(_LOCAL_PACKAGES):
            info["source"] = "simulated"
        states = torch.from_numpy(np.stack([one.states for one in best]))
        return SearchResult(with_second_best(A, states, count), info)

    def sample(self, A: Qubo, beta: float | None = None) -> Tensor:
        """Return all reads ``[batch, reads, n]`` as they come from the sampler; a ``beta`` raises."""
        if beta is not None:
            raise no_temperature(self.name, beta)
        check_qubo(A)
        A = as_dense(A)
        reads = self._for_each(A.detach(), lambda U, reads: np.repeat(reads.bits, reads.occurrences, axis=0))
        if len({len(bits) for bits in reads}) > 1:
            raise QubolearnError(f"{self.name} returned more reads of some QUBOs than of others; set num_reads")
        return torch.from_numpy(np.stack(reads)).to(A)

    def _for_each(self, A: Tensor, use: Callable[[Floats, _Reads], T]) -> list[T]:
        """Apply ``use`` to each QUBO, upper triangular in float64, and its reads."""
        U = upper_triangular(A.to("cpu", torch.float64))
        seeds, stop = instance_seeds(self.seed, len(U)).tolist(), threading.Event()
        found: dict[int, T] = {}

        def work(i: int) -> None:
            found[i] = use(U[i].numpy(), self._read(i, U[i], seeds[i], stop))

        _share(work, len(U), self._threads(), stop)
        return [found[i] for i in range(len(U))]

    def _module(self) -> str:
        return type(self.sampler).__module__ + "."

    def _threads(self) -> int:
        if self.threads is not None:
            return self.threads
        return thread_count() if self._module().startswith(_PARALLEL_PACKAGES) else 1

    def _read(self, index: int, U: Tensor, seed: int, stop: threading.Event) -> _Reads:
        n, requested = U.shape[-1], self.parameters.get("num_reads", 1)
        if not bool(U.any()):
            # All states are equally good, and samplers that scale by the largest entry warn or divide by zero.
            drawn = np.random.default_rng(seed).integers(0, 2, (requested, n), np.int8)
            return _Reads(drawn, np.ones(requested, np.int64))
        try:
            sampleset = self._sample(to_bqm(U), seed, stop)
            labels, samples = list(sampleset.variables), sampleset.record.sample
        except Exception as error:
            raise QubolearnError(f"{self.name} failed on QUBO {index} of the batch: {error}") from error
        occurrences = sampleset.record.num_occurrences
        if (occurrences < 0).any():
            raise QubolearnError(f"{self.name} returned a read {occurrences.min()} times for QUBO {index}")
        if occurrences.sum() < requested:
            raise QubolearnError(f"{self.name} returned {occurrences.sum()} of {requested} reads for QUBO {index}")
        if set(labels) != set(range(n)):
            raise QubolearnError(f"{self.name} returned variables {labels[:8]} for QUBO {index}; expected 0 to {n - 1}")
        if not np.isin(samples, (-1, 0, 1)).all():
            raise QubolearnError(f"{self.name} returned the value {samples.max()} for QUBO {index}, not bits or spins")
        return _Reads((samples[:, np.argsort(labels)] > 0).astype(np.int8), occurrences)

    def _sample(self, bqm: BinaryQuadraticModel, seed: int, stop: threading.Event) -> Any:
        parameters = dict(self.parameters)
        if "interrupt_function" in self.sampler.parameters:
            parameters.setdefault("interrupt_function", stop.is_set)
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
    """The best reads of a sample set."""

    states: npt.NDArray[np.int8]  # [count, n], best first; repeated if there are fewer distinct ones
    success_probability: float  # the share of reads at the lowest energy read


def _best_of(U: Floats, reads: _Reads, count: int) -> _Best:
    """Return the ``count`` lowest distinct reads under U ``[n, n]``."""
    states, row_of = np.unique(reads.bits, axis=0, return_inverse=True)
    times = np.bincount(row_of.reshape(-1), weights=reads.occurrences)
    energy = np.einsum("ri,ij,rj->r", states, U, states, optimize=True)
    order = np.argsort(energy, kind="stable")
    chosen = np.resize(order[:count], count)
    at_best = np.isclose(energy, energy[order[0]], rtol=1e-9, atol=1e-12 * np.abs(U).sum())
    return _Best(states[chosen], float(times[at_best].sum() / times.sum()))


def _share(work: Callable[[int], None], tasks: int, threads: int, stop: threading.Event) -> None:
    """Call ``work(i)`` for all tasks on daemon threads, so that Ctrl-C can interrupt the caller, who waits.

    After an exception ``stop`` is set and no task is begun; threads that do not end within a second are left behind.
    """
    pending, errors = iter(range(tasks)), []

    def run() -> None:
        try:
            while not stop.is_set() and (i := next(pending, None)) is not None:
                work(i)
        except BaseException as error:
            errors.append(error)
            stop.set()

    workers = [threading.Thread(target=run, name="qubolearn", daemon=True) for _ in range(min(threads, tasks))]
    try:
        for worker in workers:
            worker.start()
        for worker in workers:
            while worker.is_alive():  # a signal that another thread receives does not end a join
                worker.join(STEP)
    except BaseException:
        stop.set()
        until = time.monotonic() + GRACE
        for worker in workers:
            if worker.ident is not None:
                worker.join(max(0.0, until - time.monotonic()))
        raise
    if errors:
        raise errors[0]


@contextmanager
def _seeded_global_generators(seed: int) -> Iterator[None]:
    """Seed Python's and NumPy's global generators, and restore them."""
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
    """Return a solver of a sampler, ``package:class``."""
    package, _, name = sampler.partition(":")
    return DimodSolver(getattr(import_module(package), name)(), parameters, seed)


def neal(reads: int = 100, sweeps: int = 1000, seed: int | None = None) -> DimodSolver:
    """Return D-Wave's simulated annealing in C++, with its own range of temperatures."""
    return _made("dwave.samplers:SimulatedAnnealingSampler", seed, num_reads=reads, num_sweeps=sweeps)


def path_integral(reads: int = 100, sweeps: int = 1000, seed: int | None = None) -> DimodSolver:
    """Return D-Wave's simulated quantum annealing: path-integral Monte Carlo of a transverse-field Ising model."""
    return _made("dwave.samplers:PathIntegralAnnealingSampler", seed, num_reads=reads, num_sweeps=sweeps)


def tabu(reads: int = 10, restarts: int = 10, updates: int = 1000, seed: int | None = None) -> DimodSolver:
    """Return D-Wave's multistart tabu search: per read ``restarts`` searches of ``updates`` single flips each.

    The work is bounded by counts instead of the sampler's clock, so that a seed fixes the result.
    """
    work = {"timeout": None, "num_restarts": restarts, "lower_bound_z": updates, "coefficient_z_first": 1}
    return _made("dwave.samplers:TabuSampler", seed, num_reads=reads, coefficient_z_restart=1, **work)


def dimod_annealing(reads: int = 10, sweeps: int = 1000, seed: int | None = None) -> DimodSolver:
    """Return dimod's reference simulated annealing in pure Python: slow, for comparison."""
    return _made("dimod:SimulatedAnnealingSampler", seed, num_reads=reads, num_sweeps=sweeps)


class QubolearnSampler(Sampler, Initialized):
    """A dimod sampler that runs our solvers on BQMs of any labels, vartype and offset; by default simulated annealing.

    With :class:`qubolearn.SimulatedAnnealing` the sample set holds every read, as neal's does. With any other solver it
    holds the ``num_reads`` lowest distinct states, best first.

    >>> sampler = QubolearnSampler()
    >>> sampleset = sampler.sample_ising({"a": 0.5}, {("a", "b"): -1.0}, num_reads=10, seed=0)
    >>> len(sampleset), float(sampleset.first.energy), [int(spin) for spin in sampleset.first.sample.values()]
    (10, -1.5, [-1, -1])
    """

    def __init__(self, solver: Solver | None = None) -> None:
        self._solver = SimulatedAnnealing() if solver is None else solver
        check_solver(self._solver)
        self._seeded = "seed" in getattr(self._solver, "__dataclass_fields__", {})

    @property
    def parameters(self) -> dict[str, list[str]]:
        """The arguments of :meth:`sample` besides the model."""
        names = ["num_reads", "seed"] if self._seeded else ["num_reads"]
        if isinstance(self._solver, SimulatedAnnealing):
            names += ["num_sweeps", "beta_range", "initial_states", "initial_states_generator"]
        return {name: [] for name in names}

    @property
    def properties(self) -> dict[str, Any]:
        """The solver that does the work."""
        return {"solver": repr(self._solver)}

    def sample(
        self,
        bqm: BinaryQuadraticModel,
        num_reads: int | None = None,
        seed: int | None = None,
        num_sweeps: int | None = None,
        beta_range: tuple[float, float] | None = None,
        initial_states: Any = None,
        initial_states_generator: str = "random",
        **kwargs: Any,
    ) -> SampleSet:
        """Return a sample set of the model, in its labels and vartype.

        Arguments have the names and meanings of neal's. Those after ``seed`` belong to simulated annealing.

        - ``num_reads``: the number of states; by default that of the initial states, or one.
        - ``seed``: by default the solver's.
        - ``num_sweeps``, ``beta_range``: by default the solver's; the default range is neal's.
        - ``initial_states``: first states of the reads, as :func:`dimod.as_samples` takes them.
        - ``initial_states_generator``: ``"none"`` (raise), ``"tile"`` or ``"random"`` if these are too few.
        """
        annealing = {"num_sweeps": num_sweeps, "beta_range": beta_range, "initial_states": initial_states}
        given = {name: value for name, value in annealing.items() if value is not None}
        self.remove_unknown_kwargs(**kwargs)
        check_bqm(bqm)
        check_counts(num_reads=1 if num_reads is None else num_reads)
        solver: Any = self._solver
        if seed is not None:
            if not self._seeded:
                raise QubolearnError(f"seed={seed}, but {type(solver).__name__} has no seed")
            solver = replace(solver, seed=seed)
        if isinstance(solver, SimulatedAnnealing):
            initial = self._initial(bqm, num_reads, seed, initial_states, initial_states_generator)
            reads = (num_reads or 1) if initial is None else len(initial)
            states = self._reads(bqm, solver, reads, num_sweeps, beta_range, initial)
        elif given:
            raise QubolearnError(f"{next(iter(given))}: {type(solver).__name__} takes only num_reads and seed")
        else:
            states = self._lowest(bqm, solver, num_reads or 1)
        values = 2 * states - 1 if bqm.vartype is SPIN else states
        sampleset: SampleSet = SampleSet.from_samples_bqm(  # type: ignore[no-untyped-call]
            (values, list(bqm.variables)), bqm, aggregate_samples=False
        )
        return sampleset

    def _initial(
        self, bqm: BinaryQuadraticModel, num_reads: int | None, seed: int | None, states: Any, generator: str
    ) -> Bits | None:
        """Return initial states ``[reads, n]`` as bits, columns in the order of ``bqm.variables``."""
        if states is None and generator == "random":
            return None
        parsed = self.parse_initial_states(bqm, states, generator, num_reads, seed)  # type: ignore[arg-type]
        order = {label: column for column, label in enumerate(parsed.initial_states.variables)}
        columns = [order[label] for label in bqm.variables]
        found: Bits = (parsed.initial_states.record.sample[:, columns] > 0).astype(np.int8)
        return found

    @staticmethod
    def _reads(
        bqm: BinaryQuadraticModel,
        solver: SimulatedAnnealing,
        reads: int,
        sweeps: int | None,
        beta_range: tuple[float, float] | None,
        initial: Bits | None,
    ) -> Bits:
        """Return the final states of all reads ``[reads, n]``."""
        betas = solver.beta_range if beta_range is None else beta_range
        solver = replace(solver, reads=reads, sweeps=solver.sweeps if sweeps is None else sweeps, beta_range=betas)
        if not bqm.num_variables:
            return np.empty((reads, 0), np.int8)
        first = None if initial is None else torch.from_numpy(initial)[None]
        states: Bits = solver.sample(from_bqms([bqm])[0], initial=first)[0].to(torch.int8).numpy()
        return states

    @staticmethod
    def _lowest(bqm: BinaryQuadraticModel, solver: Solver, count: int) -> Bits:
        """Return the lowest states ``[count, n]``."""
        if not bqm.num_variables:
            return np.empty((1, 0), np.int8)
        A = from_bqms([bqm])[0]  # the offset is left to dimod
        states: Bits = solver(A, min(count, 2 ** min(A.n, 62))).states[0].to(torch.int8).numpy()
        return states
