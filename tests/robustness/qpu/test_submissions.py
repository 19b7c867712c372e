"""A submission is never repeated; if it fails it counts as paid."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from account import ESTIMATE, LATE, TOKEN, A, check_account, refusal, replaced
from qpu_http import Fault
from qpu_server import QpuServer

from qubolearn.solvers.dwave.solver import DWaveSolver

FAILURES = {
    "400": Fault(status=400, body=b'{"error_code": 400, "error_msg": "bad problem"}'),
    "401": Fault(status=401, body=b""),
    "404": Fault(status=404, body=b"<html>not here</html>"),
    "429": Fault(status=429, headers={"Retry-After": "1"}),
    "in-batch": Fault(change=lambda told: [{"error_code": 400, "error_msg": "quota"}]),
    "500": Fault(status=500),
    "500 accepted": Fault(status=500, carried_out=True),
    "503": Fault(status=503, headers={"Retry-After": "0"}),
    "504 accepted": Fault(status=504, carried_out=True, body=b""),
    "dropped": Fault(drop=True),
    "dropped accepted": Fault(drop=True, carried_out=True),
    "cut": Fault(cut=True),
    "no JSON": Fault(change=lambda told: b"<html>welcome</html>"),
    "other type": Fault(headers={"Content-Type": "text/html"}),
    "empty": Fault(change=lambda told: []),
    "no id": Fault(change=replaced(id=None)),
    "no status": Fault(change=replaced(status=None)),
    "failed": Fault(change=replaced(status="FAILED", error_message="broken")),
    "cancelled": Fault(change=replaced(status="CANCELLED")),
}


@pytest.mark.parametrize("fault", FAILURES.values(), ids=FAILURES)
def test_a_submission_that_fails_is_not_repeated_and_counts_as_paid(
    solver: DWaveSolver, server: QpuServer, fault: Fault
) -> None:
    server.fail("submit", fault)
    refusal(solver, "failed and was not repeated: ")
    check_account(solver, server)
    assert solver.access.spent_seconds >= ESTIMATE
    assert len(solver(A).states) == 4  # if the user asks again


def test_a_reply_that_the_client_chokes_on_meets_the_deadline(server: QpuServer, hasty: DWaveSolver) -> None:
    server.fail("submit", Fault(change=lambda told: None))  # the client's thread dies of it
    refusal(hasty, LATE)
    check_account(hasty, server)
    assert hasty.access.spent_seconds >= ESTIMATE


def test_nobody_at_the_address(connect: Callable[..., DWaveSolver]) -> None:
    with QpuServer(TOKEN) as gone:
        solver = connect(endpoint=gone.url)
        solver(A)
    refusal(solver, "failed and was not repeated")


def test_a_wrong_token_is_said(server: QpuServer, connect: Callable[..., DWaveSolver]) -> None:
    server.token = "another"
    refusal(connect(), "refused the API token")
    assert server.count("submit") == 0
