"""Any ``dimod.Sampler`` as a solver, and any solver as a ``dimod.Sampler``."""

from __future__ import annotations

import inspect
import random
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

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
from qubolearn.qubo import Qubo, as_dense, check_qubo, sparse_from_bqm, to_bqm, upper_triangular
from qubolearn.qubo.interchange import check_bqm
from qubolearn.solvers.annealing import SimulatedAnnealing
from qubolearn.solvers.contract import (
    QuboSolver,
    SearchResult,
    Solver,
    check_solver,
    instance_seeds,
    no_temperature,
)
from qubolearn.solvers.forms import with_second_best

__all__ = ["DimodSolver", "QubolearnSampler", "neal", "path_integral", "tabu"]

Bits = npt.NDArray[np.int8]

#: Packages of local samplers, whose results are marked as simulated.
_LOCAL_PACKAGES = ("dwave.samplers.", "dimod.")
#: Samplers that may run in parallel (as of dwave-samplers 1.8).
_PARALLEL_PACKAGES = tuple(f"dwave.samplers.{name}." for name in ("sa", "sqa", "tabu", "greedy"))
_global_generators = threading.Lock()
#: Seconds between checks for signals, and to wait for interrupted samplers.
STEP, GRACE = 0.1, 0.8


@dataclass(frozen=True)
class DimodSolver(QuboSolver):
    """Run a ``dimod.Sampler`` on each QUBO; descents from neighbors of the best state x* add others.

    A descent may end below every read; ``info["success_probability"]`` counts reads alone.
    Reference: dimod, https://github.com/dwavesystems/dimod.

    Args:
        sampler: any ``dimod.Sampler``.
        parameters: arguments of ``sampler.sample``, such as ``num_reads``.
        seed: instance i gets a seed derived from (seed, i). For samplers without a ``seed``
            parameter, Python's and NumPy's global generators are seeded during the call.

    >>> A = torch.tensor([[[1.0, -3.0], [0.0, 1.0]]])
    >>> neal(reads=10, sweeps=100, seed=0)(A).states.tolist()
    [[[1.0, 1.0], [0.0, 0.0]]]
    """

    sampler: Sampler
    parameters: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None

    def __post_init__(self) -> None:
        known = set(self.sampler.parameters) | set(inspect.signature(self.sampler.sample).parameters)
        for name in self.parameters:
            if name not in known:
                raise unknown_name(f"parameter of {self.name}", name, known - {"bqm", "kwargs"})
        if "seed" in self.parameters:
            raise QubolearnError("the parameter 'seed' seeds all QUBOs alike; pass seed= to DimodSolver")
        check_counts(num_reads=self.parameters.get("num_reads", 1))
        instance_seeds(self.seed, 0)

    @property
    def name(self) -> str:
        return type(self.sampler).__name__

    def search(self, A: Tensor, count: int) -> SearchResult:
        best = [_best_of(U.numpy(), reads, count) for U, reads in zip(_upper(A), self._reads(A), strict=True)]
        states, success = zip(*best, strict=True)
        local = self._module().startswith(_LOCAL_PACKAGES)
        info: dict[str, Any] = {"sampler": self.name, "reads": self.parameters.get("num_reads")}
        info |= {"success_probability": torch.tensor(success, dtype=torch.float64)}
        info |= {"source": "simulated"} if local else {}
        return SearchResult(with_second_best(A, torch.from_numpy(np.stack(states)), count), info)

    def sample(self, A: Qubo, beta: float | None = None) -> Tensor:
        """Return the sampler's reads ``[batch, reads, n]``; a ``beta`` raises."""
        if beta is not None:
            raise no_temperature(self.name, beta)
        check_qubo(A)
        A = as_dense(A)
        reads = self._reads(A.detach())
        if len({len(bits) for bits in reads}) > 1:
            raise QubolearnError(f"{self.name} returned more reads of some QUBOs; set num_reads")
        return torch.from_numpy(np.stack(reads)).to(A)

    def _reads(self, A: Tensor) -> list[Bits]:
        stop, jobs = threading.Event(), iter(enumerate(_upper(A)))
        seeds = instance_seeds(self.seed, len(A)).tolist()
        found: dict[int, Bits] = {}
        errors: list[BaseException] = []

        def work() -> None:
            try:
                while not stop.is_set() and (job := next(jobs, None)) is not None:
                    found[job[0]] = self._read(*job, seeds[job[0]], stop)
            except BaseException as error:
                errors.append(error)
                stop.set()

        threads = thread_count() if self._module().startswith(_PARALLEL_PACKAGES) else 1
        workers = [threading.Thread(target=work, daemon=True) for _ in range(min(threads, len(A)))]
        try:
            for worker in workers:
                worker.start()
            for worker in workers:
                while worker.is_alive():  # a longer wait would miss signals
                    worker.join(STEP)
        except BaseException:  # Ctrl-C: samplers that do not listen are left behind
            stop.set()
            for worker in workers:
                if worker.ident is not None:
                    worker.join(GRACE)
            raise
        if errors:
            raise errors[0]
        return [found[i] for i in range(len(A))]

    def _module(self) -> str:
        return type(self.sampler).__module__ + "."

    def _read(self, index: int, U: Tensor, seed: int, stop: threading.Event) -> Bits:
        n, requested = U.shape[-1], self.parameters.get("num_reads", 1)
        if not bool(U.any()):
            # Samplers that scale by the largest entry divide by zero.
            return np.random.default_rng(seed).integers(0, 2, (requested, n), np.int8)
        try:
            sampleset = self._sample(to_bqm(U), seed, stop)
            labels, samples = list(sampleset.variables), sampleset.record.sample
        except Exception as error:
            raise QubolearnError(f"{self.name} failed on QUBO {index} of the batch: {error}") from error
        occurrences, wrong = sampleset.record.num_occurrences, ""
        if (occurrences < 0).any():
            wrong = f"a read {occurrences.min()} times"
        elif occurrences.sum() < requested:
            wrong = f"{occurrences.sum()} of {requested} reads"
        elif set(labels) != set(range(n)):
            wrong = f"variables {labels[:8]}, not 0 to {n - 1},"
        elif not np.isin(samples, (-1, 0, 1)).all():
            wrong = f"the value {samples.max()}, not bits or spins,"
        if wrong:
            raise QubolearnError(f"{self.name} returned {wrong} for QUBO {index}")
        return np.repeat((samples[:, np.argsort(labels)] > 0).astype(np.int8), occurrences, axis=0)

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


def _upper(A: Tensor) -> Tensor:
    return upper_triangular(A.to("cpu", torch.float64))


def _best_of(U: npt.NDArray[np.float64], reads: Bits, count: int) -> tuple[Bits, float]:
    """Return the ``count`` lowest reads, repeated, and the share of the lowest."""
    states, times = np.unique(reads, axis=0, return_counts=True)
    energy = np.einsum("ri,ij,rj->r", states, U, states, optimize=True)
    order = np.argsort(energy, kind="stable")
    at_best = np.isclose(energy, energy[order[0]], rtol=1e-9, atol=1e-12 * np.abs(U).sum())
    return states[np.resize(order[:count], count)], float(times[at_best].sum() / len(reads))


@contextmanager
def _seeded_global_generators(seed: int) -> Iterator[None]:
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
    return DimodSolver(getattr(import_module("dwave.samplers"), sampler)(), parameters, seed)


def neal(reads: int = 100, sweeps: int = 1000, seed: int | None = None) -> DimodSolver:
    """Return D-Wave's simulated annealing in C++, with its own range of temperatures."""
    return _made("SimulatedAnnealingSampler", seed, num_reads=reads, num_sweeps=sweeps)


def path_integral(reads: int = 100, sweeps: int = 1000, seed: int | None = None) -> DimodSolver:
    """Return D-Wave's simulated quantum annealing by path-integral Monte Carlo."""
    return _made("PathIntegralAnnealingSampler", seed, num_reads=reads, num_sweeps=sweeps)


def tabu(reads: int = 10, restarts: int = 10, updates: int = 1000, seed: int | None = None) -> DimodSolver:
    """Return D-Wave's tabu search: per read ``restarts`` searches of ``updates`` flips."""
    # counts, not the sampler's clock, so that a seed fixes the result
    work = {"timeout": None, "num_restarts": restarts, "lower_bound_z": updates, "coefficient_z_first": 1}
    return _made("TabuSampler", seed, num_reads=reads, coefficient_z_restart=1, **work)


class QubolearnSampler(Sampler, Initialized):
    """A dimod sampler that runs our solvers on any BQM, by default simulated annealing.

    With :class:`qubolearn.SimulatedAnnealing` the sample set holds every read, else the
    ``num_reads`` lowest distinct states, best first.

    >>> sampler = QubolearnSampler()
    >>> found = sampler.sample_ising({"a": 0.5}, {("a", "b"): -1.0}, num_reads=10, seed=0)
    >>> len(found), float(found.first.energy), int(sum(found.first.sample.values()))
    (10, -1.5, -2)
    """

    def __init__(self, solver: Solver | None = None) -> None:
        self._solver = SimulatedAnnealing() if solver is None else solver
        check_solver(self._solver)

    @property
    def parameters(self) -> dict[str, list[str]]:
        seeded = "seed" in getattr(self._solver, "__dataclass_fields__", {})
        names = ["num_reads", "seed"] if seeded else ["num_reads"]
        if isinstance(self._solver, SimulatedAnnealing):
            names += ["num_sweeps", "beta_range", "initial_states", "initial_states_generator"]
        return {name: [] for name in names}

    @property
    def properties(self) -> dict[str, Any]:
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

        Arguments are neal's; those after ``seed`` belong to simulated annealing. ``num_reads`` is
        by default the number of initial states, or one.
        """
        self.remove_unknown_kwargs(**kwargs)
        check_bqm(bqm)
        check_counts(num_reads=1 if num_reads is None else num_reads)
        changed = {"seed": seed, "num_sweeps": num_sweeps, "beta_range": beta_range}
        solver: Any = self._solver
        for name, value in {**changed, "initial_states": initial_states}.items():
            if value is not None and name not in self.parameters:
                known = ", ".join(self.parameters)
                raise QubolearnError(f"{name}={value}, but {type(solver).__name__} takes only {known}")
            if value is not None and name in changed:
                solver = replace(solver, **{name.removeprefix("num_"): value})
        annealing = isinstance(solver, SimulatedAnnealing)
        if not bqm.num_variables:
            states = np.empty(((num_reads or 1) if annealing else 1, 0), np.int8)
        elif annealing:
            initial = self._initial(bqm, num_reads, seed, initial_states, initial_states_generator)
            solver = replace(solver, reads=(num_reads or 1) if initial is None else initial.shape[1])
            states = solver.sample(sparse_from_bqm(bqm)[0], initial=initial)[0].to(torch.int8).numpy()
        else:
            count = min(num_reads or 1, 2 ** min(bqm.num_variables, 62))
            states = solver(sparse_from_bqm(bqm)[0], count).states[0].to(torch.int8).numpy()
        samples: Any = (2 * states - 1 if bqm.vartype is SPIN else states, list(bqm.variables))
        return SampleSet.from_samples_bqm(samples, bqm, aggregate_samples=False)  # type: ignore[no-any-return, no-untyped-call]

    def _initial(
        self, bqm: BinaryQuadraticModel, num_reads: int | None, seed: int | None, states: Any, generator: str
    ) -> Tensor | None:
        """Return initial bits ``[1, reads, n]`` in the order of ``bqm.variables``."""
        if states is None and generator == "random":
            return None
        parsed = self.parse_initial_states(bqm, states, generator, num_reads, seed).initial_states  # type: ignore[arg-type]
        columns = [parsed.variables.index(label) for label in bqm.variables]
        return torch.from_numpy((parsed.record.sample[:, columns] > 0).astype(np.int8))[None]
