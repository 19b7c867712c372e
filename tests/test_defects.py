"""Every defect of tests/defects.toml names the tests that failed before it was mended, and they are there."""

from __future__ import annotations

import ast
import tomllib
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).parent
DEFECTS = tomllib.loads((HERE / "defects.toml").read_text(encoding="utf-8"))["defect"]


@cache
def functions_of(file: str) -> set[str]:
    tree = ast.parse((HERE / file).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: str(defect["number"]))
def test_a_mended_defect_has_its_tests(defect: dict[str, object]) -> None:
    names = [str(name) for name in defect["tests"]]  # type: ignore[attr-defined]
    assert names
    for name in names:
        file, _, test = name.partition("::")
        assert test in functions_of(file), name


def test_no_defect_is_left_out() -> None:
    assert [defect["number"] for defect in DEFECTS] == list(range(1, len(DEFECTS) + 1))
    assert len(DEFECTS) >= 36
