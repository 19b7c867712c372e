"""D-Wave: every QUBO of the batch gets its own right answer, and the chip's time is never overdrawn."""

from __future__ import annotations

import copy
import dataclasses
import logging
import pickle
import random
import sys
import threading
from types import SimpleNamespace
from typing import Any

import dimod
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from qubolearn.embedding import Chip
from qubolearn.errors import QubolearnError
from qubolearn.qubo import all_states, energies, to_ising
from qubolearn.solvers import make_solver, qpu
from qubolearn.solvers.dwave import DWaveSolver
from qubolearn.solvers.packing import Packing, Ranges, pack, program, unpack
from qubolearn.solvers.qpu import QpuAccess
from qubolearn.testing import check_solver
from qubolearn.topologies import topology

RANGES = Ranges((-4.0, 4.0), (-1.0, 1.0), (-2.0, 1.0), (-18.0, 15.0))
SECRET = "DEV-0123456789abcdef0123456789abcdef01234567"


def qubos(name: str, n: int, batch: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, n, n, generator=generator) * topology(name, n).mask


def exact(A: Tensor, count: int = 2) -> Tensor:
    """The lowest energies ``[batch, count]`` by brute force."""
    states = all_states(A.shape[2], dtype=torch.float64)
    return energies(A.double(), states.expand(len(A), *states.shape)).sort(1).values[:, :count]


def mock_sampler(**options: Any) -> Any:
    return DWaveSolver.mock(topology="pegasus", size=3, sweeps=50, **options).access.open({}, 1.0).sampler


class Wrapped:
    """A structured sampler that does as the mock does, but for what a test changes."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.calls = inner, 0
        self.properties, self.nodelist, self.edgelist = inner.properties, inner.nodelist, inner.edgelist

    def sample(self, bqm: Any, **parameters: Any) -> Any:
        self.calls += 1
        return self.inner.sample(bqm, **parameters)


def test_a_thousand_bipartite_qubos_take_two_calls_and_all_are_answered() -> None:
    A = qubos("chimera", 8, 1000)
    solution = DWaveSolver.mock("pegasus", 16, sweeps=30, seed=0, reads=30)(A)
    assert solution.info["calls"] == 2
    assert solution.info["source"] == "mock"
    assert solution.states.shape == (1000, 2, 8)
    torch.testing.assert_close(solution.energies[:, 0], exact(A)[:, 0], rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "n", "chip", "size", "embedding"),
    [
        ("chimera", 8, "chimera", 3, "direct"),
        ("pegasus", 12, "pegasus", 4, "direct"),
        ("zephyr", 12, "zephyr", 3, "direct"),
        ("chimera", 12, "zephyr", 3, "direct"),
        ("dense", 7, "pegasus", 4, "minor"),
        ("dense", 9, "zephyr", 3, "minor"),
        ("diagonal", 5, "chimera", 3, "direct"),
        ("dense", 1, "pegasus", 3, "direct"),
    ],
)
def test_both_best_states_are_those_of_brute_force(name: str, n: int, chip: str, size: int, embedding: str) -> None:
    A = qubos(name, n, 60)
    solution = DWaveSolver.mock(chip, size, seed=1)(A)
    torch.testing.assert_close(solution.energies, exact(A), rtol=0, atol=1e-5)
    assert solution.info["embedding"] == embedding
    assert solution.info["calls"] == -(-60 // solution.info["tiles"])


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from([("dense", 6), ("chimera", 8), ("pegasus", 10), ("diagonal", 3)]),
    st.sampled_from(["tile", "call"]),
    st.integers(0, 2**20),
)
def test_the_programmed_energy_is_the_sum_of_the_scaled_energies(
    kind: tuple[str, int], scaling: str, seed: int
) -> None:
    """For any spins that agree within chains: physical energy = Σ scale · logical energy - chain couplings."""
    name, n = kind
    packing = pack(n, frozenset(topology(name, n).couplers), Chip.ideal("pegasus", 3))
    J, h, _ = to_ising(qubos(name, n, packing.tiles, seed).double())
    told = program(packing, J.numpy(), h.numpy(), RANGES, 1.4, scaling)
    s = torch.from_numpy(np.random.default_rng(seed).choice([-1.0, 1.0], (packing.tiles, n)))
    logical = torch.einsum("bi,bij,bj->b", s, J, s) + (h * s).sum(1)

    physical = dimod.BinaryQuadraticModel.from_numpy_vectors(
        told.h, (*packing.ends, told.J), 0.0, dimod.SPIN, variable_order=packing.qubits.tolist()
    )
    spins = dict(zip(packing.qubits.tolist(), s.reshape(-1)[packing.node].tolist(), strict=True))
    chains = told.J[packing.pair[0] == packing.pair[1]].sum()
    assert physical.energy(spins) == pytest.approx(float((torch.from_numpy(told.scale) * logical).sum()) + chains)
    assert np.abs(told.h).max() <= 4
    assert told.J.min(initial=0) >= -2
    assert told.J.max(initial=0) <= 1


def test_scaling_by_tile_fills_the_range_of_each_and_by_call_that_of_the_largest() -> None:
    packing = pack(8, frozenset(topology("chimera", 8).couplers), Chip.ideal("chimera", 2))
    A = qubos("chimera", 8, 4).double() * torch.tensor([1.0, 10.0, 0.1, 0.0])[:, None, None]
    J, h, _ = (part.numpy() for part in to_ising(A))
    told = program(packing, J, h, RANGES, 1.0, "tile")
    for tile in range(3):
        fills = max(
            np.abs(told.h[packing.node // 8 == tile]).max() / 4, np.abs(told.J[packing.coupler_tile == tile]).max()
        )
        assert fills == pytest.approx(1)
    assert told.scale[0] == pytest.approx(10 * program(packing, J * 10, h * 10, RANGES, 1.0, "tile").scale[0])
    assert np.ptp(program(packing, J, h, RANGES, 1.0, "call").scale) == 0
    with pytest.raises(QubolearnError, match=r"QUBO 1 .* times the chip's range of h \[-4.0, 4.0\].*scaling='tile'"):
        program(packing, J, h, RANGES, 1.0, "none")
    assert (program(packing, J / 100, h / 100, RANGES, 1.0, "none").scale == 1).all()


def test_the_sum_of_a_qubits_couplings_stays_in_its_range() -> None:
    packing = pack(8, frozenset(topology("chimera", 8).couplers), Chip.ideal("chimera", 2))
    J = np.zeros((4, 8, 8))
    J[:, :4, 4:] = 1.0
    tight = RANGES._replace(qubit=(-3.0, 2.0))
    told = program(packing, J, np.zeros((4, 8)), tight, 1.0, "tile")
    totals = sum(np.bincount(end, told.J, minlength=len(packing.qubits)) for end in packing.ends)
    assert totals.max() == pytest.approx(2.0)


def test_chains_are_read_by_majority_and_their_breaks_are_counted() -> None:
    packing = Packing(
        n=2,
        tiles=2,
        method="minor",
        qubits=np.arange(7),
        node=np.array([0, 0, 0, 1, 2, 2, 3]),  # chains of 3, 1, 2 and 1 qubits
        ends=np.zeros((2, 0), dtype=np.int64),
        coupler_tile=np.zeros(0, dtype=np.int64),
        pair=np.zeros((2, 0), dtype=np.int64),
        share=np.zeros(0),
    )
    spins = np.array([[1, 1, -1, -1, -1, 1, 1], [-1, -1, -1, 1, 1, -1, -1]], dtype=np.int8)
    bits, broken = unpack(packing, spins)
    assert bits.tolist() == [[[1, 0], [0, 1]], [[0, 1], [1, 0]]]
    assert broken.tolist() == [0.25, 0.5]


def test_weak_chains_break_and_are_reported() -> None:
    A = qubos("dense", 9, 10)
    strong = DWaveSolver.mock("pegasus", 4, seed=0)(A)
    weak = DWaveSolver.mock("pegasus", 4, seed=0, chain_strength=0.05)(A)
    assert strong.info["chain_break_fraction"].mean() < 0.05 < weak.info["chain_break_fraction"].mean()
    assert weak.info["chain_break_fraction"].shape == (10,)
    assert weak.info["success_probability"].mean() < strong.info["success_probability"].mean()


def test_reads_are_honest_and_not_planted() -> None:
    """One sweep does not solve 16 bits; a planted ground state would be in the reads of every QUBO."""
    A = qubos("pegasus", 16, 30)
    hurried, patient = (DWaveSolver.mock("pegasus", 6, sweeps=sweeps, seed=0, reads=20)(A) for sweeps in (1, 300))
    assert hurried.info["success_probability"].mean() < 0.2 < patient.info["success_probability"].mean()


def test_broken_qubits_and_couplers_are_avoided() -> None:
    A = qubos("chimera", 8, 40)
    whole = DWaveSolver.mock("pegasus", 4, seed=0)(A)
    rng = random.Random(0)
    chip = Chip.ideal("pegasus", 4).graph
    qubits, couplers = rng.sample(sorted(chip), 10), rng.sample(sorted(chip.edges), 10)
    # The mock raises on a qubit or coupler that it does not have.
    part = DWaveSolver.mock("pegasus", 4, seed=0, broken_qubits=qubits, broken_couplers=couplers)(A)
    assert part.info["tiles"] < whole.info["tiles"]
    torch.testing.assert_close(part.energies, exact(A), rtol=0, atol=1e-5)


def test_a_seed_fixes_the_reads_and_another_one_changes_them() -> None:
    A = qubos("pegasus", 15, 20)
    first, again, other = (
        DWaveSolver.mock("pegasus", 6, sweeps=3, seed=s)(A).info["success_probability"] for s in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_zero_and_empty_batches_and_other_dtypes(dtype: torch.dtype) -> None:
    solver = DWaveSolver.mock("pegasus", 3, seed=0)
    assert solver(torch.zeros(0, 4, 4, dtype=dtype)).states.shape == (0, 2, 4)
    zero = solver(torch.zeros(3, 4, 4, dtype=dtype, requires_grad=True))
    assert zero.states.dtype == dtype
    assert (zero.energies == 0).all()
    assert "qpu_access_seconds" in zero.info


def test_the_contract_of_solvers_is_kept() -> None:
    check_solver(DWaveSolver.mock("pegasus", 3, sweeps=5, reads=10, seed=0), max_bits=5)


def test_the_command_line_names_it_and_a_foreign_sampler_counts_as_simulated() -> None:
    A = qubos("chimera", 8, 3)
    assert make_solver("dwave-mock:topology=chimera,size=3,seed=1,reads=20")(A).info["source"] == "mock"
    solution = DWaveSolver(access=QpuAccess(Wrapped(mock_sampler())))(A)
    assert solution.info["source"] == "simulated"


# Money.


def test_a_call_beyond_the_budget_is_refused_before_it_is_made() -> None:
    sampler = Wrapped(mock_sampler())
    A = qubos("chimera", 8, 40)
    solver = DWaveSolver(access=QpuAccess(sampler), budget_seconds=0.2)
    cost = solver(A).info["qpu_access_seconds"]
    made = sampler.calls
    assert made > 1
    assert cost == pytest.approx(solver.access.spent_seconds)
    while 1.1 * cost <= 0.2 - solver.access.spent_seconds:
        solver(A)
    answered = sampler.calls
    with pytest.raises(QubolearnError, match=r"need about .* s of QPU time, but .* s of budget_seconds=0.2 are left"):
        solver(A)
    assert solver.access.spent_seconds <= 0.2
    # All calls of a batch are refused together: none is paid for an answer that is never given.
    assert sampler.calls == answered


def test_copies_share_one_budget_and_no_other_process_gets_it() -> None:
    solver = DWaveSolver.mock("pegasus", 3, budget_seconds=0.1)
    solver(qubos("chimera", 8, 1))
    spent = solver.access.spent_seconds
    assert spent > 0
    for other in (copy.deepcopy(solver), dataclasses.replace(solver, reads=10)):
        assert other.access.spent_seconds == spent
    with pytest.raises(QubolearnError, match="another process"):
        pickle.dumps(solver)


def test_threads_share_one_budget() -> None:
    solver = DWaveSolver.mock("pegasus", 3, sweeps=5, budget_seconds=0.2)
    A = qubos("chimera", 8, 2)
    refused = []

    def spend() -> None:
        try:
            for _ in range(10):
                solver(A)
        except QubolearnError as error:
            refused.append(error)

    threads = [threading.Thread(target=spend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 4
    assert 0.1 < solver.access.spent_seconds <= 0.2


def test_a_failed_call_is_not_repeated_and_counts_as_paid() -> None:
    class Failing(Wrapped):
        def sample(self, bqm: Any, **parameters: Any) -> Any:
            self.calls += 1
            raise RuntimeError(f"solver offline, token={SECRET}")

    sampler = Failing(mock_sampler())
    solver = DWaveSolver(access=QpuAccess(sampler))
    with pytest.raises(QubolearnError, match="failed and was not repeated: RuntimeError: solver offline") as caught:
        solver(qubos("chimera", 8, 2))
    assert SECRET not in str(caught.value)
    assert sampler.calls == 1
    assert solver.access.spent_seconds > 0


def test_a_sampler_that_hangs_meets_the_deadline() -> None:
    release = threading.Event()

    class Hanging(Wrapped):
        def sample(self, bqm: Any, **parameters: Any) -> Any:
            release.wait(30)
            return super().sample(bqm, **parameters)

    solver = DWaveSolver(access=QpuAccess(Hanging(mock_sampler())), deadline_seconds=0.1)
    with pytest.raises(QubolearnError, match=r"no answer .* deadline_seconds=0.1"):
        solver(qubos("chimera", 8, 2))
    assert solver.access.spent_seconds > 0
    release.set()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.truncate(7), "7 of 100 reads"),
        (lambda s: dimod.drop_variables(s, [s.variables[0]]), "lacks 1 of 16 qubits"),
        (lambda s: s.change_vartype("BINARY"), "holds the spin 0; want -1 or 1"),
    ],
)
def test_incomplete_answers_are_refused(change: Any, message: str) -> None:
    class Partial(Wrapped):
        def sample(self, bqm: Any, **parameters: Any) -> Any:
            return change(super().sample(bqm, **parameters))

    with pytest.raises(QubolearnError, match=message):
        DWaveSolver(access=QpuAccess(Partial(mock_sampler(seed=0))))(qubos("chimera", 8, 2))


def test_a_garbled_answer_is_refused() -> None:
    class Garbled(Wrapped):
        def sample(self, bqm: Any, **parameters: Any) -> Any:
            sampleset = super().sample(bqm, **parameters)
            sampleset.record.sample[:] = sampleset.record.sample[:, ::-1].copy()
            return sampleset

    with pytest.raises(QubolearnError, match="garbled: its reads miss the energies it states"):
        DWaveSolver(access=QpuAccess(Garbled(mock_sampler(seed=0))))(qubos("chimera", 8, 2))


class CloudJob:
    """A future of the cloud client."""

    def __init__(self, sampleset: Any, waits: list[Any]) -> None:
        self.sampleset, self.waits, self.cancelled = sampleset, waits, 0

    def wait(self, timeout: float) -> bool:
        outcome = self.waits.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return bool(outcome)

    def cancel(self) -> None:
        self.cancelled += 1

    def exception(self) -> None:
        return None


class Cloud(Wrapped):
    """A sampler of the shape of DWaveSampler, whose jobs wait as they are told."""

    def __init__(self, inner: Any, waits: list[Any], timing: Any = None) -> None:
        super().__init__(inner)
        self.client = SimpleNamespace(config=SimpleNamespace(token="a-short-token"))
        self.solver = SimpleNamespace(properties=inner.properties, sample_bqm=self.sample_bqm)
        self.waits, self.timing, self.jobs = waits, timing, []

    def sample_bqm(self, bqm: Any, **parameters: Any) -> CloudJob:
        sampleset = self.inner.sample(bqm, **parameters)
        sampleset.info["timing"] = self.timing
        self.jobs.append(CloudJob(sampleset, self.waits))
        return self.jobs[-1]


@pytest.mark.parametrize(
    ("timing", "low", "high"),
    [
        ({"qpu_access_time": 12345.0}, 0.012345, 0.012345),
        ({}, 0.02, 0.1),
        (None, 0.02, 0.1),
        ({"qpu_access_time": -5.0}, 0.02, 0.1),
        ({"qpu_access_time": "soon"}, 0.02, 0.1),
    ],
)
def test_a_qpu_is_charged_what_it_reports_or_else_the_estimate(timing: Any, low: float, high: float) -> None:
    solver = DWaveSolver(access=QpuAccess(Cloud(mock_sampler(), [True], timing)))
    solution = solver(qubos("chimera", 8, 2))
    assert solution.info["source"] == "qpu"
    assert low <= solution.info["qpu_access_seconds"] <= high
    assert solver.access.spent_seconds == solution.info["qpu_access_seconds"]


def test_an_interrupt_cancels_the_call_and_goes_on() -> None:
    cloud = Cloud(mock_sampler(), [KeyboardInterrupt(), False])
    solver = DWaveSolver(access=QpuAccess(cloud))
    with pytest.raises(KeyboardInterrupt):
        solver(qubos("chimera", 8, 2))
    assert [job.cancelled for job in cloud.jobs] == [1]
    assert solver.access.spent_seconds > 0


def test_a_late_call_is_cancelled_and_its_answer_is_used_if_it_came_all_the_same() -> None:
    late = Cloud(mock_sampler(), [False, False])
    with pytest.raises(QubolearnError, match="deadline_seconds=300"):
        DWaveSolver(access=QpuAccess(late))(qubos("chimera", 8, 2))
    just = Cloud(mock_sampler(), [False, True], {"qpu_access_time": 1.0})
    assert DWaveSolver(access=QpuAccess(just))(qubos("chimera", 8, 2)).states.shape == (2, 2, 8)
    assert [job.cancelled for job in (*late.jobs, *just.jobs)] == [1, 1]


def test_a_chip_whose_time_cannot_be_estimated_is_not_called() -> None:
    cloud = Cloud(mock_sampler(), [])
    cloud.properties["problem_timing_data"] = None
    with pytest.raises(QubolearnError, match="cannot be estimated, so no budget holds"):
        DWaveSolver(access=QpuAccess(cloud))(qubos("chimera", 8, 2))
    assert cloud.jobs == []


# The connection, with D-Wave's real client.


@pytest.fixture
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> pytest.MonkeyPatch:
    for name in ("DWAVE_API_TOKEN", "DWAVE_API_ENDPOINT", "DWAVE_API_SOLVER", "DWAVE_PROFILE", "DWAVE_API_REGION"):
        monkeypatch.delenv(name, raising=False)
    empty = tmp_path / "dwave.conf"
    empty.write_text("")
    monkeypatch.setenv("DWAVE_CONFIG_FILE", str(empty))
    return monkeypatch


def test_without_a_token_the_error_says_where_to_put_it(no_settings: pytest.MonkeyPatch) -> None:
    with pytest.raises(QubolearnError, match=r"no D-Wave API token; set DWAVE_API_TOKEN .*mock"):
        DWaveSolver(endpoint="http://127.0.0.1:9/")(qubos("chimera", 8, 1))


def test_without_a_network_the_error_and_the_log_hold_no_token(
    no_settings: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    no_settings.setenv("DWAVE_API_TOKEN", SECRET)
    caplog.set_level(1, logger="dwave.cloud")
    caplog.set_level(logging.DEBUG)
    solver = DWaveSolver(endpoint="http://127.0.0.1:9/", deadline_seconds=5)
    with pytest.raises(QubolearnError, match=r"cannot be reached: .*mock") as caught:
        solver(qubos("chimera", 8, 1))
    assert "token" in caplog.text
    for text in (caplog.text, str(caught.value), repr(solver), repr(dataclasses.asdict(solver))):
        assert SECRET not in text


@pytest.mark.parametrize("text", [f"token={SECRET}", f"{{'token': '{SECRET}'}}", f"X-Auth-Token: {SECRET},", SECRET])
def test_tokens_are_cut_from_any_text(text: str) -> None:
    assert SECRET not in qpu._without_tokens(text)
    assert "short" not in qpu._without_tokens(text.replace(SECRET, "short"), "short")


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dwave.system", None)
    monkeypatch.setitem(sys.modules, "dwave.system.testing", None)
    for make in (DWaveSolver.mock, lambda: DWaveSolver()(qubos("chimera", 8, 1))):
        with pytest.raises(QubolearnError, match=r"qubolearn\[dwave\]"):
            make()


# Bad input.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reads": 0}, "reads=0"),
        ({"reads": 2.5}, "reads=2.5 must be a whole number"),
        ({"budget_seconds": "much"}, "budget_seconds='much' must be a finite number"),
        ({"scaling": "tyle"}, "did you mean tile"),
        ({"chain_strength": 0.0}, "chain_strength=0.0"),
        ({"deadline_seconds": float("inf")}, "deadline_seconds=inf"),
        ({"budget_seconds": float("nan")}, "budget_seconds=nan"),
        ({"anneal_time": -1.0}, "anneal_time=-1.0"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(QubolearnError, match=message):
        DWaveSolver(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reads": 20000}, "reads=20000, but this chip takes 1 ... 10000"),
        ({"anneal_time": 5000.0}, "anneal_time=5000.0 µs, but this chip takes 0.5 ... 2000"),
    ],
)
def test_options_beyond_the_chip_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(QubolearnError, match=message):
        DWaveSolver.mock("pegasus", 3, **options)(qubos("chimera", 8, 1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topology": "pegasos"}, "did you mean pegasus"),
        ({"size": 1}, "size 1"),
        ({"sweeps": 0}, "sweeps=0"),
        ({"seed": -1}, "seed=-1"),
        ({"size": 2.5}, "size=2.5"),
        ({"size": 3, "broken_qubits": [10**6]}, "1000000, which is not on the chip"),
        ({"size": 3, "broken_couplers": [(0, 10**6)]}, r"\(0, 1000000\), which is not on the chip"),
    ],
)
def test_impossible_mocks_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(QubolearnError, match=message):
        DWaveSolver.mock(**options)


def test_a_chip_too_small_and_a_sampler_without_one_are_refused() -> None:
    with pytest.raises(QubolearnError, match=r"n=40 bits .* do not fit on the chip pegasus P2"):
        DWaveSolver.mock("pegasus", 2)(qubos("dense", 40, 1))
    with pytest.raises(QubolearnError, match="does not state its chip"):
        QpuAccess(dimod.ExactSolver())
