"""Every public name explains itself: what it does, its arguments by name, and an example that runs as a doctest."""

from __future__ import annotations

import doctest
import inspect
import re
import sys
from typing import Any

import pytest

import qubolearn

#: Names whose arguments are explained elsewhere, and where.
EXPLAINED = {
    "Recipe": "by the strings below its fields, which are the help of the command line",
    "Solver": "a protocol, which is called and not made",
}


def arguments(value: Any) -> list[str]:
    """What a function or a class is called with; of a class that is not made by its users, nothing."""
    if inspect.isabstract(value) or (inspect.isclass(value) and issubclass(value, BaseException)):
        return []
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    given = inspect.signature(value).parameters.values()
    return [parameter.name for parameter in given if parameter.kind not in kinds]


@pytest.mark.parametrize("name", qubolearn.__all__)
def test_a_public_name_has_an_example_that_doctest_finds(name: str) -> None:
    value = getattr(qubolearn, name)
    module = sys.modules[value.__module__]
    found = doctest.DocTestFinder(recurse=True).find(module)
    examples = {test.name: test.examples for test in found}
    assert examples.get(f"{module.__name__}.{value.__name__}"), f"{name} has no example that runs"


@pytest.mark.parametrize("name", [name for name in qubolearn.__all__ if name not in EXPLAINED])
def test_a_public_name_explains_its_arguments(name: str) -> None:
    value = getattr(qubolearn, name)
    text = re.sub(r"^\s*(>>>|\.\.\.).*$", "", value.__doc__ or "", flags=re.MULTILINE)  # an example explains nothing
    missing = [argument for argument in arguments(value) if not re.search(rf"\b{argument}\b", text)]
    assert not missing, f"the docstring of {name} does not name {', '.join(missing)}"
