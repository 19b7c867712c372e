"""The QPU costs money: D-Wave's real client against a server that misbehaves, and what the account says of it.

For every fault: one line of our own error or the right answer, never two submissions of one problem, never a bill
above what the solver's account holds, and the token nowhere.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

pytest.importorskip("dwave.system", reason="needs qubolearn[dwave]")

from dwave.cloud.client import Client
from qpu_server import Fault, QpuServer, chip, decoded, encoded

from qubolearn.cli import main
from qubolearn.errors import QubolearnError
from qubolearn.qubo import all_states, energies
from qubolearn.solvers import make_solver, qpu
from qubolearn.solvers.dwave import DWaveSolver
from qubolearn.topologies import topology

TOKEN = "DEV-0123456789abcdef0123456789abcdef01234567"
FOREVER = None
POLL_PAUSE = qpu.POLL_PAUSE
DEADLINE = 0.2
LATE = f"no answer from D-Wave within deadline_seconds={DEADLINE}"
ESTIMATE = 0.0182  # QPU seconds of a call with 20 reads on 32 qubits, as D-Wave's model has them, rounded


def qubos(batch: int, n: int = 8, name: str = "chimera") -> Tensor:
    return torch.randn(batch, n, n, generator=torch.Generator().manual_seed(n)) * topology(name, n).mask


A = qubos(4)  # fills the four cells of the chip: one call


def exact(A: Tensor) -> Tensor:
    states = all_states(A.shape[2], dtype=torch.float64)
    return energies(A.double(), states.expand(len(A), *states.shape)).sort(1).values[:, :2]


@pytest.fixture(scope="module", autouse=True)
def report(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    plugins = request.config.pluginmanager
    found = f"{QpuServer.injected} faults injected into D-Wave's service, {QpuServer.spoiled} requests spoiled"
    with plugins.get_plugin("capturemanager").global_and_fixture_disabled():
        plugins.get_plugin("terminalreporter").write_line(f"\n{found}")


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The token comes from the environment, and nothing else from this machine."""
    for name in [name for name in os.environ if name.startswith("DWAVE_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    (tmp_path / "dwave.conf").write_text("")
    monkeypatch.setenv("DWAVE_CONFIG_FILE", str(tmp_path / "dwave.conf"))
    monkeypatch.setenv("DWAVE_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("DWAVE_API_TOKEN", TOKEN)
    monkeypatch.setattr(qpu, "GRACE", 0.15)
    monkeypatch.setattr(qpu, "POLL_PAUSE", 0.01)


@pytest.fixture
def server() -> Iterator[QpuServer]:
    with QpuServer(TOKEN) as server:
        yield server


@pytest.fixture
def connect(server: QpuServer) -> Iterator[Callable[..., DWaveSolver]]:
    """A function that makes solvers of the server; their connections end with the test."""
    made = []

    def make(**options: Any) -> DWaveSolver:
        made.append(DWaveSolver(**{"endpoint": server.url, "reads": 20, "deadline_seconds": 10.0, **options}))
        return made[-1]

    yield make
    for solver in made:
        solver.close()


@pytest.fixture
def hasty(connect: Callable[..., DWaveSolver]) -> DWaveSolver:
    """A solver with a short deadline, connected: that must not fail on a busy machine."""
    solver = connect(deadline_seconds=DEADLINE)
    for attempt in range(20):
        try:
            solver.access.open({"endpoint": solver.endpoint}, DEADLINE)
            break
        except QubolearnError:
            assert attempt < 19
    return solver


@pytest.fixture
def solver(connect: Callable[..., DWaveSolver]) -> DWaveSolver:
    return connect()


def refusal(solver: DWaveSolver, match: str, A: Tensor = A) -> str:
    """The one line of the error that the call ends with, and that no server's words get the token into."""
    with pytest.raises(QubolearnError, match=match) as caught:
        solver(A)
    said = str(caught.value)
    assert TOKEN not in said
    assert "\n" not in said
    return said


def client_threads() -> int:
    """Threads of D-Wave's clients in this process."""
    return sum("(_do_" in thread.name for thread in threading.enumerate())


def check_account(solver: DWaveSolver, server: QpuServer, submissions: int = 1) -> None:
    """Nothing was sent twice, and the account holds at least the bill."""
    server.wait_for(lambda: "submit" in server.requests)  # on a busy machine a short deadline comes first
    assert server.count("submit") == submissions
    assert solver.access.spent_seconds >= server.billed_seconds - 1e-9


# Nothing goes wrong.


@pytest.mark.parametrize(("name", "n", "batch", "calls"), [("chimera", 8, 10, 3), ("dense", 5, 3, 1)])
def test_all_answers_are_right_and_the_bill_is_known(
    solver: DWaveSolver, server: QpuServer, name: str, n: int, batch: int, calls: int
) -> None:
    A = qubos(batch, n, name)
    solution = solver(A)
    torch.testing.assert_close(solution.energies, exact(A), rtol=0, atol=1e-6)
    assert (solution.info["source"], solution.info["chip"], solution.info["calls"]) == ("qpu", "QPU_1", calls)
    assert server.count("submit") == len(server.problems) == calls
    assert server.count("cancel") == 0
    assert solution.info["qpu_access_seconds"] == pytest.approx(server.billed_seconds)
    assert solver.access.spent_seconds == pytest.approx(server.billed_seconds)


def test_a_chip_is_chosen_by_name_or_by_size(server: QpuServer, connect: Callable[..., DWaveSolver]) -> None:
    server.chips = [chip("SMALL", 1), chip("LARGE", 2)]
    assert connect()(A).info["chip"] == "LARGE"
    assert connect(qpu="SMALL")(A).info["chip"] == "SMALL"
    refusal(connect(qpu="NONE"), "no QPU fits .*NONE")
    assert server.count("submit") == 1 + 4


# Deadlines.


def in_time(call: Callable[[], Any]) -> None:
    """Run what takes a second, and would take 15 or an hour if the server had its way."""
    began = time.monotonic()
    call()
    assert time.monotonic() - began < 10


def test_a_slow_chip_meets_the_deadline_and_is_told_to_cancel(server: QpuServer, hasty: DWaveSolver) -> None:
    server.hold = True
    in_time(lambda: refusal(hasty, LATE))
    assert server.wait_for(lambda: server.cancelled == ["problem-1"])
    check_account(hasty, server)
    server.hold = False  # the connection is still good
    solver = dataclasses.replace(hasty, deadline_seconds=10.0)
    torch.testing.assert_close(solver(A).energies, exact(A), rtol=0, atol=1e-6)
    check_account(solver, server, 2)


@pytest.mark.parametrize("request_", ["answer", "poll"])
def test_a_reply_that_never_ends_meets_the_deadline(server: QpuServer, hasty: DWaveSolver, request_: str) -> None:
    server.fail(request_, Fault(drip=0.2), FOREVER)
    in_time(lambda: refusal(hasty, LATE))
    assert server.wait_for(lambda: server.cancelled == ["problem-1"])
    check_account(hasty, server)


def test_a_submission_that_is_accepted_late_is_cancelled_all_the_same(server: QpuServer, hasty: DWaveSolver) -> None:
    server.hold = True
    server.fail("submit", Fault(delay=DEADLINE + 0.1))
    refusal(hasty, LATE)
    assert server.wait_for(lambda: server.cancelled == ["problem-1"])
    check_account(hasty, server)


def test_a_cancellation_that_is_ignored_does_not_hold_us(server: QpuServer, hasty: DWaveSolver) -> None:
    server.hold = True
    server.fail("cancel", Fault(delay=15), FOREVER)
    in_time(lambda: refusal(hasty, LATE))
    check_account(hasty, server)
    in_time(hasty.close)


RETRY_LATER = Fault(status=503, headers={"Retry-After": "3600"})  # the client would sleep for an hour


@pytest.mark.parametrize(
    "fault", [Fault(delay=15), Fault(drip=0.2), RETRY_LATER], ids=["silent", "drip", "retry-after"]
)
def test_connecting_meets_the_deadline(server: QpuServer, connect: Callable[..., DWaveSolver], fault: Fault) -> None:
    server.fail("list", fault, FOREVER)
    in_time(lambda: refusal(connect(deadline_seconds=DEADLINE), f"named no chip within deadline_seconds={DEADLINE}"))
    assert server.count("submit") == 0


def test_closing_does_not_wait_for_a_client_that_sleeps(server: QpuServer, hasty: DWaveSolver) -> None:
    server.fail("poll", RETRY_LATER, FOREVER)
    in_time(lambda: refusal(hasty, LATE))
    assert server.wait_for(lambda: server.cancelled == ["problem-1"])
    in_time(hasty.close)


# Submissions that fail.


def replaced(**fields: Any) -> Callable[[Any], Any]:
    """A change of the one problem in a list of problems; None deletes."""
    return lambda told: [{k: v for k, v in (told[0] | fields).items() if v is not None}]


REFUSED = {
    "400": Fault(status=400, body=b'{"error_code": 400, "error_msg": "bad problem"}'),
    "401": Fault(status=401, body=b""),
    "403": Fault(status=403, body=b"forbidden"),
    "404": Fault(status=404, body=b"<html>not here</html>"),
    "429": Fault(status=429, headers={"Retry-After": "1"}),
    "in-batch": Fault(change=lambda told: [{"error_code": 400, "error_msg": "quota"}]),
}


@pytest.mark.parametrize("fault", REFUSED.values(), ids=REFUSED)
def test_a_refused_submission_is_not_repeated_and_costs_nothing(
    solver: DWaveSolver, server: QpuServer, fault: Fault
) -> None:
    server.fail("submit", fault)
    refusal(solver, "failed and was not repeated: Solver")
    assert server.count("submit") == 1
    assert solver.access.spent_seconds == 0
    assert len(solver(A).states) == 4  # when asked again by the user


UNKNOWN = {
    "500": Fault(status=500),
    "500 accepted": Fault(status=500, carried_out=True),
    "502": Fault(status=502, body=b"<html>bad gateway</html>"),
    "503": Fault(status=503, headers={"Retry-After": "0"}),
    "504 accepted": Fault(status=504, carried_out=True, body=b""),
    "dropped": Fault(drop=True),
    "dropped accepted": Fault(drop=True, carried_out=True),
    "cut": Fault(cut=True),
    "no JSON": Fault(change=lambda told: b"<html>welcome</html>"),
    "half JSON": Fault(change=lambda told: json.dumps(told).encode()[:-9]),
    "other type": Fault(headers={"Content-Type": "text/html"}),
    "other version": Fault(headers={"Content-Type": "application/vnd.dwave.sapi.problems+json; version=9.0.0"}),
    "object": Fault(change=lambda told: told[0]),
    "empty": Fault(change=lambda told: []),
    "numbers": Fault(change=lambda told: [7]),
    "no id": Fault(change=replaced(id=None)),
    "no status": Fault(change=replaced(status=None)),
    "failed": Fault(change=replaced(status="FAILED", error_message="broken")),
    "cancelled": Fault(change=replaced(status="CANCELLED")),
}


@pytest.mark.parametrize("fault", UNKNOWN.values(), ids=UNKNOWN)
def test_a_submission_of_unknown_outcome_is_not_repeated_and_counts_as_paid(
    solver: DWaveSolver, server: QpuServer, fault: Fault
) -> None:
    server.fail("submit", fault)
    refusal(solver, "failed and was not repeated: ")
    check_account(solver, server)
    assert solver.access.spent_seconds >= ESTIMATE


def test_a_reply_that_the_client_chokes_on_meets_the_deadline(server: QpuServer, hasty: DWaveSolver) -> None:
    server.fail("submit", Fault(change=lambda told: None))  # the client's thread dies of it
    refusal(hasty, LATE)
    check_account(hasty, server)
    assert hasty.access.spent_seconds >= ESTIMATE


def test_nobody_at_the_address_costs_nothing(connect: Callable[..., DWaveSolver]) -> None:
    with QpuServer(TOKEN) as gone:
        solver = connect(endpoint=gone.url)
        solver(A)
        spent = solver.access.spent_seconds
    refusal(solver, "failed and was not repeated")
    assert solver.access.spent_seconds == spent


def test_a_wrong_token_is_said(server: QpuServer, connect: Callable[..., DWaveSolver]) -> None:
    server.token = "another"
    refusal(connect(), "refused the API token")
    assert server.count("submit") == 0


# Polling and download: asking again is free, submitting again is not.

ASK_AGAIN = {
    "500": Fault(status=500),
    "503": Fault(status=503, headers={"Retry-After": "0"}),
    "404": Fault(status=404, body=b""),
    "401": Fault(status=401, body=b""),
    "dropped": Fault(drop=True),
    "cut": Fault(cut=True),
    "no JSON": Fault(change=lambda told: b"<html>welcome</html>"),
    "null": Fault(change=lambda told: None),
    "other type": Fault(headers={"Content-Type": "text/html"}),
}


@pytest.mark.parametrize("request_", ["poll", "answer"])
@pytest.mark.parametrize("fault", ASK_AGAIN.values(), ids=ASK_AGAIN)
def test_an_answer_that_is_paid_for_is_asked_for_again(
    solver: DWaveSolver, server: QpuServer, request_: str, fault: Fault
) -> None:
    server.fail(request_, fault)
    torch.testing.assert_close(solver(A).energies, exact(A), rtol=0, atol=1e-6)
    assert server.count("submit") == 1
    assert solver.access.spent_seconds == pytest.approx(server.billed_seconds)


@pytest.mark.parametrize("fault", ASK_AGAIN.values(), ids=ASK_AGAIN)
def test_polling_that_keeps_failing_is_given_up_and_the_problem_is_cancelled(
    server: QpuServer, hasty: DWaveSolver, fault: Fault
) -> None:
    server.hold, server.longest_wait = True, 0.02
    server.fail("poll", fault, FOREVER)
    in_time(lambda: refusal(hasty, f"failed and was not repeated|{LATE}"))
    assert server.wait_for(lambda: "problem-1" in server.cancelled)
    check_account(hasty, server)


def test_a_server_that_fails_at_once_is_not_flooded(
    monkeypatch: pytest.MonkeyPatch, server: QpuServer, connect: Callable[..., DWaveSolver]
) -> None:
    monkeypatch.setattr(qpu, "POLL_PAUSE", POLL_PAUSE)
    solver = connect(deadline_seconds=0.6)
    server.fail("poll", Fault(status=500), FOREVER)
    refusal(solver, "deadline_seconds=0.6")
    # Five threads, each with a pause, for the deadline and the grace; without pauses there are hundreds.
    assert server.count("poll") <= 5 * (1 + 1.0 / POLL_PAUSE)


@pytest.mark.parametrize("fault", ASK_AGAIN.values(), ids=ASK_AGAIN)
def test_a_download_that_keeps_failing_is_given_up(solver: DWaveSolver, server: QpuServer, fault: Fault) -> None:
    server.fail("answer", fault, FOREVER)
    refusal(solver, "failed and was not repeated")
    assert server.count("answer") < 20
    check_account(solver, server)


STRANGE = {
    "nothing": lambda told: [],
    "another": replaced(id="problem-99"),
    "odd status": replaced(status="PAUSED"),
}


@pytest.mark.parametrize("change", STRANGE.values(), ids=STRANGE)
def test_states_that_make_no_sense_end_in_a_cancellation(server: QpuServer, hasty: DWaveSolver, change: Any) -> None:
    server.hold, server.longest_wait = True, 0.02
    server.fail("poll", Fault(change=change), FOREVER)
    in_time(lambda: refusal(hasty, f"failed and was not repeated|{LATE}"))
    assert server.wait_for(lambda: "problem-1" in server.cancelled)
    check_account(hasty, server)


@pytest.mark.parametrize("status", ["FAILED", "CANCELLED"])
def test_a_problem_that_failed_is_over(solver: DWaveSolver, server: QpuServer, status: str) -> None:
    server.fail("poll", Fault(change=replaced(status=status)), FOREVER)
    refusal(solver, "failed and was not repeated")
    assert (server.count("poll"), server.count("answer"), server.count("cancel")) == (1, 0, 0)
    check_account(solver, server)


# Answers that are wrong.


def answer(**fields: Any) -> Callable[[Any], Any]:
    """A change of the answer's fields; a function changes what is there, None deletes."""

    def change(told: dict[str, Any]) -> dict[str, Any]:
        new = {k: v(told["answer"][k]) if callable(v) else v for k, v in fields.items()}
        return told | {"answer": {k: v for k, v in (told["answer"] | new).items() if v is not None}}

    return change


QUBITS = list(range(32))
MALFORMED = {
    "bits truncated": answer(solutions=lambda text: text[:40]),
    "bits missing": answer(solutions=None),
    "bits of zero": answer(solutions=encoded([0] * 80, "u1")),
    "bits flipped": answer(solutions=lambda text: encoded(~decoded(text, "u1"), "u1")),
    "bits no base64": answer(solutions="ä"),
    "bits a number": answer(solutions=7),
    "energies truncated": answer(energies=lambda text: text[: 32 * 5]),
    "energies missing": answer(energies=None),
    "energies wrong": answer(energies=encoded([-1.0] * 20, "<f8")),
    "energies NaN": answer(energies=encoded([float("nan")] * 20, "<f8")),
    "energies infinite": answer(energies=encoded([float("-inf")] * 20, "<f8")),
    "odd bytes": answer(energies=encoded([1] * 159, "u1")),
    "too few reads": answer(
        energies=encoded([0.0] * 5, "<f8"), num_occurrences=encoded([1] * 5, "<i4"), solutions=lambda text: text[:28]
    ),
    "no reads": answer(energies="", num_occurrences="", solutions=""),
    "counts huge": answer(num_occurrences=encoded([2**31 - 1] * 20, "<i4")),
    "counts negative": answer(num_occurrences=encoded([-1] * 20, "<i4")),
    "counts zero": answer(num_occurrences=encoded([0] * 20, "<i4")),
    "counts doubled": answer(num_occurrences=encoded([2] * 20, "<i4")),
    "counts too few": answer(num_occurrences=encoded([1] * 7, "<i4")),
    "qubit lacking": answer(active_variables=encoded(QUBITS[:-1], "<i4")),
    "qubit twice": answer(active_variables=encoded([*QUBITS[:-1], 0], "<i4")),
    "qubit elsewhere": answer(active_variables=encoded([*QUBITS[:-1], 10**6], "<i4")),
    "qubits permuted": answer(active_variables=encoded(QUBITS[::-1], "<i4")),
    "qubits too many": answer(active_variables=encoded([*QUBITS, *range(32, 40)], "<i4"), num_variables=40),
    "chip too small": answer(num_variables=8),
    "chip no number": answer(num_variables="many"),
    "other format": answer(format="bq"),
    "no format": answer(format=None),
    "other kind": lambda told: told | {"type": "qubo"},
    "no kind": lambda told: {k: v for k, v in told.items() if k != "type"},
    "null": lambda told: told | {"answer": None},
    "list": lambda told: told | {"answer": [1, 2]},
    "empty": lambda told: told | {"answer": {}},
}


@pytest.mark.parametrize("change", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_answer_is_refused(solver: DWaveSolver, server: QpuServer, change: Any) -> None:
    server.fail("answer", Fault(change=change), FOREVER)
    refusal(solver, "the answer|failed and was not repeated")
    check_account(solver, server)
    assert solver.access.spent_seconds > 0


def test_the_answer_to_another_problem_is_refused(solver: DWaveSolver, server: QpuServer) -> None:
    solver(A)
    old = server.problems["problem-1"].answer
    server.fail("answer", Fault(change=answer(**(old or {}))), FOREVER)
    refusal(solver, "garbled", -A)
    check_account(solver, server, 2)


BILLS = {
    "missing": None,
    "null": {"qpu_access_time": None},
    "negative": {"qpu_access_time": -5},
    "text": {"qpu_access_time": "soon"},
    "truth": {"qpu_access_time": True},
    "list": [1, 2],
    "number": 7,
    "huge": {"qpu_access_time": 10**400},
}


@pytest.mark.parametrize("timing", BILLS.values(), ids=BILLS)
def test_an_answer_without_a_bill_counts_as_estimated(solver: DWaveSolver, server: QpuServer, timing: Any) -> None:
    server.fail("answer", Fault(change=answer(timing=timing)), FOREVER)
    if timing == BILLS["huge"]:
        refusal(solver, "failed and was not repeated")  # no JSON number
    else:
        torch.testing.assert_close(solver(A).energies, exact(A), rtol=0, atol=1e-6)
    check_account(solver, server)
    assert ESTIMATE < solver.access.spent_seconds < 2 * ESTIMATE


# Chips that are described wrongly: refused before anything is submitted.

TIMING = chip("any")["properties"]["problem_timing_data"]
WRONG_CHIPS = {
    "no topology": {"topology": None},
    "odd topology": {"topology": {"type": "torus", "shape": [2, 2, 4]}},
    "no shape": {"topology": {"type": "chimera", "shape": []}},
    "h from 0 to 0": {"h_range": [0, 0]},
    "h upside down": {"h_range": [4, -4]},
    "h without 0": {"h_range": [1.0, 4.0]},
    "j no range": {"j_range": None},
    "j text": {"j_range": ["low", "high"]},
    "chains without range": {"extended_j_range": [0.0]},
    "reads no range": {"num_reads_range": None},
    "reads text": {"num_reads_range": ["few", "many"]},
    "no timing": {"problem_timing_data": None},
    "timing in part": {"problem_timing_data": {"version": "1.0.0"}},
    "timing below 0": {"problem_timing_data": TIMING | {"typical_programming_time": -1e6}},
    "timing text": {"problem_timing_data": TIMING | {"typical_programming_time": "long"}},
    "timing huge": {
        "problem_timing_data": TIMING | {"typical_programming_time": 1e308, "default_annealing_time": 1e308}
    },
    "other timing model": {"problem_timing_data": TIMING | {"version": "7.0.0"}},
}


@pytest.mark.parametrize("properties", WRONG_CHIPS.values(), ids=WRONG_CHIPS)
def test_a_chip_that_is_described_wrongly_gets_no_problem(
    server: QpuServer, connect: Callable[..., DWaveSolver], properties: dict[str, Any]
) -> None:
    server.chips = [chip("WRONG", **properties)]
    QpuServer.injected += 1
    solver, threads = connect(), client_threads()
    refusal(solver, "chip|D-Wave|QPU")
    assert server.count("submit") == 0
    solver.close()
    assert client_threads() <= threads


LISTS = {
    "500": Fault(status=500),
    "dropped": Fault(drop=True),
    "cut": Fault(cut=True),
    "no JSON": Fault(change=lambda told: b"<html>welcome</html>"),
    "other type": Fault(headers={"Content-Type": "text/html"}),
    "null": Fault(change=lambda told: None),
    "empty": Fault(change=lambda told: []),
    "numbers": Fault(change=lambda told: [1, 2]),
    "nothing said": Fault(change=lambda told: [{}]),
}


@pytest.mark.parametrize("fault", LISTS.values(), ids=LISTS)
def test_without_a_list_of_chips_nothing_is_submitted(solver: DWaveSolver, server: QpuServer, fault: Fault) -> None:
    threads = client_threads()
    server.fail("list", fault, FOREVER)
    refusal(solver, "cannot be reached|no QPU fits")
    assert server.count("submit") == 0
    assert client_threads() <= threads
    server.recover()
    assert len(solver(A).states) == 4  # nothing of it was kept


def test_a_list_of_chips_is_asked_for_again(solver: DWaveSolver, server: QpuServer) -> None:
    server.fail("list", Fault(drop=True), 2)
    server.fail("list", Fault(status=503, headers={"Retry-After": "0"}))
    assert len(solver(A).states) == 4
    check_account(solver, server)


# A chip that goes offline.


@pytest.mark.parametrize("how", ["refused", "failed"])
def test_a_chip_that_goes_offline_is_said_and_another_is_taken(
    server: QpuServer, connect: Callable[..., DWaveSolver], how: str
) -> None:
    server.chips = [chip("SMALL"), chip("LARGE", 3)]
    solver = connect()
    assert solver(A).info["chip"] == "LARGE"
    server.chips[1]["status"] = "OFFLINE"
    if how == "failed":
        failed = {"id": "none", "status": "FAILED", "type": "ising", "error_message": "Solver is offline"}
        server.fail("submit", Fault(change=lambda told: [failed]))
    QpuServer.injected += how == "refused"
    refusal(solver, r"(?i)offline.*close\(\)")
    assert len(server.problems) == 1
    check_account(solver, server, 2)
    solver.close()
    assert solver(A).info["chip"] == "SMALL"
    server.chips[0]["status"] = "OFFLINE"
    refusal(solver, "(?i)offline")
    solver.close()
    refusal(solver, "no QPU fits")
    check_account(solver, server, 4)


# The budget.


def test_a_call_beyond_the_budget_is_not_sent(server: QpuServer, connect: Callable[..., DWaveSolver]) -> None:
    for budget in (0.0, 0.5 * ESTIMATE, 1.05 * ESTIMATE):  # a margin is kept
        refusal(connect(budget_seconds=budget), "need about .* s of QPU time")
    refusal(connect(budget_seconds=1.5 * ESTIMATE), "need about .* s of QPU time", qubos(5))  # two calls: none is sent
    assert server.count("submit") == 0


def test_the_budget_counts_over_calls_copies_and_threads(
    server: QpuServer, connect: Callable[..., DWaveSolver]
) -> None:
    budget = 10.5 * ESTIMATE
    solver = connect(budget_seconds=budget)
    copies = [solver, copy.copy(solver), copy.deepcopy(solver), dataclasses.replace(solver, reads=19)]
    refused = []

    def spend(solver: DWaveSolver) -> None:
        try:
            for _ in range(20):
                solver(A)
        except QubolearnError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=spend, args=(each,)) for each in copies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(refused) == 4
    assert all("QPU time" in error for error in refused)
    assert 5 <= server.count("submit") <= 10
    assert server.billed_seconds <= budget
    assert solver.access.spent_seconds == pytest.approx(server.billed_seconds)
    solver.close()  # the account outlives the connection
    refusal(solver, "QPU time", qubos(16))


def test_calls_that_fail_spend_the_budget_too(server: QpuServer, connect: Callable[..., DWaveSolver]) -> None:
    budget = 4 * ESTIMATE
    solver = connect(budget_seconds=budget)
    server.fail("submit", Fault(drop=True, carried_out=True), FOREVER)
    for _ in range(3):
        refusal(solver, "not repeated")
    refusal(solver, "QPU time")
    check_account(solver, server, 3)
    assert server.billed_seconds <= budget


def test_a_chip_that_is_slower_than_estimated_ends_the_batch(
    server: QpuServer, connect: Callable[..., DWaveSolver]
) -> None:
    solver = connect(budget_seconds=10 * ESTIMATE)
    server.microseconds = lambda reads: 9e6 * ESTIMATE
    refusal(solver, "QPU time", qubos(16))  # four calls
    check_account(solver, server)
    refusal(solver, "QPU time")
    check_account(solver, server)


# Interrupts.

SCRIPT = """
import os, sys, torch
from qubolearn.errors import QubolearnError
from qubolearn.solvers.dwave import DWaveSolver
from qubolearn.topologies import topology
torch.set_num_threads(1)
solver = DWaveSolver(endpoint=sys.argv[1], reads=20, deadline_seconds=30)
A = torch.ones(1, 8, 8) * topology("chimera", 8).mask
if os.fork() == 0:  # a copy of the budget in another process
    try:
        solver(A)
    except QubolearnError as error:
        print(error, flush=True)
    os._exit(0)
os.wait()
solver(A)
"""


def test_ctrl_c_cancels_and_a_forked_process_has_no_budget(server: QpuServer, monkeypatch: pytest.MonkeyPatch) -> None:
    token = "my own.token/17"  # of no form that D-Wave's own log would hide
    server.token, server.hold = token, True
    monkeypatch.setenv("DWAVE_API_TOKEN", token)
    monkeypatch.setenv("DWAVE_LOG_LEVEL", "trace")
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, server.url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert server.wait_for(lambda: "poll" in server.requests, 40)
        process.send_signal(signal.SIGINT)
        said, errors = process.communicate(timeout=15)
    finally:
        process.kill()
    assert process.returncode != 0
    assert "another process" in said
    assert "KeyboardInterrupt" in errors
    assert "Config loaded" in errors
    assert token not in said + errors
    assert server.cancelled == ["problem-1"]
    assert server.count("submit") == 1
    assert server.billed_seconds == 0


def test_ctrl_c_right_after_the_submission_cancels_it(
    solver: DWaveSolver, server: QpuServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = Client._submit

    @functools.wraps(submit)
    def submit_and_interrupt(self: Any, body: Any, future: Any) -> None:
        submit(self, body, future)
        os.kill(os.getpid(), signal.SIGINT)

    server.hold = True
    solver.access.open({"endpoint": server.url}, 4.0)
    monkeypatch.setattr(Client, "_submit", submit_and_interrupt)
    with pytest.raises(KeyboardInterrupt):
        solver(A)
    assert server.wait_for(lambda: server.cancelled == ["problem-1"])
    check_account(solver, server)
    assert solver.access.spent_seconds > 0


# The token.

ECHO = f'{{"error_code": 400, "error_msg": "wrong token: {TOKEN}"}}'.encode()


def test_the_token_is_in_no_log_repr_or_traceback(
    server: QpuServer, connect: Callable[..., DWaveSolver], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(1)
    for name in ("dwave", "dwave.cloud", "urllib3", "requests"):
        caplog.set_level(1, logger=name)
    solver, other, shown = connect(), connect(), []
    solver(A)
    for request, asking in (("submit", solver), ("poll", solver), ("answer", solver), ("list", other)):
        server.fail(request, Fault(status=400, body=ECHO), FOREVER)
        with pytest.raises(QubolearnError, match=r"wrong token: \*\*\*") as caught:
            asking(A)
        shown += traceback.TracebackException.from_exception(caught.value, capture_locals=True).format()
        shown += [repr(caught.value.__context__), repr(caught.value.__cause__)]
        server.recover()
    server.fail("submit", Fault(change=lambda told: told * 2))  # kills a thread of the client, which logs its death
    solver(A)
    logging.getLogger("dwave.cloud.client.base").error("%s", TOKEN, exc_info=ValueError(TOKEN))
    shown += [repr(vars(record)) for record in caplog.records]
    shown += [repr(each) for each in (solver, solver.access, dataclasses.asdict(solver), vars(solver.access), other)]
    for expected in ("Config loaded", "Submit failed", "ValueError"):  # the log is at work
        assert expected in caplog.text
    assert TOKEN not in caplog.text
    for text in shown:
        assert TOKEN not in text


def test_the_token_is_in_no_checkpoint_report_or_output(
    server: QpuServer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    spec = f"dwave:endpoint={server.url},reads=20,deadline_seconds=4"
    folder = str(tmp_path / "run")
    small = ["--instances", "8", "--batch-size", "4", "--epochs", "1", "--validation", "4", "--hidden", "8"]
    train = ["train", "randgraph", "--k", "4", "--loss", "hinge", "--solver", spec, "--test", "4", "--out", folder]
    assert main([*train, *small]) == 0
    assert main(["evaluate", folder, "--solver", spec, "--instances", "4", "--json"]) == 0
    server.fail("submit", Fault(status=401, body=TOKEN.encode()))
    assert main(["evaluate", folder, "--solver", spec, "--instances", "4"]) == 2
    make_solver(spec).close()  # type: ignore[attr-defined]
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"checkpoint.safetensors", "model.safetensors", "result.json"} <= {path.name for path in written}
    assert '"source": "qpu"' in (tmp_path / "run" / "result.json").read_text()
    for path in written:
        assert TOKEN.encode() not in path.read_bytes()
    said = capfd.readouterr()
    assert TOKEN not in said.out + said.err
