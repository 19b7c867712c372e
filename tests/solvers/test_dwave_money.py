"""D-Wave: the chip's time is never overdrawn, no call is repeated, none outlasts its deadline."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import threading
from types import SimpleNamespace
from typing import Any

import dimod
import pytest
from mock_chip import SECRET, Wrapped, mock_sampler, qubos

from qubolearn.errors import QubolearnError
from qubolearn.solvers.dwave.access import QpuAccess
from qubolearn.solvers.dwave.solver import DWaveSolver


def test_copies_share_one_budget_and_no_other_process_gets_it() -> None:
    solver = DWaveSolver.mock("pegasus", 3, budget_seconds=0.1)
    solver(qubos("chimera", 8, 1))
    spent = solver.access.spent_seconds
    assert spent > 0
    for other in (copy.deepcopy(solver), dataclasses.replace(solver, reads=10)):
        assert other.access.spent_seconds == spent
    with pytest.raises(QubolearnError, match="another process"):
        pickle.dumps(solver)


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
        (lambda s: s.change_vartype("BINARY"), "holds the spin 0"),
    ],
)
def test_incomplete_answers_are_refused(change: Any, message: str) -> None:
    class Partial(Wrapped):
        def sample(self, bqm: Any, **parameters: Any) -> Any:
            return change(super().sample(bqm, **parameters))

    with pytest.raises(QubolearnError, match=message):
        DWaveSolver(access=QpuAccess(Partial(mock_sampler(seed=0))))(qubos("chimera", 8, 2))


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
