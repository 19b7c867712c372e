"""Options may stand anywhere, and a problem may be a class in the user's own file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qubolearn.cli import main
from qubolearn.training.runs import Run

SMALL = "--topology dense --layers 2 --hidden 4 --instances 8 --batch-size 8 --validation 4 --test 4 --device cpu"

OWN = '''
from dataclasses import dataclass
from typing import ClassVar
import torch
from qubolearn import Instances, Problem

@dataclass(frozen=True)
class Parity(Problem):
    """Bits of a sign pattern."""
    name: ClassVar[str] = "parity"
    size: int = 3
    """Bits of p."""

    @property
    def input_size(self) -> int:
        return self.size

    @property
    def bits(self) -> int:
        return self.size

    def sample(self, count, generator, split="train"):
        p = torch.randn(count, self.size, generator=generator)
        return Instances(p, (p > 0).float(), (p > 0).float())

    def decode(self, x):
        return x

    def score(self, answer, instances):
        return {"accuracy": (answer == instances.answer).all(-1).float()}
'''


@pytest.mark.parametrize(
    "words",
    [
        "train --epochs 1 randgraph --k 2",
        "train randgraph --epochs 1 --k 2",
        "train --k 2 --epochs 1 randgraph",
        "train --epochs=1 --k=2 randgraph",
        "train --no-fresh --k 2 randgraph --epochs 1",
        "train --seed 0 --method quant randgraph --epochs 1 --k 2",
    ],
)
def test_options_stand_before_and_after_the_problem(
    words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words.split(), *SMALL.split(), "--out", str(tmp_path / "pointset")]) == 0, capsys.readouterr().err
    run = Run.open(tmp_path / "pointset")  # a folder that is called as another problem
    assert (run.problem.name, run.recipe.epochs, run.problem.bits) == ("randgraph", 1, 2)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("train --epochs 1 randgrph", "unknown problem 'randgrph'; did you mean randgraph"),
        ("train --k 3 randgrph", "unknown problem 'randgrph'; did you mean randgraph"),
        ("baseline --seed 3 drect randgraph", "unknown baseline 'drect'; did you mean direct"),
        ("baseline --seed 3 direct randgrph", "unknown problem 'randgrph'; did you mean randgraph"),
        ("instances --out x --seed 3 randgrph", "unknown problem 'randgrph'; did you mean randgraph"),
    ],
)
def test_the_misspelt_word_is_named_wherever_the_options_stand(
    words: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == 2
    assert says in capsys.readouterr().err


def test_baselines_take_options_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["baseline", "--seed", "3", "--k", "3", "direct", "randgraph", "--instances", "4", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] == 1.0


def test_options_may_stand_between_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plot", str(tmp_path / "a"), "--format", "svg", str(tmp_path / "b")]) == 2
    assert "holds no run" in capsys.readouterr().err


def test_a_class_in_a_file_is_a_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "own.py").write_text(OWN)
    reference = f"{tmp_path}/own.py:Parity"
    out = str(tmp_path / "run")
    assert main(["train", "--size", "2", reference, *SMALL.split(), "--epochs", "1", "--out", out]) == 0
    header = json.loads((tmp_path / "run" / "config.json").read_text())
    assert header["problem"] == {"name": reference, "size": 2}
    with pytest.raises(SystemExit):
        main(["train", reference, "--help"])
    assert "Bits of p. [3]" in capsys.readouterr().out


def test_a_config_never_runs_the_file_that_it_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "own.py").write_text(OWN)
    out = str(tmp_path / "run")
    assert main(["train", f"{tmp_path}/own.py:Parity", *SMALL.split(), "--epochs", "1", "--out", out]) == 0
    trap = tmp_path / "executed"
    (tmp_path / "own.py").write_text(f"open({str(trap)!r}, 'w')\n{OWN}")
    for command in ("evaluate", "plot"):
        assert main([command, out]) == 2
        assert "pass problem=" in capsys.readouterr().err
    assert not trap.exists()
