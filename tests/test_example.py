"""The examples outside the package run as users run them, they learn, and the ones that promise to be short are."""

from __future__ import annotations

import ast
import io
import re
import runpy
import tokenize
from collections.abc import Callable
from pathlib import Path

import pytest

from qubolearn.testing import check_problem

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"


@pytest.fixture
def output(capsys: pytest.CaptureFixture[str]) -> Callable[[str], str]:
    """What an example prints."""

    def run(name: str) -> str:
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return run


def metrics(text: str) -> list[dict[str, float]]:
    """The mappings that stand at the ends of lines."""
    return [ast.literal_eval(found) for found in re.findall(r"\{.*\}$", text, re.MULTILINE)]


def lines_of_code(source: str) -> int:
    """Lines that hold code: not blank, no comment, no docstring of the module.

    >>> lines_of_code('"What it does."\\n\\n# why\\nx = [\\n    1,\\n]\\n')
    3
    """
    silent = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in silent:
            lines.update(range(token.start[0], token.end[0] + 1))
    first = ast.parse(source).body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        lines -= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return len(lines)


def test_a_problem_of_your_own_is_short_and_learns(output: Callable[[str], str]) -> None:
    assert len((EXAMPLES / "sorting.py").read_text().splitlines()) <= 40
    assert ast.literal_eval(output("sorting.py"))["accuracy"] > 0.95


def test_the_problem_of_your_own_keeps_the_contract() -> None:
    """It drew on the CPU whatever device the generator was on, and failed where there is a GPU."""
    check_problem(runpy.run_path(str(EXAMPLES / "sorting.py"))["Sorting"]())


def test_own_parts_are_short_and_learn_and_both_solvers_agree(output: Callable[[str], str]) -> None:
    assert lines_of_code((EXAMPLES / "own_parts.py").read_text()) <= 25
    text = output("own_parts.py")
    exact, annealed = metrics(text)
    assert "ExhaustiveSearch" in text
    assert "SimulatedAnnealing" in text
    assert exact["accuracy"] > 0.85  # one guess in sixteen is right
    assert abs(exact["accuracy"] - annealed["accuracy"]) < 0.02


@pytest.mark.parametrize(("name", "least"), [("loader.py", 0.75)])
def test_other_examples_learn(name: str, least: float, output: Callable[[str], str]) -> None:
    (scores,) = metrics(output(name))
    assert scores["accuracy"] > least


def test_rules_correct_a_reader(output: Callable[[str], str]) -> None:
    pytest.importorskip("sklearn")
    text = output("visual_sudoku.py")
    assert "kept 224 couplings" in text
    (scores,) = metrics(text)
    assert scores["accuracy"] > scores["read"] > 0.8


def test_the_page_shows_the_example_as_it_is() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "train.md").read_text(), re.DOTALL)
    assert (EXAMPLES / "own_parts.py").read_text() in blocks
