"""Chips that are described wrongly get no problem, and one that goes offline is said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from account import FOREVER, A, check_account, client_threads, refusal
from qpu_http import Fault
from qpu_server import QpuServer, chip

from qubolearn.solvers.dwave.solver import DWaveSolver

TIMING = chip("any")["properties"]["problem_timing_data"]
WRONG_CHIPS = {
    "no topology": {"topology": None},
    "odd topology": {"topology": {"type": "torus", "shape": [2, 2, 4]}},
    "no shape": {"topology": {"type": "chimera", "shape": []}},
    "h upside down": {"h_range": [4, -4]},
    "h without 0": {"h_range": [1.0, 4.0]},
    "j no range": {"j_range": None},
    "chains without range": {"extended_j_range": [0.0]},
    "reads no range": {"num_reads_range": None},
    "no timing": {"problem_timing_data": None},
    "timing below 0": {"problem_timing_data": TIMING | {"typical_programming_time": -1e6}},
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
    "empty": Fault(change=lambda told: []),
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
