"""problem -> (p, x̂); x -> answer -> metric. One file per problem type.

The table below and the entry points of the group ``qubolearn.problems`` say what names there are.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from qubolearn.errors import QubolearnError, unknown_name
from qubolearn.problems.contract import Instances, Problem, RightAnswers, SoftTargets, Split
from qubolearn.problems.from_file import is_reference

__all__ = [
    "PROBLEMS",
    "Instances",
    "Problem",
    "RightAnswers",
    "SoftTargets",
    "Split",
    "make_problem",
    "problem_names",
    "problem_type",
]

PROBLEMS = {
    "knapsack": "qubolearn.problems.knapsack:Knapsack",
    "maxcut": "qubolearn.problems.maxcut:MaxCut",
    "randgraph": "qubolearn.problems.randgraph:RandGraph",
    "scene": "qubolearn.problems.scene:Scene",
    "snakes": "qubolearn.problems.snakes:Snakes",
    "sudoku": "qubolearn.problems.sudoku:Sudoku",
    "visual-sudoku": "qubolearn.problems.visual_sudoku:VisualSudoku",
}


def problem_names() -> list[str]:
    """The names of all problem types: ours and those that installed packages register."""
    return [*PROBLEMS, *sorted(entry_points(group="qubolearn.problems").names - PROBLEMS.keys())]


def problem_type(name: str) -> type[Problem]:
    """The class of a problem type.

    A name ``FILE.py:CLASS`` is refused: names also come from strangers' files, which must not run code. The command
    line loads what its user typed through :func:`qubolearn.problems.from_file.load_problem`.
    """
    if is_reference(name):
        raise QubolearnError(
            f"problem {name!r} is code in a file, which is not run by its name; pass problem=, or on "
            f"the command line --problem {name}"
        )
    if name in PROBLEMS:
        module, _, attribute = PROBLEMS[name].partition(":")
        found: type[Problem] = getattr(import_module(module), attribute)
        return found
    return _registered(name)


@cache  # a look into all installed packages takes longer than most problems
def _registered(name: str) -> type[Problem]:
    """The class that an installed package registers; what is not found may be installed later."""
    for entry in entry_points(group="qubolearn.problems", name=name):
        loaded = entry.load()
        if not (isinstance(loaded, type) and issubclass(loaded, Problem)):
            raise QubolearnError(f"entry point {name!r} of qubolearn.problems is {loaded!r}, want a Problem class")
        return loaded
    raise unknown_name("problem", name, problem_names())


def make_problem(name: str, **options: Any) -> Problem:
    """A problem from its name and the options that are fields of its class.

    Args:
        name: one of ours, such as ``randgraph``, or one that an installed package registers.
        options: fields of the problem; the others keep their defaults.

    Returns:
        The problem, a frozen value.

    Raises:
        QubolearnError: for an unknown name or option, with the nearest known one.

    >>> make_problem("randgraph", k=5)
    RandGraph(k=5)
    """
    kind = problem_type(name)
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    for option in options:
        if option not in known:
            raise unknown_name(f"option of {name}", option, known)
    return kind(**options)
