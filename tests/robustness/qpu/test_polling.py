"""Asking for an answer again is free, submitting again is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from account import FOREVER, LATE, POLL_PAUSE, A, check_account, exact, in_time, refusal, replaced
from qpu_http import Fault
from qpu_server import QpuServer

from qubolearn.solvers.dwave import access as qpu
from qubolearn.solvers.dwave.solver import DWaveSolver

ASK_AGAIN = {
    "500": Fault(status=500),
    "503": Fault(status=503, headers={"Retry-After": "0"}),
    "401": Fault(status=401, body=b""),
    "dropped": Fault(drop=True),
    "cut": Fault(cut=True),
    "no JSON": Fault(change=lambda told: b"<html>welcome</html>"),
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
