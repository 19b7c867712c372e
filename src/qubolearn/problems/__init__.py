"""Problem types by name, by entry point, and from files."""

from __future__ import annotations

import sys
from dataclasses import fields, is_dataclass
from functools import cache, lru_cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location
from inspect import isabstract
from pathlib import Path
from typing import Any

from qubolearn.data.contract import Instances, Problem, RightAnswers, SoftTargets, Split
from qubolearn.errors import QubolearnError, unknown_name

__all__ = [
    "PROBLEMS",
    "Instances",
    "Problem",
    "RightAnswers",
    "SoftTargets",
    "Split",
    "is_reference",
    "load_problem",
    "make_problem",
    "problem_names",
    "problem_type",
]

PROBLEMS = {
    "knapsack": "qubolearn.problems.knapsack:Knapsack",
    "maxcut": "qubolearn.problems.maxcut:MaxCut",
    "randgraph": "qubolearn.problems.randgraph:RandGraph",
    "sudoku": "qubolearn.problems.sudoku:Sudoku",
}
#: Problems of the second distribution in this repository.
REPRODUCTION = (
    "pointset",
    "rotation",
    "scene",
    "snakes",
    "sudoku-set",
    "visual-sudoku",
    "willow",
    "willow-matching",
)


def problem_names() -> list[str]:
    """Return the names of all problem types: ours and those that installed packages register."""
    return [*PROBLEMS, *sorted(entry_points(group="qubolearn.problems").names - PROBLEMS.keys())]


def problem_type(name: str) -> type[Problem]:
    """Return the class of a problem type.

    A name ``FILE.py:CLASS`` raises: names also come from untrusted files, which must
    not run code. :func:`load_problem` is for names that the user typed.
    """
    if is_reference(name):
        remedy = f"pass problem=, or on the command line --problem {name}"
        raise QubolearnError(f"problem {name!r} is code in a file, which is not run by its name; {remedy}")
    if name in PROBLEMS:
        module, _, attribute = PROBLEMS[name].partition(":")
        return getattr(import_module(module), attribute)  # type: ignore[no-any-return]
    return _registered(name)


@cache  # searching packages is slow
def _registered(name: str) -> type[Problem]:
    """Return the class that a package registers."""
    for entry in entry_points(group="qubolearn.problems", name=name):
        try:
            loaded = entry.load()
        except (ImportError, AttributeError) as error:
            raise QubolearnError(f"problem {name!r}: {error}; reinstall its package") from error
        if not (isinstance(loaded, type) and issubclass(loaded, Problem)):
            what = f"entry point {name!r} of qubolearn.problems is {loaded!r}"
            raise QubolearnError(f"{what}; expected a Problem class")
        return loaded
    if name in REPRODUCTION:
        raise QubolearnError(f"problem {name!r} is in quant-reproduction; pip install ./reproduction")
    raise unknown_name("problem", name, problem_names())


def make_problem(name: str, **options: Any) -> Problem:
    """Return a problem by its name, with these options.

    >>> make_problem("randgraph", k=5)
    RandGraph(k=5)
    """
    kind = problem_type(name)
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    for option in options:
        if option not in known:
            raise unknown_name(f"option of {name}", option, known)
    return kind(**options)


def is_reference(name: str) -> bool:
    """Return True if a name is ``FILE.py:CLASS``."""
    return ".py:" in name


def load_attribute(reference: str) -> Any:
    """Execute the user's file of ``FILE.py:NAME``, and return NAME."""
    file, _, attribute = reference.rpartition(":")
    path = Path(file)
    if not path.is_file():
        raise QubolearnError(f"no file {path}; expected FILE.py:NAME, as in my_file.py:MyProblem")
    module_name = f"_qubolearn_{path.stem}"
    spec = spec_from_file_location(module_name, path)
    assert spec is not None, "a name that ends in .py"
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise QubolearnError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    found: Any = getattr(module, attribute, None)
    if found is None:
        known = [name for name, value in vars(module).items() if callable(value)]
        raise unknown_name(f"name in {path}", attribute, known)
    return found


@lru_cache
def load_problem(reference: str) -> type[Problem]:
    """Return the class of ``FILE.py:CLASS``, named by the reference."""
    found = load_attribute(reference)
    is_problem = isinstance(found, type) and issubclass(found, Problem) and is_dataclass(found)
    if not is_problem or isabstract(found):
        missing = ", ".join(sorted(getattr(found, "__abstractmethods__", ())))
        remedy = f"it lacks {missing}" if missing else "expected a frozen dataclass of qubolearn.Problem"
        raise QubolearnError(f"{reference} is not a problem type; {remedy}")
    # a subclass, since the file may import the class from elsewhere
    own = {"name": reference, "__module__": found.__module__, "__doc__": found.__doc__}
    return type(found.__name__, (found,), own)
