"""D-Wave's quantum annealers, many QUBOs per anneal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from qubolearn.chips.embedding import Chip, Coupler
from qubolearn.chips.packing import Packing, Ranges, pack, program, stated_range, unpack
from qubolearn.errors import QubolearnError, check_counts, check_numbers, missing_extra
from qubolearn.qubo import energies, to_ising, upper_triangular
from qubolearn.solvers.contract import QuboSolver, SearchResult, instance_seeds, no_temperature
from qubolearn.solvers.dwave.access import MARGIN, Opened, QpuAccess, estimated_seconds, reported_seconds, run
from qubolearn.solvers.forms import with_second_best

__all__ = ["DWaveSolver"]

#: Below this largest entry float64 underflows.
MIN_ENTRY = 1e-140

#: Inverse temperatures of the mock; the last one is about a chip's.
MOCK_BETA_RANGE = (0.1, 10.0)


@dataclass(frozen=True)
class DWaveSolver(QuboSolver):
    """Solve on a D-Wave machine: pack the batch onto one chip, and search near the best state x*.

    QUBOs on a pattern of :func:`qubolearn.topology` use one qubit per bit, all others are
    minor-embedded (Cai, Macready and Roy, arXiv:1406.2741, 2014). One call anneals as many QUBOs as
    there are disjoint tiles. Each QUBO is scaled to fill the chip's ranges.

    Every call is estimated first, and raises if it would exceed ``budget_seconds``, which copies of
    the solver share. No call is repeated, and one that fails counts as paid. Late or interrupted
    calls are canceled. D-Wave's client reads the token; the solver never stores it. ``info`` holds
    the ``source`` of the answers (``"qpu"``, ``"mock"``, ``"simulated"``), costs, and measurements of each QUBO.

    Args:
        reads: anneals per call.
        anneal_time: in µs; None for the chip's default, mostly 20.
        chain_strength: multiple of rms(J) √(mean degree), as D-Wave's default.
        budget_seconds: the limit of QPU access time.
        deadline_seconds: how long to wait for each call.
        qpu: the name of the chip; None for the largest one that is online.
        profile: the section of D-Wave's configuration file.
        region, endpoint: D-Wave's service, if not the default one.
        access: the connection and the account.

    >>> solver = DWaveSolver.mock(reads=50, sweeps=50, seed=0)  # no token, no network
    >>> solver(torch.tensor([[[1.0, -3.0], [0.0, 1.0]]]), count=1).states.tolist()
    [[[1.0, 1.0]]]
    """

    reads: int = 100
    anneal_time: float | None = None
    chain_strength: float = 1.414
    budget_seconds: float = 10.0
    deadline_seconds: float = 300.0
    qpu: str | None = None
    profile: str | None = None
    region: str | None = None
    endpoint: str | None = None
    access: QpuAccess = field(default_factory=QpuAccess)

    def __post_init__(self) -> None:
        check_counts(reads=self.reads)
        for name in ("chain_strength", "deadline_seconds", "anneal_time"):
            if (value := getattr(self, name)) is not None:
                check_numbers(**{name: value})
        check_numbers(True, budget_seconds=self.budget_seconds)

    @classmethod
    def mock(
        cls,
        topology: str = "pegasus",
        size: int = 16,
        sweeps: int = 100,
        seed: int | None = None,
        broken_qubits: Iterable[int] = (),
        broken_couplers: Iterable[Coupler] = (),
        reads: int = 100,
        anneal_time: float | None = None,
        chain_strength: float = 1.414,
        budget_seconds: float = 10.0,
        deadline_seconds: float = 300.0,
    ) -> DWaveSolver:
        """Return the solver on D-Wave's mock of a chip, without a token or a network.

        Reads come from simulated annealing. QPU times are estimates for Advantage; only they depend
        on ``anneal_time``.
        """
        sampler = _mock_sampler(topology, size, sweeps, seed, list(broken_qubits), list(broken_couplers))
        access = QpuAccess(sampler)
        return cls(reads, anneal_time, chain_strength, budget_seconds, deadline_seconds, access=access)

    def search(self, A: Tensor, count: int) -> SearchResult:
        states, info = self._anneal(A)
        energy = energies(A.cpu().double(), states)
        best = states[torch.arange(len(A)), energy.argmin(1)]
        lowest = energy.amin(1, keepdim=True)
        info["success_probability"] = (energy <= lowest + 1e-9 * lowest.abs()).double().mean(1)
        return SearchResult(with_second_best(A, torch.cat([best[:, None], states], 1), count), info)

    def sample(self, A: Tensor, beta: float | None = None) -> Tensor:
        """Return the chip's reads ``[batch, reads, n]``; a ``beta`` raises."""
        if beta is not None:
            raise no_temperature("D-Wave's chip", beta)
        return self._anneal(A.detach())[0].to(A)

    def _anneal(self, A: Tensor) -> tuple[Tensor, dict[str, Any]]:
        """Return all reads, costs, shares of broken chains and scales."""
        A = A.to("cpu", torch.float64)
        each = A.abs().amax((1, 2))
        if bool((tiny := (each > 0) & (each < MIN_ENTRY)).any()):
            largest = f"|A_ij| up to {each[tiny][0].item():.1e}"
            raise QubolearnError(f"{largest} vanish as h and J (limit {MIN_ENTRY:g}); multiply A")
        settings = {"solver": self.qpu, "profile": self.profile}
        settings |= {"region": self.region, "endpoint": self.endpoint}
        opened = self.access.open({k: v for k, v in settings.items() if v is not None}, self.deadline_seconds)
        parameters = self._parameters(opened.sampler.properties)
        couplers = (upper_triangular(A) != 0).any(0).triu(1).nonzero().tolist()
        packing = pack(A.shape[2], frozenset((i, j) for i, j in couplers), opened.chip)
        parts = [A[start : start + packing.tiles] for start in range(0, len(A), packing.tiles)]
        qubits = [len(packing.first(len(part)).qubits) for part in parts]
        needed = [estimated_seconds(opened, used, parameters) for used in qubits]
        waiting = [MARGIN * seconds for seconds in needed]  # reserved for calls to come
        self.access.charge(sum(waiting), self.budget_seconds)
        calls: list[_Call] = []
        try:
            for part, estimate in zip(parts, needed, strict=True):
                self.access.charge(0.0, self.budget_seconds)  # if the last took longer
                waiting.pop(0)  # stays on the account if the call fails
                calls.append(self._call(part, packing.first(len(part)), opened, parameters, estimate))
        finally:
            self.access.charge(-sum(waiting))
        seconds, states, broken, scale = zip(*calls, strict=True)
        return torch.cat(states), {
            "source": opened.source,
            "chip": opened.sampler.properties.get("chip_id"),
            "embedding": packing.method,
            "calls": len(calls),
            "tiles": packing.tiles,
            "reads": self.reads,
            "qpu_access_seconds": sum(seconds),
            "qpu_spent_seconds": self.access.spent_seconds,
            "chain_break_fraction": torch.cat(broken),
            "scale": torch.cat(scale),
        }

    def close(self) -> None:
        """End the connection; the next call opens a new one."""
        self.access.close()

    def _parameters(self, properties: Mapping[str, Any]) -> dict[str, Any]:
        wanted: dict[str, Any] = {"answer_mode": "raw", "auto_scale": False}
        known = properties.get("parameters") or wanted
        parameters = {key: value for key, value in wanted.items() if key in known} | {"num_reads": self.reads}
        parameters |= {} if self.anneal_time is None else {"annealing_time": self.anneal_time}
        limits = {"num_reads": (1, 10000), "annealing_time": (0.0, math.inf)}
        for name, otherwise in limits.items():
            low, high = stated_range(properties, f"{name}_range", otherwise)
            if name in parameters and not low <= parameters[name] <= high:
                raise QubolearnError(f"{name}={parameters[name]}, but this chip takes {low} ... {high}")
        return parameters

    def _call(self, A: Tensor, packing: Packing, opened: Opened, parameters: Any, estimate: float) -> _Call:
        from dimod import SPIN, BinaryQuadraticModel

        J, h, _ = to_ising(A)
        ranges = Ranges.of(opened.sampler.properties)
        programmed = program(packing, J.numpy(), h.numpy(), ranges, self.chain_strength)
        edges, qubits = (*packing.ends, programmed.J), packing.qubits.tolist()
        bqm = BinaryQuadraticModel.from_numpy_vectors(programmed.h, edges, 0.0, SPIN, variable_order=qubits)
        sampleset = run(opened, bqm, parameters, self.deadline_seconds)
        # The mock's stated time is constant; its estimate is closer to a chip's.
        spent = reported_seconds(sampleset.info, MARGIN * estimate) if opened.source == "qpu" else estimate
        self.access.charge(spent - MARGIN * estimate)
        size = float(np.abs(programmed.h).sum() + np.abs(programmed.J).sum())
        bits, broken = unpack(packing, _spins(sampleset, bqm, qubits, self.reads, size))
        parts = (bits, broken, programmed.scale)
        return _Call(spent, *(torch.from_numpy(np.ascontiguousarray(part)) for part in parts))


class _Call(NamedTuple):
    seconds: float
    states: Tensor  # [tiles, reads, n]
    broken: Tensor  # [tiles]
    scale: Tensor  # [tiles]


def _spins(sampleset: Any, bqm: Any, qubits: list[int], reads: int, size: float) -> npt.NDArray[np.int8]:
    """Return the spins ``[reads, Q]`` of an answer, in the order of ``qubits``.

    Raise if any is missing, or if the stated energies are not those of the reads.
    """
    record = sampleset.record
    if missing := set(qubits) - set(sampleset.variables):
        raise QubolearnError(f"the answer lacks {len(missing)} of {len(qubits)} qubits")
    samples = record.sample[:, [sampleset.variables.index(qubit) for qubit in qubits]]
    counts = record.num_occurrences
    if counts.sum() != reads or (counts < 0).any():  # before allocating
        raise QubolearnError(f"the answer holds {counts.sum()} of {reads} reads; try again or request fewer")
    if (others := samples[~np.isin(samples, (-1, 1))]).size:
        raise QubolearnError(f"the answer holds the spin {others[0]}; expected -1 or 1")
    error = np.abs(bqm.energies((samples, qubits)) - record.energy).max()
    if not error <= 1e-5 * size:
        raise QubolearnError(f"the answer is garbled: reads miss their energies by {error:.3g}; try again")
    return np.repeat(samples, counts, axis=0).astype(np.int8)


def _mock_sampler(
    family: str, size: int, sweeps: int, seed: int | None, qubits: list[int], couplers: list[Coupler]
) -> Any:
    try:
        from dwave.cloud.testing.mocks import qpu_problem_timing_data
        from dwave.samplers import SimulatedAnnealingSampler
        from dwave.system.testing import MockDWaveSampler
    except ImportError:
        raise missing_extra("the D-Wave solver", "dwave") from None
    check_counts(sweeps=sweeps, size=size)
    ideal = Chip.ideal(family, size)
    for broken in [*qubits, *couplers]:
        if not (ideal.graph.has_edge(*broken) if isinstance(broken, tuple) else broken in ideal.graph):
            raise QubolearnError(f"broken_qubits or broken_couplers: {broken} is not on the chip {ideal}")
    annealing: dict[str, Any] = {"num_sweeps": sweeps, "beta_range": MOCK_BETA_RANGE}
    if seed is not None:
        annealing["seed"] = int(instance_seeds(seed, 1)[0]) >> 1  # neal takes 31 bits
    return MockDWaveSampler(
        topology_type=family,
        topology_shape=list(ideal.shape),
        broken_nodes=qubits,
        broken_edges=couplers,
        substitute_sampler=SimulatedAnnealingSampler(),  # type: ignore[no-untyped-call]
        substitute_kwargs=annealing,
        parameter_warnings=False,
        properties={"problem_timing_data": qpu_problem_timing_data("advantage")},
    )
