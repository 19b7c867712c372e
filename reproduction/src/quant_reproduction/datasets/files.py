"""Dataset folders, caches, and the names of files that a job reads."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from qubolearn import data
from qubolearn.errors import QubolearnError

Loader = TypeVar("Loader", bound=Callable[..., Any])


def data_root() -> Path:
    """Return ``$QUBOLEARN_DATA``, or ``~/.cache/qubolearn``."""
    if named := os.environ.get("QUBOLEARN_DATA"):
        return Path(named)
    try:
        return Path.home() / ".cache" / "qubolearn"
    except RuntimeError as error:  # a user id without an account
        raise QubolearnError("this user has no home folder; set QUBOLEARN_DATA to a folder") from error


def data_folder(name: str, remedy: str = "") -> Path:
    """Return the folder of one dataset; the error shows ``remedy``."""
    folder = data_root() / name
    if not folder.is_dir():
        remedy = f", or {remedy}" if remedy else ""
        raise QubolearnError(f"no dataset at {folder}; set QUBOLEARN_DATA to the folder of {name}/{remedy}")
    return folder


_caches: list[Callable[[], None]] = []


def clear_data_cache() -> None:
    """Clear all caches of datasets and instances."""
    for clear in _caches:
        clear()


#: Files that the innermost :func:`files_read` has: name -> sha256.
_found: ContextVar[dict[str, str] | None] = ContextVar("_found", default=None)


@contextmanager
def files_read() -> Iterator[dict[str, str]]:
    """Collect dataset files read in the block as ``{"DATASET/FILE": sha256}``."""
    found: dict[str, str] = {}
    token = _found.set(found)
    try:
        yield found
    finally:
        _found.reset(token)
        _note(found)


def note_file(path: Path | str) -> None:
    """Record a dataset file or folder; every reader calls this first."""
    path = Path(path)
    if _found.get() is not None and path.exists():
        inside = path.is_relative_to(data_root())
        name = path.relative_to(data_root()).as_posix() if inside else path.name  # no path of this machine
        _note({name: file_digest(path)})


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file, or of a folder's names and digests."""
    if path.is_file():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    inner = {each.relative_to(path).as_posix(): each for each in path.rglob("*") if each.is_file()}
    lines = (f"{file_digest(inner[name])}  {name}\n" for name in sorted(inner))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _note(files: Mapping[str, str]) -> None:
    found = _found.get()
    if found is not None:
        found.update(files)


def cached_data(maxsize: int) -> Callable[[Loader], Loader]:
    """Cache readers of datasets; a cached value counts as reading again."""

    def decorate(function: Loader) -> Loader:
        @lru_cache(maxsize)
        def value_and_files(root: str | None, *args: Any) -> tuple[Any, dict[str, str]]:
            with files_read() as files:
                return function(*args), files

        @wraps(function)
        def cached(*args: Any) -> Any:
            value, files = value_and_files(os.environ.get("QUBOLEARN_DATA"), *args)
            _note(files)
            return value

        _caches.append(value_and_files.cache_clear)
        return cached  # type: ignore[return-value]

    return decorate


def load_npz(path: Path | str, required: Mapping[str, tuple[str, int]]) -> dict[str, np.ndarray[Any, Any]]:
    """Read arrays of a dataset by :func:`qubolearn.data.load_npz`."""
    note_file(path)
    return data.load_npz(path, required)
