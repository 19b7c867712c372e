"""Names of a package that import their module when they are first used, so that a command's help needs no torch."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

__all__ = ["lazily"]


def lazily(package: str) -> tuple[dict[str, str], Callable[[str], Any], Callable[[], list[str]]]:
    """Where the names of a package live, and its functions ``__getattr__`` and ``__dir__``.

    The names are those that the source of the package imports under ``if TYPE_CHECKING:``, which type checkers read as
    they stand.

    >>> homes, get, names = lazily("qubolearn")
    >>> homes["QubolearnError"], get("QubolearnError").__name__, "fit" in names()
    ('qubolearn.errors', 'QubolearnError', True)
    """
    module = sys.modules[package]
    source = module.__spec__.loader.get_source(package)  # type: ignore[union-attr]
    homes: dict[str, str] = {}
    for branch in ast.parse(source).body:
        if isinstance(branch, ast.If) and isinstance(branch.test, ast.Name) and branch.test.id == "TYPE_CHECKING":
            imports = [node for node in branch.body if isinstance(node, ast.ImportFrom)]
            homes |= {name.name: str(node.module) for node in imports for name in node.names}

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name]), name)
        setattr(module, name, value)  # the next use is a plain attribute
        return value

    def names() -> list[str]:
        return sorted({*vars(module), *homes})

    return homes, get, names
