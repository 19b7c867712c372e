"""The token is in no log, repr, traceback, checkpoint or report."""

from __future__ import annotations

import dataclasses
import logging
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from account import FOREVER, TOKEN, A
from qpu_http import Fault
from qpu_server import QpuServer

from qubolearn.cli import main
from qubolearn.errors import QubolearnError
from qubolearn.solvers import make_solver
from qubolearn.solvers.dwave.solver import DWaveSolver

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
