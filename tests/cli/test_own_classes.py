"""A problem that is a class in a file, from the first command to the last; a run never says which code to execute."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from qubolearn.cli import main
from qubolearn.problems import load_problem
from qubolearn.recipes import preset, train
from qubolearn.runs import Run

OWN = """
from dataclasses import dataclass
from qubolearn.problems.randgraph import RandGraph

@dataclass(frozen=True)
class Mine(RandGraph):
    name = "mine"
    k: int = 3
"""
OPTIONS = {"topology": "dense", "hidden": 16, "epochs": 1500, "instances": 100, "batch_size": 25, "validation": 10}
WORDS = [word for name, value in OPTIONS.items() for word in (f"--{name.replace('_', '-')}", str(value))]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the command line calls the class, from the folder of its file."""
    (tmp_path / "own.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    return "own.py:Mine"


def stopped(own: str, number: int) -> int:
    """Train in a real process, stop it by a signal in its midst, and return its exit code."""
    words = [sys.executable, "-m", "qubolearn", "train", own, *WORDS, "--test", "10", "--out", "run"]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        end = time.monotonic() + 90
        seen = Path("run/metrics.jsonl").stat().st_mtime_ns if Path("run/metrics.jsonl").exists() else 0
        while not Path("run/metrics.jsonl").exists() or Path("run/metrics.jsonl").stat().st_mtime_ns == seen:
            assert time.monotonic() < end, "waited in vain"
            assert process.poll() is None
            time.sleep(0.01)
        os.kill(process.pid, number)
        return process.wait(60)


def test_killed_terminated_and_resumed_the_run_ends_in_the_same_bits(own: str) -> None:
    assert stopped(own, signal.SIGKILL) == -signal.SIGKILL
    assert stopped(own, signal.SIGTERM) == 128 + signal.SIGTERM
    assert not Run.open("run", load_problem(own)).finished
    assert main(["train", own, *WORDS, "--test", "10", "--out", "run"]) == 0
    problem, recipe = preset("best", load_problem(own), **OPTIONS)
    whole = train(problem, recipe).state_dict()
    for name, tensor in Run.open("run", problem).network().state_dict().items():
        assert torch.equal(tensor, whole[name]), name


def test_commands_open_such_a_run_by_the_class_that_they_are_told(own: str, capsys: pytest.CaptureFixture[str]) -> None:
    short = [*WORDS, "--epochs", "1", "--instances", "20", "--batch-size", "10", "--test", "10"]
    assert main(["train", own, *short, "--out", "run"]) == 0
    assert main(["instances", own, "--count", "3", "--out", "three.npz"]) == 0
    commands = (
        ["evaluate", "run", "--instances", "10"],
        ["solve", "run", "three.npz"],
        ["export", "run", "three.npz"],
        ["plot", "run"],
    )
    trap = Path("executed")
    Path("own.py").write_text(f"import pathlib\npathlib.Path({str(trap)!r}).touch()\n{OWN}")
    for words in commands:
        load_problem.cache_clear()
        capsys.readouterr()
        assert main(words) == 2, words
        assert not trap.exists(), "the run's own words ran the file"
        said = capsys.readouterr().err
        assert "--problem own.py:Mine" in said
        assert said.count("\n") == 1
        assert main([*words, "--problem", own]) == 0, words
        trap.unlink(missing_ok=True)
    assert np.load("three.solved.npz")["states"].shape == (3, load_problem(own)().bits)


FAILING = """
from own import Mine as Right

class Mine(Right):
    def score(self, answer, instances):
        raise LookupError("no scale at hand")
"""


def test_an_error_in_a_problem_is_one_line_that_says_where(
    own: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("failing.py").write_text(FAILING.replace("from own", "import sys; sys.path.append('.')\nfrom own"))
    words = ["train", "failing.py:Mine", *WORDS, "--epochs", "1", "--out", "run"]
    assert main(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("qubolearn: error: LookupError: no scale at hand (")
    assert "failing.py, line 7; raised in decode and score of Mine(k=3), given x [10, 6]; in the scoring" in line
    monkeypatch.setenv("QUBOLEARN_TRACEBACK", "1")
    with pytest.raises(LookupError, match="no scale"):
        main(words)
