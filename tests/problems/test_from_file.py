"""Problems in user-defined files: an error is one line."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from qubolearn.errors import QubolearnError
from qubolearn.problems import load_problem, make_problem, problem_type
from qubolearn.problems.randgraph import RandGraph

BORROWED = "from qubolearn.problems.randgraph import RandGraph\n"


@pytest.mark.parametrize(
    ("text", "attribute", "says"),
    [
        (None, "X", "no file"),
        ("", "X", "unknown name in .*'X'"),
        (BORROWED, "RandGrph", "did you mean RandGraph"),
        ("X = 3", "X", "is not a problem type"),
        (
            "from qubolearn import Problem\nclass X(Problem): pass",
            "X",
            "it lacks bits, input_size",
        ),
        ("raise KeyError('broken')", "X", "cannot be imported: KeyError: 'broken'"),
        ("import sys; sys.exit(3)", "X", "cannot be imported: SystemExit: 3"),
    ],
)
def test_what_is_wrong_is_named(text: str | None, attribute: str, says: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "own.py").write_text(text)
    with pytest.raises(QubolearnError, match=says) as caught:
        load_problem(f"{tmp_path}/own.py:{attribute}")
    assert "\n" not in str(caught.value)


def test_a_borrowed_class_keeps_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(BORROWED)
    reference = f"{tmp_path}/own.py:RandGraph"
    kind = load_problem(reference)
    assert kind.name == reference
    assert RandGraph.name == "randgraph"
    assert load_problem(reference) is kind, "problems of two loads are equal"
    assert asdict(kind(k=3)) == {"k": 3}  # type: ignore[call-arg, call-overload]
    assert repr(kind(k=3)) == "RandGraph(k=3)"  # type: ignore[call-arg]


def test_names_do_not_run_files(tmp_path: Path) -> None:
    trap = tmp_path / "executed"
    (tmp_path / "own.py").write_text(f"import pathlib\npathlib.Path({str(trap)!r}).touch()\n{BORROWED}")
    for call in (problem_type, make_problem):
        with pytest.raises(QubolearnError, match="RandGraph"):
            call(f"{tmp_path}/own.py:RandGraph")
    assert not trap.exists()
