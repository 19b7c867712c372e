"""Names that import their module at first use: the same ones for people, for Python and for type checkers."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import qubolearn
from qubolearn import solvers


def names_for_type_checkers(file: str) -> set[str]:
    """What a package imports where TYPE_CHECKING is true."""
    branches = [
        node
        for node in ast.parse(Path(file).read_text()).body
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    ]
    return {name.name for branch in branches for node in ast.walk(branch) for name in getattr(node, "names", [])}


def test_type_checkers_see_the_public_names() -> None:
    assert names_for_type_checkers(qubolearn.__file__) == set(qubolearn.__all__)
    assert names_for_type_checkers(solvers.__file__) <= set(solvers.__all__)


@pytest.mark.parametrize("package", [qubolearn, solvers])
def test_every_name_is_there_and_listed(package: object) -> None:
    for name in package.__all__:  # type: ignore[attr-defined]
        assert getattr(package, name) is getattr(package, name)
        assert name in dir(package)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        package.nothing  # type: ignore[attr-defined]  # noqa: B018
