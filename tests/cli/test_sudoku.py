"""Commands on Sudokus."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from qubolearn.cli import main
from qubolearn.networks import SharedQubo
from qubolearn.problems.sudoku import rule_qubo
from qubolearn.runs import Run

Call = Callable[[str], Any]


def test_rules_are_learned_and_used(tmp_path: Path, call: Call) -> None:
    run = tmp_path / "run"
    assert call(f"train sudoku --size 4 --test 20 --out {run}")["accuracy"] == 1.0

    network = Run.open(run).network()
    assert isinstance(network, SharedQubo)
    learned = network(torch.zeros(1, 16))
    assert torch.equal(learned.edges, rule_qubo(4).edges)

    assert call(f"evaluate {run} --instances 10")["accuracy"] == 1.0
    pytest.importorskip("matplotlib")
    drawn = call(f"plot {run} --out {tmp_path}/pictures")["files"]
    assert {Path(path).name for path in drawn} >= {"run-answers.png", "run-couplings.png"}


def test_bad_puzzles_are_answered_in_words(
    tmp_path: Path, call: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    call(f"train sudoku --size 4 --test 1 --out {tmp_path}/run")
    p = np.zeros((3, 16), np.float32)
    p[0, :2] = 1
    p[1, :3], p[1, 7] = [1, 2, 3], 4
    np.savez(tmp_path / "puzzles.npz", p=p)
    out = tmp_path / "solved.npz"
    solve = f"solve {tmp_path}/run {tmp_path}/puzzles.npz --out {out}"
    call(solve)
    remarks = np.load(out)["remarks"].tolist()
    assert remarks[0] == "hints contradict each other: digit 1 in cells 0 and 1"
    assert remarks[1] == "not solved: it has no solution"
    assert remarks[2].startswith("solved, one of at least")
    answers = np.load(out)["answers"]
    assert np.array_equal(answers[:2], p[:2])  # a wrong grid is not an answer
    assert answers[2].min() > 0
    p[0, 0] = 5
    np.savez(tmp_path / "puzzles.npz", p=p)
    assert main(solve.split()) == 2
    assert "puzzle 0 has 5 in cell 0" in capsys.readouterr().err
