"""A -> the best states. One file per solver, one contract.

The table below and the entry points of the group ``qubolearn.solvers`` say what names there are.
"""

from __future__ import annotations

import ast
import inspect
import re
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, get_type_hints

from qubolearn.errors import QubolearnError, unknown_name
from qubolearn.lazy import lazily
from qubolearn.typed import check_option

if TYPE_CHECKING:
    from qubolearn.solvers.annealing import SimulatedAnnealing
    from qubolearn.solvers.auto import auto_solver
    from qubolearn.solvers.contract import QuboSolver, Solution, Solver, solve
    from qubolearn.solvers.dimod_adapter import DimodSolver
    from qubolearn.solvers.dimod_sampler import QubolearnSampler
    from qubolearn.solvers.dwave.solver import DWaveSolver
    from qubolearn.solvers.exhaustive import ExhaustiveSearch
    from qubolearn.solvers.partition import log_partition, pair_marginals
    from qubolearn.solvers.quantum import QuantumAnnealing
else:  # the names of solvers are needed where torch is not
    _, __getattr__, __dir__ = lazily(__name__)

__all__ = [
    "SOLVERS",
    "DWaveSolver",
    "DimodSolver",
    "ExhaustiveSearch",
    "QuantumAnnealing",
    "QuboSolver",
    "QubolearnSampler",
    "SimulatedAnnealing",
    "Solution",
    "Solver",
    "auto_solver",
    "log_partition",
    "make_solver",
    "pair_marginals",
    "solve",
    "solver_names",
]

SOLVERS = {
    "auto": "qubolearn.solvers.auto:AutoSolver",
    "exhaustive": "qubolearn.solvers.exhaustive:ExhaustiveSearch",
    "annealing": "qubolearn.solvers.annealing:SimulatedAnnealing",
    "tempering": "qubolearn.solvers.tempering:ParallelTempering",
    "quantum": "qubolearn.solvers.quantum:QuantumAnnealing",
    "neal": "qubolearn.solvers.dimod_adapter:neal",
    "tabu": "qubolearn.solvers.dimod_adapter:tabu",
    "path-integral": "qubolearn.solvers.dimod_adapter:path_integral",
    "dimod": "qubolearn.solvers.dimod_adapter:dimod_annealing",
    "dwave": "qubolearn.solvers.dwave.solver:DWaveSolver",
    "dwave-mock": "qubolearn.solvers.dwave.solver:DWaveSolver.mock",
}


def solver_names() -> list[str]:
    """The names of all solvers: ours and those that installed packages register."""
    return [*SOLVERS, *sorted(entry_points(group="qubolearn.solvers").names - SOLVERS.keys())]


@lru_cache(maxsize=64)
def make_solver(spec: str) -> Solver:
    """A solver from text, as the command line and recipes name it.

    Args:
        spec: a name, then options of the solver: ``"annealing"`` or ``"annealing:reads=50,sweeps=200,seed=1"``.

    Returns:
        The solver; in Python you can as well make it yourself, ``SimulatedAnnealing(reads=50)``.

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
        check_option(value, hints.get(option, Any), f"solver {name}: {option}")
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
    """Annotations of a factory's arguments; none where a third party's cannot be evaluated."""
    with suppress(NameError, TypeError):
        return get_type_hints(getattr(factory, "__init__") if isinstance(factory, type) else factory)  # noqa: B009
    return {}


def _options(tail: str, spec: str) -> dict[str, Any]:
    """``"reads=50,beta_range=(0.1,3)"`` -> numbers, tuples and True/False as such, all else as text."""
    options: dict[str, Any] = {}
    for part in filter(None, re.split(r",(?![^(]*\))", tail)):  # not at commas inside of parentheses
        key, equals, text = part.partition("=")
        if not equals or not key.isidentifier():
            raise QubolearnError(f"solver {spec!r}: {part!r} is not option=value, as in annealing:reads=50,sweeps=200")
        try:
            options[key] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            options[key] = text
    return options
