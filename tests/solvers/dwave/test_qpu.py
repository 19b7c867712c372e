"""Paid calls under faults of D-Wave's service.

For every fault: an error in one line or the right answer, never two
submissions or a bill above the account, and the token nowhere.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from chip_qubos import SECRET, exact, qubos
from dwave.cloud.client import Client
from qpu_server import Fault, QpuServer, chip, decoded, encoded
from torch import Tensor

from qubolearn.cli import main
from qubolearn.errors import QubolearnError
from qubolearn.solvers.dwave.solver import DWaveSolver

FOREVER = None
DEADLINE = 0.2
ESTIMATE = 0.0182  # QPU seconds of 20 reads on 32 qubits, rounded
A = qubos("chimera", 8, 4)  # fills the four cells of the chip: one call

Connect = Callable[..., DWaveSolver]


@pytest.fixture
def hasty(connect: Connect) -> DWaveSolver:
    """Return a connected solver with a short deadline."""
    solver = connect(deadline_seconds=DEADLINE)
    for attempt in range(20):
        try:
            solver.access.open({"endpoint": solver.endpoint}, DEADLINE)
            break
        except QubolearnError:
            assert attempt < 19
    return solver


def refusal(solver: DWaveSolver, match: str, A: Tensor = A) -> None:
    """Require one line without the token, within a second."""
    began = time.monotonic()
    with pytest.raises(QubolearnError, match=match) as caught:
        solver(A)
    assert time.monotonic() - began < 10
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)


def check_right(solver: DWaveSolver) -> None:
    torch.testing.assert_close(solver(A).energies, exact(A), rtol=0, atol=1e-6)


def check_account(solver: DWaveSolver, server: QpuServer, submissions: int = 1) -> None:
    """Check that nothing was sent twice, and the bill."""
    server.wait_for(lambda: "submit" in server.requests)  # a short deadline may come first
    assert server.count("submit") == submissions
    assert solver.access.spent_seconds >= server.billed_seconds - 1e-9


def client_threads() -> int:
    """Return threads of D-Wave's clients in this process."""
    return sum("(_do_" in thread.name for thread in threading.enumerate())


def replaced(**fields: Any) -> Callable[[Any], Any]:
    """Return a change of the one problem; None deletes."""
    return lambda reply: [{k: v for k, v in (reply[0] | fields).items() if v is not None}]


def answer(**fields: Any) -> Callable[[Any], Any]:
    """Return a change of the answer's fields; None deletes."""

    def change(reply: dict[str, Any]) -> dict[str, Any]:
        new = {k: v(reply["answer"][k]) if callable(v) else v for k, v in fields.items()}
        return reply | {"answer": {k: v for k, v in (reply["answer"] | new).items() if v is not None}}

    return change


@pytest.mark.parametrize(("name", "n", "batch", "calls"), [("chimera", 8, 10, 3), ("dense", 5, 3, 1)])
def test_answers_are_right_and_the_bill_is_known(
    solver: DWaveSolver, server: QpuServer, name: str, n: int, batch: int, calls: int
) -> None:
    A = qubos(name, n, batch)
    solution = solver(A)
    torch.testing.assert_close(solution.energies, exact(A), rtol=0, atol=1e-6)
    assert (solution.info["source"], solution.info["chip"], solution.info["calls"]) == ("qpu", "QPU_1", calls)
    assert server.count("submit") == len(server.problems) == calls
    assert server.count("cancel") == 0
    assert solution.info["qpu_access_seconds"] == pytest.approx(server.billed_seconds)
    assert solver.access.spent_seconds == pytest.approx(server.billed_seconds)


# --- answers

QUBITS = list(range(32))
MALFORMED = {
    "bits truncated": answer(solutions=lambda text: text[:40]),
    "bits missing": answer(solutions=None),
    "bits flipped": answer(solutions=lambda text: encoded(~decoded(text, "u1"), "u1")),
    "energies wrong": answer(energies=encoded([-1.0] * 20, "<f8")),
    "energies NaN": answer(energies=encoded([float("nan")] * 20, "<f8")),
    "too few reads": answer(
        energies=encoded([0.0] * 5, "<f8"),
        num_occurrences=encoded([1] * 5, "<i4"),
        solutions=lambda text: text[:28],
    ),
    "no reads": answer(energies="", num_occurrences="", solutions=""),
    "counts negative": answer(num_occurrences=encoded([-1] * 20, "<i4")),
    "counts doubled": answer(num_occurrences=encoded([2] * 20, "<i4")),
    "qubit lacking": answer(active_variables=encoded(QUBITS[:-1], "<i4")),
    "qubits permuted": answer(active_variables=encoded(QUBITS[::-1], "<i4")),
    "other format": answer(format="bq"),
    "null": lambda reply: reply | {"answer": None},
}


@pytest.mark.parametrize("change", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_answer_is_rejected(solver: DWaveSolver, server: QpuServer, change: Any) -> None:
    server.fail("answer", Fault(change=change), FOREVER)
    refusal(solver, "the answer|not repeated")
    check_account(solver, server)
    assert solver.access.spent_seconds > 0


@pytest.mark.parametrize("timing", [None, {"qpu_access_time": -5}, {"qpu_access_time": "soon"}, [1, 2]])
def test_an_answer_without_a_bill_counts_as_estimated(
    solver: DWaveSolver, server: QpuServer, timing: Any
) -> None:
    server.fail("answer", Fault(change=answer(timing=timing)), FOREVER)
    check_right(solver)
    check_account(solver, server)
    assert ESTIMATE < solver.access.spent_seconds < 2 * ESTIMATE


# --- submissions: never repeated, and paid if they fail

FAILURES = {
    "400": Fault(status=400, body=b'{"error_code": 400, "error_msg": "bad problem"}'),
    "401": Fault(status=401, body=b""),
    "429": Fault(status=429, headers={"Retry-After": "1"}),
    "in-batch": Fault(change=lambda reply: [{"error_code": 400, "error_msg": "quota"}]),
    "500": Fault(status=500),
    "504 accepted": Fault(status=504, carried_out=True, body=b""),
    "dropped accepted": Fault(drop=True, carried_out=True),
    "cut": Fault(cut=True),
    "no JSON": Fault(change=lambda reply: b"<html>welcome</html>"),
    "empty": Fault(change=lambda reply: []),
    "no id": Fault(change=replaced(id=None)),
    "failed": Fault(change=replaced(status="FAILED", error_message="broken")),
}


@pytest.mark.parametrize("fault", FAILURES.values(), ids=FAILURES)
def test_a_submission_that_fails_counts_as_paid(solver: DWaveSolver, server: QpuServer, fault: Fault) -> None:
    server.fail("submit", fault)
    refusal(solver, "not repeated")
    check_account(solver, server)
    assert solver.access.spent_seconds >= ESTIMATE
    check_right(solver)  # if the user asks again


def test_a_wrong_token_and_no_server_are_named(server: QpuServer, connect: Connect) -> None:
    with QpuServer(SECRET) as gone:
        solver = connect(endpoint=gone.url)
        check_right(solver)
    refusal(solver, "not repeated")
    server.token = "another"
    refusal(connect(), "token")
    assert server.count("submit") == 0


# --- polling: requesting an answer again is free

AGAIN = {
    "503": Fault(status=503, headers={"Retry-After": "0"}),
    "401": Fault(status=401, body=b""),
    "dropped": Fault(drop=True),
    "cut": Fault(cut=True),
    "no JSON": Fault(change=lambda reply: b"<html>welcome</html>"),
}
STRANGE = {
    "nothing": Fault(change=lambda reply: []),
    "another": Fault(change=replaced(id="problem-99")),
    "odd status": Fault(change=replaced(status="PAUSED")),
}


@pytest.mark.parametrize("request_", ["poll", "answer"])
@pytest.mark.parametrize("fault", AGAIN.values(), ids=AGAIN)
def test_an_answer_that_is_paid_for_is_requested_again(
    solver: DWaveSolver, server: QpuServer, request_: str, fault: Fault
) -> None:
    server.fail(request_, fault)
    check_right(solver)
    assert server.count("submit") == 1
    assert solver.access.spent_seconds == pytest.approx(server.billed_seconds)


@pytest.mark.parametrize("fault", (AGAIN | STRANGE).values(), ids=AGAIN | STRANGE)
def test_polling_that_keeps_failing_ends_in_a_cancellation(
    server: QpuServer, hasty: DWaveSolver, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qpu_server.LONGEST_WAIT", 0.02)
    server.hold = True
    server.fail("poll", fault, FOREVER)
    refusal(hasty, "not repeated|deadline_seconds")
    assert server.wait_for(lambda: "problem-1" in server.canceled)
    check_account(hasty, server)


@pytest.mark.parametrize("fault", AGAIN.values(), ids=AGAIN)
def test_a_download_that_keeps_failing_is_given_up(
    solver: DWaveSolver, server: QpuServer, fault: Fault
) -> None:
    server.fail("answer", fault, FOREVER)
    refusal(solver, "not repeated")
    assert server.count("answer") < 20
    check_account(solver, server)


def test_a_problem_that_failed_is_over(solver: DWaveSolver, server: QpuServer) -> None:
    server.fail("poll", Fault(change=replaced(status="FAILED")), FOREVER)
    refusal(solver, "not repeated")
    assert (server.count("poll"), server.count("answer"), server.count("cancel")) == (1, 0, 0)
    check_account(solver, server)


# --- deadlines

RETRY_LATER = Fault(status=503, headers={"Retry-After": "3600"})  # an hour of sleep
SLOW = {
    "queue": ("poll", Fault()),
    "answer": ("answer", Fault(delay=15)),
    "sleeping client": ("poll", RETRY_LATER),
    "late submission": ("submit", Fault(delay=DEADLINE + 0.1)),
    "late cancellation": ("cancel", Fault(delay=15)),
}


@pytest.mark.parametrize("case", SLOW)
def test_a_slow_service_meets_the_deadline_and_the_call_is_canceled(
    server: QpuServer, hasty: DWaveSolver, case: str
) -> None:
    server.hold = case != "answer"
    server.fail(*SLOW[case], FOREVER)
    refusal(hasty, f"deadline_seconds={DEADLINE}")
    assert server.wait_for(lambda: server.canceled == ["problem-1"] or "cancel" in SLOW[case])
    check_account(hasty, server)
    began = time.monotonic()
    if case == "queue":  # the connection is still good
        server.hold = False
        check_right(dataclasses.replace(hasty, deadline_seconds=10.0))
        check_account(hasty, server, 2)
    hasty.close()
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("fault", [Fault(delay=15), RETRY_LATER], ids=["silent", "retry-after"])
def test_connecting_meets_the_deadline(server: QpuServer, connect: Connect, fault: Fault) -> None:
    server.fail("list", fault, FOREVER)
    refusal(connect(deadline_seconds=DEADLINE), f"deadline_seconds={DEADLINE}")
    assert server.count("submit") == 0


# --- chips

TIMING = chip("any")["properties"]["problem_timing_data"]
WRONG_CHIPS = {
    "no topology": {"topology": None},
    "odd topology": {"topology": {"type": "torus", "shape": [2, 2, 4]}},
    "h upside down": {"h_range": [4, -4]},
    "j no range": {"j_range": None},
    "reads no range": {"num_reads_range": None},
    "timing below 0": {"problem_timing_data": TIMING | {"typical_programming_time": -1e6}},
    "other timing model": {"problem_timing_data": TIMING | {"version": "7.0.0"}},
}
LISTS = {name: (FAILURES | AGAIN)[name] for name in ("500", "dropped", "no JSON", "empty")}


@pytest.mark.parametrize("properties", WRONG_CHIPS.values(), ids=WRONG_CHIPS)
def test_a_chip_with_a_wrong_description_gets_no_problem(
    server: QpuServer, connect: Connect, properties: dict[str, Any]
) -> None:
    server.chips = [chip("WRONG", **properties)]
    solver, threads = connect(), client_threads()
    refusal(solver, "chip|D-Wave|QPU")
    assert server.count("submit") == 0
    solver.close()
    assert client_threads() <= threads


@pytest.mark.parametrize("fault", LISTS.values(), ids=LISTS)
def test_without_a_list_of_chips_nothing_is_submitted(
    solver: DWaveSolver, server: QpuServer, fault: Fault
) -> None:
    threads = client_threads()
    server.fail("list", fault, FOREVER)
    refusal(solver, "cannot be reached|no QPU fits")
    assert server.count("submit") == 0
    assert client_threads() <= threads
    server.recover()
    check_right(solver)  # nothing of it was kept


def test_a_chip_is_chosen_by_name_or_size_and_another_one_if_it_goes_offline(
    server: QpuServer, connect: Connect
) -> None:
    server.chips = [chip("SMALL"), chip("LARGE", 3)]
    assert connect(qpu="SMALL")(A).info["chip"] == "SMALL"
    refusal(connect(qpu="NONE"), "NONE")
    solver = connect()
    assert solver(A).info["chip"] == "LARGE"
    server.chips[1]["status"] = "OFFLINE"
    refusal(solver, r"offline.*close\(\)")
    assert len(server.problems) == 2
    solver.close()
    assert solver(A).info["chip"] == "SMALL"


# --- the budget and interrupts


def test_the_budget_counts_over_calls_copies_threads_and_failures(
    server: QpuServer, connect: Connect
) -> None:
    # nothing; less than the margin; enough for one of two calls
    for budget, batch in ((0.0, 4), (1.05 * ESTIMATE, 4), (1.5 * ESTIMATE, 5)):
        refusal(connect(budget_seconds=budget), "QPU time", qubos("chimera", 8, batch))
    assert server.count("submit") == 0
    budget = 10.5 * ESTIMATE
    solver = connect(budget_seconds=budget)
    copies = [solver, copy.copy(solver), copy.deepcopy(solver), dataclasses.replace(solver, reads=19)]
    rejected = []

    def spend(solver: DWaveSolver) -> None:
        try:
            for _ in range(20):
                solver(A)
        except QubolearnError as error:
            rejected.append(str(error))

    threads = [threading.Thread(target=spend, args=(each,)) for each in copies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert ["QPU time" in error for error in rejected] == [True] * 4
    assert 5 <= server.count("submit") <= 10
    assert server.billed_seconds <= budget
    assert solver.access.spent_seconds == pytest.approx(server.billed_seconds)
    solver.close()  # the account outlives the connection
    refusal(solver, "QPU time", qubos("chimera", 8, 16))
    with pytest.raises(QubolearnError, match="another process"):
        pickle.dumps(solver)


def test_failed_calls_and_slow_chips_spend_the_budget(server: QpuServer, connect: Connect) -> None:
    solver = connect(budget_seconds=4 * ESTIMATE)
    server.fail("submit", Fault(drop=True, carried_out=True), FOREVER)
    for match in ("not repeated", "not repeated", "not repeated", "QPU time"):
        refusal(solver, match)
    check_account(solver, server, 3)
    assert server.billed_seconds <= 4 * ESTIMATE
    server.recover()
    server.microseconds = lambda reads: 9e6 * ESTIMATE  # type: ignore[assignment, return-value]
    refusal(connect(budget_seconds=10 * ESTIMATE), "QPU time", qubos("chimera", 8, 16))
    assert server.count("submit") == 4  # one of its four calls


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


def test_ctrl_c_cancels_and_a_forked_process_has_no_budget(
    server: QpuServer, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        out, errors = process.communicate(timeout=15)
    finally:
        process.kill()
    assert process.returncode != 0
    assert "another process" in out
    assert "KeyboardInterrupt" in errors
    assert "Config loaded" in errors
    assert token not in out + errors
    assert server.canceled == ["problem-1"]
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
    assert server.wait_for(lambda: server.canceled == ["problem-1"])
    check_account(solver, server)
    assert solver.access.spent_seconds > 0


# --- the token

ECHO = f'{{"error_code": 400, "error_msg": "wrong token: {SECRET}"}}'.encode()


def test_the_token_is_in_no_log_repr_or_traceback(
    server: QpuServer, connect: Connect, caplog: pytest.LogCaptureFixture
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
    logging.getLogger("dwave.cloud.client.base").error("%s", SECRET, exc_info=ValueError(SECRET))
    shown += [repr(vars(record)) for record in caplog.records]
    parts = (solver, solver.access, dataclasses.asdict(solver), vars(solver.access), other)
    shown += [repr(each) for each in parts]
    for expected in ("Config loaded", "ValueError"):  # the log is at work
        assert expected in caplog.text
    assert not [text for text in (*shown, caplog.text) if SECRET in text]


def test_the_token_is_in_no_checkpoint_report_or_output(
    server: QpuServer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    spec = f"dwave:endpoint={server.url},reads=20,deadline_seconds=4"
    small = "--k 4 --instances 8 --batch-size 4 --epochs 1 --validation 4 --hidden 8 --test 4"
    train = f"train randgraph {small} --loss hinge --solver {spec} --out {tmp_path}/run"
    assert main(train.split()) == 0
    server.fail("submit", Fault(status=401, body=SECRET.encode()))
    assert main(f"evaluate {tmp_path}/run --solver {spec} --instances 4".split()) == 2
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"checkpoint.safetensors", "model.safetensors", "result.json"} <= {path.name for path in written}
    assert '"source": "qpu"' in (tmp_path / "run" / "result.json").read_text()
    assert not [path for path in written if SECRET.encode() in path.read_bytes()]
    captured = capfd.readouterr()
    assert SECRET not in captured.out + captured.err
