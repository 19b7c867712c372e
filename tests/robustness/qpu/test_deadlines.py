"""Finite deadlines on every call, and answers that come in time are right."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
import torch
from account import DEADLINE, FOREVER, LATE, A, check_account, exact, in_time, qubos, refusal
from qpu_http import Fault
from qpu_server import QpuServer, chip

from qubolearn.solvers.dwave.solver import DWaveSolver


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
