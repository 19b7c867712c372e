"""No call beyond the budget is sent, and an interrupt cancels."""

from __future__ import annotations

import copy
import dataclasses
import functools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from account import ESTIMATE, FOREVER, A, check_account, qubos, refusal
from dwave.cloud.client import Client
from qpu_http import Fault
from qpu_server import QpuServer

from qubolearn.errors import QubolearnError
from qubolearn.solvers.dwave.solver import DWaveSolver


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


SCRIPT = """
import os, sys, torch
from qubolearn.errors import QubolearnError
from qubolearn.solvers.dwave.solver import DWaveSolver
from qubolearn.chips.topologies import topology
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
