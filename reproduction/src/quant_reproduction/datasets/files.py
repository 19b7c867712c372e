"""Dataset folders, and caches of what was read from them; records name the files that a job has read."""

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
    """Return the folder of all datasets: ``$QUBOLEARN_DATA``, or ``~/.cache/qubolearn`` if that is not set."""
    if named := os.environ.get("QUBOLEARN_DATA"):
        return Path(named)
    try:
        return Path.home() / ".cache" / "qubolearn"
    except RuntimeError as error:  # a user id without an account
        raise QubolearnError("this user has no home folder; set QUBOLEARN_DATA to a folder for datasets") from error


def data_folder(name: str, remedy: str = "") -> Path:
    """Return the folder of one dataset below :func:`data_root`; the error for a missing one shows ``remedy``."""
    folder = data_root() / name
    if not folder.is_dir():
        remedy = f", or {remedy}" if remedy else ""
        raise QubolearnError(f"no dataset at {folder}; set QUBOLEARN_DATA to the folder that holds {name}/{remedy}")
    return folder


_caches: list[Callable[[], None]] = []


def clear_data_cache() -> None:
    """Clear all caches of datasets and of instances made of them, on every device."""
    for clear in _caches:
        clear()


#: Files that the innermost block of :func:`files_read` has collected: name -> sha256.
_found: ContextVar[dict[str, str] | None] = ContextVar("_found", default=None)


@contextmanager
def files_read() -> Iterator[dict[str, str]]:
    """Collect the dataset files that are read in the block, also through caches, as ``{"DATASET/FILE": sha256}``."""
    found: dict[str, str] = {}
    token = _found.set(found)
    try:
        yield found
    finally:
        _found.reset(token)
        _note(found)


def note_file(path: Path | str) -> None:
    """Record a dataset file, or a folder as one file, for :func:`files_read`; every reader calls this first."""
    path = Path(path)
    if _found.get() is not None and path.exists():
        inside = path.is_relative_to(data_root())
        name = path.relative_to(data_root()).as_posix() if inside else path.name  # no path of this machine
        _note({name: file_digest(path)})


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file, or of the sorted names and digests of all files in a folder."""
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
    """Cache functions that read datasets, per ``QUBOLEARN_DATA``; a cached value counts as reading its files again."""

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
        cached.cache_clear = value_and_files.cache_clear  # type: ignore[attr-defined]
        return cached  # type: ignore[return-value]

    return decorate


def load_npz(path: Path | str, required: Mapping[str, tuple[str, int]]) -> dict[str, np.ndarray[Any, Any]]:
    """Read arrays by :func:`qubolearn.data.load_npz`, as a file of a dataset."""
    note_file(path)
    return data.load_npz(path, required)
