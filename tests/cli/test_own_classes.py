"""A problem class in a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from qubolearn.cli import main
from qubolearn.problems import load_problem

OWN = """
from dataclasses import dataclass
from qubolearn.problems.randgraph import RandGraph

@dataclass(frozen=True)
class Mine(RandGraph):
    name = "mine"
    k: int = 3
"""
SMALL = "--topology dense --hidden 16 --epochs 1 --instances 20 --batch-size 10 --validation 10 --test 10"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of the class on the command line."""
    (tmp_path / "own.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    return "own.py:Mine"


def test_commands_open_such_a_run_by_the_given_class(own: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(f"train {own} {SMALL} --out run".split()) == 0
    assert main(f"instances {own} --count 3 --out three.npz".split()) == 0
    trap = Path("executed")
    Path("own.py").write_text(f"import pathlib\npathlib.Path({str(trap)!r}).touch()\n{OWN}")
    for command in ("evaluate run --instances 10", "solve run three.npz", "export run three.npz", "plot run"):
        load_problem.cache_clear()
        capsys.readouterr()
        assert main(command.split()) == 2, command
        assert not trap.exists(), "the run's own words ran the file"
        message = capsys.readouterr().err
        assert "--problem own.py:Mine" in message
        assert message.count("\n") == 1
        assert main(f"{command} --problem {own}".split()) == 0, command
        trap.unlink(missing_ok=True)
    assert np.load("three.solved.npz")["states"].shape == (3, load_problem(own)().bits)


FAILING = "from own import Mine as Right\nclass Mine(Right):\n    def score(self, *_): raise LookupError('no scale')\n"


def test_an_error_in_a_problem_keeps_its_traceback_and_names_the_problem(
    own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(".")
    Path("failing.py").write_text(FAILING)
    with pytest.raises(LookupError, match="no scale") as caught:
        main(f"train failing.py:Mine {SMALL} --out run".split())
    assert "Mine(k=3)" in "".join(caught.value.__notes__)
