"""The examples run as scripts, and they learn."""

import ast
import re
import runpy
from pathlib import Path

import pytest

from qubolearn.testing import check_problem

ROOT = Path(__file__).parents[1]


def run(name: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, float]]:
    """Return the metrics that an example prints at the ends of lines."""
    runpy.run_path(str(ROOT / name), run_name="__main__")
    found = re.findall(r"\{.*\}$", capsys.readouterr().out, re.MULTILINE)
    return [ast.literal_eval(each) for each in found]


@pytest.mark.parametrize(
    ("name", "least"), [("examples/sorting.py", 0.95), ("examples/own_parts.py", 0.85), ("examples/loader.py", 0.75)]
)
def test_examples_learn(name: str, least: float, capsys: pytest.CaptureFixture[str]) -> None:
    found = run(name, capsys)
    assert all(scores["accuracy"] > least for scores in found)
    assert max(scores["accuracy"] for scores in found) - found[0]["accuracy"] < 0.02  # solvers agree


def test_rules_correct_a_reader(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sklearn")
    (scores,) = run("reproduction/examples/visual_sudoku.py", capsys)
    assert scores["accuracy"] > scores["read"] > 0.8


def test_the_problem_of_the_example_keeps_the_contract() -> None:
    check_problem(runpy.run_path(str(ROOT / "examples/sorting.py"))["Sorting"]())
