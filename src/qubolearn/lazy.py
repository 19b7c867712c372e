"""Names of a package that import their module when they are first used, so that a command's help needs no torch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["lazily"]


def lazily(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The functions ``__getattr__`` and ``__dir__`` of a package whose names live in other modules.

    ``homes`` maps each name to the module that defines it. Type checkers read plain imports in a branch of
    ``TYPE_CHECKING`` instead; a test keeps both lists equal.

    >>> get, names = lazily("qubolearn", {"QubolearnError": "qubolearn.errors"})
    >>> get("QubolearnError").__name__
    'QubolearnError'
    """

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)  # the next use is a plain attribute
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return get, names
