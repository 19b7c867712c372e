"""Promise 3: SIGINT and SIGTERM."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from qubolearn.recipes import train
from qubolearn.runs import Run
from qubolearn.training.callbacks import StopIf
from qubolearn.training.optimizers import FlatAdam

LONG = (
    "train randgraph --k 3 --topology dense --hidden 16 --epochs 100000 --instances 200 --batch-size 50 --out"
)
HIDE_CURSOR, SHOW_CURSOR = b"\x1b[?25l", b"\x1b[?25h"


def command(folder: Path) -> list[str]:
    return [sys.executable, "-m", "qubolearn", *LONG.split(), str(folder)]


def wait_until(happened: Callable[[], bool], seconds: float = 90.0) -> None:
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def has_begun(folder: Path) -> bool:
    """Return True if the untrained network was scored."""
    return (folder / "metrics.jsonl").exists()


def check_saved(folder: Path) -> None:
    """Compare the checkpoint with an uninterrupted run."""
    run = Run.open(folder)
    network = run.network()
    step = run.restore(network, FlatAdam(network), 10**6)
    assert step > 0
    asked = iter(range(1, run.recipe.steps))
    same = train(run.problem, run.recipe, callbacks=[StopIf(lambda: next(asked) == step)])
    assert all(torch.equal(a, b) for a, b in zip(network.parameters(), same.parameters(), strict=True))


def test_sigterm_ends_the_step_and_saves_it(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with subprocess.Popen(command(folder), stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: has_begun(folder))
        process.terminate()
        message = process.communicate(timeout=60)[1]
    assert process.returncode == 143
    assert "run the same command again" in message
    assert str(folder) in message
    assert "Traceback" not in message
    check_saved(folder)


def test_control_c_ends_the_step_and_gives_the_terminal_back(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    child, terminal = pty.fork()
    if child == 0:
        os.environ["TERM"] = "xterm"
        os.execv(sys.executable, command(folder))
    shown = bytearray()

    def read() -> bytes:
        try:
            return os.read(terminal, 65536)
        except OSError:  # the other side has closed
            return b""

    while HIDE_CURSOR not in shown or not has_begun(folder):
        got = read()
        assert got, shown
        shown += got
    os.write(terminal, b"\x03")  # what the key sends
    while got := read():
        shown += got
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(terminal)
    assert code == 130
    assert shown.rindex(SHOW_CURSOR) > shown.rindex(HIDE_CURSOR)
    assert b"run the same command again" in shown
    check_saved(folder)


def test_a_second_control_c_does_not_wait() -> None:
    from qubolearn.cli.training import stop_on_signals

    with stop_on_signals() as caught:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
        assert caught == [signal.SIGINT, signal.SIGTERM]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    "module",
    ["raise_signal(SIGINT)", "try:\n    raise_signal(SIGINT)\nexcept BaseException:\n    raise ImportError"],
)
def test_control_c_during_an_import_prints_one_line(module: str, tmp_path: Path) -> None:
    (tmp_path / "rich.py").write_text(f"from signal import SIGINT, raise_signal\n{module}\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    words = [sys.executable, "-m", "qubolearn", "info", "nowhere"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert done.stderr == "qubolearn: interrupted\n"
