"""Solvers by name: the table below and entry points of the group ``qubolearn.solvers``."""

from __future__ import annotations

import ast
import inspect
import re
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, get_type_hints

from qubolearn.errors import QubolearnError, convert, unknown_name

if TYPE_CHECKING:
    from qubolearn.solvers.contract import Solver

SOLVERS = {
    "auto": "qubolearn.solvers.auto:AutoSolver",
    "exhaustive": "qubolearn.solvers.exhaustive:ExhaustiveSearch",
    "annealing": "qubolearn.solvers.annealing:SimulatedAnnealing",
    "tempering": "qubolearn.solvers.tempering:ParallelTempering",
    "population": "qubolearn.solvers.population:PopulationAnnealing",
    "quantum": "qubolearn.solvers.quantum:QuantumAnnealing",
    "neal": "qubolearn.solvers.dimod_adapter:neal",
    "tabu": "qubolearn.solvers.dimod_adapter:tabu",
    "path-integral": "qubolearn.solvers.dimod_adapter:path_integral",
    "dwave": "qubolearn.solvers.dwave.solver:DWaveSolver",
    "dwave-mock": "qubolearn.solvers.dwave.solver:DWaveSolver.mock",
}


def solver_names() -> list[str]:
    """Return the names of our solvers and of those that installed packages register."""
    return [*SOLVERS, *sorted(entry_points(group="qubolearn.solvers").names - SOLVERS.keys())]


@lru_cache(maxsize=64)
def make_solver(spec: str) -> Solver:
    """Return a solver from text.

    Args:
        spec: a name, then options: ``"annealing"`` or ``"annealing:reads=50,sweeps=200,seed=1"``.

    Raises:
        QubolearnError: for an unknown name or option, or a value of the wrong type.

    >>> make_solver("exhaustive:max_bits=20")
    ExhaustiveSearch(max_bits=20)
    """
    name, _, tail = spec.partition(":")
    factory = _factory(name)
    options = _options(tail, spec)
    known = list(inspect.signature(factory).parameters)
    hints = _hints(factory)
    for option, value in options.items():
        if option not in known:
            raise unknown_name(f"option of solver {name}", option, known)
        options[option] = convert(value, hints.get(option, Any), f"solver {name}: {option}")
    solver: Solver = factory(**options)
    return solver


def _factory(name: str) -> Any:
    if name in SOLVERS:
        module, _, path = SOLVERS[name].partition(":")
        found: Any = import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
        return found
    for entry in entry_points(group="qubolearn.solvers", name=name):
        return entry.load()
    raise unknown_name("solver", name, solver_names())


def _hints(factory: Any) -> dict[str, Any]:
    """Return the annotations of a factory's arguments, if they can be evaluated."""
    with suppress(NameError, TypeError):
        return get_type_hints(getattr(factory, "__init__") if isinstance(factory, type) else factory)  # noqa: B009
    return {}


def _options(tail: str, spec: str) -> dict[str, Any]:
    """Parse ``"reads=50,beta_range=(0.1,3)"``: Python literals, else text."""
    options: dict[str, Any] = {}
    for part in filter(None, re.split(r",(?![^(]*\))", tail)):  # not in parentheses
        key, equals, text = part.partition("=")
        if not equals or not key.isidentifier():
            raise QubolearnError(f"solver {spec!r}: {part!r} is not option=value, as in annealing:reads=50")
        if key in options:
            raise QubolearnError(f"solver {spec!r}: option {key} is given twice; keep one of them")
        try:
            options[key] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            options[key] = text
    return options
