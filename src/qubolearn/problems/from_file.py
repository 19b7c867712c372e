"""A problem that is a class in a Python file, as the command line names it: ``my_file.py:MyProblem``.

Loading one runs the file, so only the command line does it, on a word that its user typed. A name in a file of somebody
else, such as a run's config.json, is never loaded.
"""

from __future__ import annotations

import sys
from dataclasses import is_dataclass
from functools import lru_cache
from importlib.util import module_from_spec, spec_from_file_location
from inspect import isabstract
from pathlib import Path
from typing import Any

from qubolearn.errors import QubolearnError, unknown_name
from qubolearn.problems.contract import Problem

__all__ = ["is_reference", "load_problem"]


def is_reference(name: str) -> bool:
    """Whether a name is ``FILE.py:CLASS`` and not one of the table.

    >>> is_reference("my_file.py:MyProblem"), is_reference("randgraph")
    (True, False)
    """
    return ".py:" in name


@lru_cache
def load_problem(reference: str) -> type[Problem]:
    """The problem class of ``FILE.py:CLASS``; runs the file. The class's name becomes the reference itself."""
    file, _, attribute = reference.rpartition(":")
    path = Path(file)
    if not path.is_file():
        raise QubolearnError(f"no file {path}; want FILE.py:CLASS, as in my_file.py:MyProblem")
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
        classes = [name for name, value in vars(module).items() if isinstance(value, type)]
        raise unknown_name(f"class of {path}", attribute, classes)
    is_problem = isinstance(found, type) and issubclass(found, Problem) and is_dataclass(found)
    if not is_problem or isabstract(found):
        missing = ", ".join(sorted(getattr(found, "__abstractmethods__", ())))
        wanted = f"it lacks {missing}" if missing else "want a frozen dataclass that derives from qubolearn.Problem"
        raise QubolearnError(f"{reference} is no problem type; {wanted}")
    # a subclass, since the class may be somebody else's that the file imports
    return type(found.__name__, (found,), {"name": reference, "__module__": module_name, "__doc__": found.__doc__})
