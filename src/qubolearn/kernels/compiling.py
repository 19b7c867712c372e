"""How kernels are compiled: on first use, and kept on disk where possible.

numba keeps compiled code beside the source or in the user's cache folder. It raises an error if neither is writable, if
the disk is full, or if a cached file is truncated. Compiled code is only a cache, so here each of these cases leads to
compiling again: into a temporary folder of this process if there is no other, or without keeping the result.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numba
from numba import njit
from numba.core.caching import CompileResultCacheImpl, FunctionCache, UserProvidedCacheLocator

__all__ = ["compiled"]

#: The first and the last numba whose inner workings :mod:`.parts` was run with; others compile in their own way.
PARTS = (0, 62), (0, 68)


def compiled(function: Any = None, **options: Any) -> Any:
    """Compile a kernel on first use, for any types; as a decorator with or without numba's options.

    The kernel releases the GIL, so that threads can share a batch. Kernels may call one another (:mod:`.parts`).
    """
    if function is None:
        return lambda function: compiled(function, **options)
    if PARTS[0] <= numba.version_info[:2] <= PARTS[1]:
        from qubolearn.kernels.parts import Kernel

        return Kernel(function, _cache_of(function), nogil=True, **options)
    kernel = njit(nogil=True, **options)(function)
    kernel._cache = _cache_of(function)
    return kernel


def _cache_of(function: Callable[..., Any]) -> Any:
    try:
        return _Cache(function)
    except Exception as error:  # no folder can be written, not even a temporary one
        _say(f"compiled kernels cannot be kept ({error}); every process compiles them anew")
        return njit(function)._cache  # numba's cache that keeps nothing


@cache
def _say(message: str) -> None:
    """Warn once."""
    warnings.warn(message, RuntimeWarning, stacklevel=2)


@cache
def _say_that_it_compiles() -> None:
    """Tell a user at a terminal, once, why they are waiting."""
    if sys.stderr is not None and sys.stderr.isatty():
        print("compiling kernels for this machine, which is done once ...", file=sys.stderr)


@cache
def _own_folder() -> str:
    """A temporary folder that is removed when this process ends."""
    folder = tempfile.mkdtemp(prefix="qubolearn-kernels-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _say(
        f"no folder for compiled kernels can be written, so this process compiles its own into {folder}; set "
        "NUMBA_CACHE_DIR to a folder that stays"
    )
    return folder


class _OwnFolder(UserProvidedCacheLocator):
    """The last resort among the places where numba looks for a folder."""

    def __init__(self, function: Any, file: str) -> None:
        self._py_file, self._lineno = file, function.__code__.co_firstlineno
        self._cache_path = _own_folder()

    @classmethod
    def from_function(cls, function: Any, file: str) -> Any:
        return super(UserProvidedCacheLocator, cls).from_function(function, file)


class _Places(CompileResultCacheImpl):
    _locator_classes = [*CompileResultCacheImpl._locator_classes, _OwnFolder]  # noqa: RUF012


class _Cache(FunctionCache):
    """numba's cache of one kernel, with every error of files and disks turned into a warning."""

    _impl_class = _Places

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Load the code for these types, or return None if it must be compiled."""
        try:
            found = super().load_overload(signature, target)
        except Exception as error:
            _say(
                f"a file of compiled kernels in {self.cache_path} is damaged ({type(error).__name__}); it is made anew"
            )
            self._clear()
            found = None
        if found is None:
            _say_that_it_compiles()
        return found

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Store compiled code if possible."""
        try:
            super().save_overload(signature, compiled)
        except Exception as error:
            _say(
                f"compiled kernels cannot be kept in {self.cache_path} ({error}); set NUMBA_CACHE_DIR to another folder"
            )

    def _clear(self) -> None:
        try:
            self.flush()
        except Exception:
            self._enabled = False
