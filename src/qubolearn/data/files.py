"""Dataset folders and array files. Untrusted files are checked: no pickles, bounded sizes."""

from __future__ import annotations

import hashlib
import io
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.lib import format as npy

from qubolearn.errors import QubolearnError
from qubolearn.files import write_atomic

if TYPE_CHECKING:
    from torch import Tensor

    from qubolearn.data.contract import Instances, Problem

__all__ = [
    "ZIP_ERRORS",
    "cached_data",
    "clear_data_cache",
    "data_folder",
    "data_root",
    "file_digest",
    "files_read",
    "load_npz",
    "note_file",
    "open_zip",
    "read_inputs",
    "read_member",
    "write_arrays",
    "write_instances",
]

Loader = TypeVar("Loader", bound=Callable[..., Any])
Write = Callable[[Path, bytes], None]

#: Limit of the unpacked bytes of one .npz. The largest dataset here has 12 MB; a zip bomb has more.
MAX_UNPACKED = 2**30

#: Exceptions that zipfile raises on damaged archives.
ZIP_ERRORS = (
    *(OSError, EOFError, RuntimeError, NotImplementedError, UnicodeError, OverflowError),
    *(zipfile.BadZipFile, zlib.error, struct.error),
)


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
    """Cache functions that read datasets, per ``QUBOLEARN_DATA``, until :func:`clear_data_cache`.

    A value from the cache counts as reading its files again.
    """

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


def open_zip(path: Path | str) -> zipfile.ZipFile:
    """Open a zip archive whose members are stored or deflated.

    Other methods are rejected, because zipfile unpacks whole blocks of them: a thousand bytes can become gigabytes.
    """
    try:
        note_file(path)
        archive = zipfile.ZipFile(path)
    except ZIP_ERRORS as error:
        raise QubolearnError(f"cannot read {path} as a zip archive: {error}; download it again") from error
    for entry in archive.infolist():
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            archive.close()
            raise QubolearnError(
                f"{path} is packed by method {entry.compress_type}; expected stored or deflated members"
            )
    return archive


def read_member(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """Return the content of a member, at most the size in its header."""
    with archive.open(entry) as member:
        return member.read(entry.file_size)


def load_npz(
    path: Path | str, required: Mapping[str, tuple[str, int]], finite: bool = True
) -> dict[str, np.ndarray[Any, Any]]:
    """Read the arrays ``{name: (dtype kinds, dimensions)}``, for example ``{"points": ("f", 2)}``, and no others.

    Pickled arrays, arrays larger than the file claims and, unless ``finite`` is False, non-finite numbers raise.
    """
    path = Path(path)
    if not path.is_file():
        raise QubolearnError(f"no file {path}; expected an .npz with {', '.join(required)}")
    try:
        with open_zip(path) as archive:
            entries = {entry.filename: entry for entry in archive.infolist()}
            missing = [name for name in required if f"{name}.npy" not in entries]
            if missing:
                raise QubolearnError(f"{path} has no array {missing[0]!r}; expected {', '.join(required)}")
            total = sum(entries[f"{name}.npy"].file_size for name in required)
            if total > MAX_UNPACKED:
                raise QubolearnError(f"{path} unpacks to {total} bytes (limit {MAX_UNPACKED}); is it the right file?")
            arrays = {}
            for name, (kinds, dimensions) in required.items():
                array = _read_npy(read_member(archive, entries[f"{name}.npy"]))
                _check_array(array, kinds, dimensions, finite, f"{path}: array {name!r}")
                arrays[name] = array
            return arrays
    except QubolearnError:
        raise
    # numpy and zipfile raise many types on damaged files, NotImplementedError and EOFError among them
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise QubolearnError(f"{path} is not a readable .npz ({why}); download it again") from error


def _read_npy(content: bytes) -> np.ndarray[Any, Any]:
    """Return an array after checking that its header claims no more than its content."""
    member = io.BytesIO(content)
    version = npy.read_magic(member)
    read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran, dtype = read_header(member)
    if dtype.hasobject:
        raise ValueError("pickled objects are not read")
    if math.prod(shape) * dtype.itemsize > len(content):
        raise ValueError(f"shape {shape} does not fit {len(content)} bytes")
    data = np.frombuffer(content, dtype=dtype, count=math.prod(shape), offset=member.tell())
    return data.reshape(shape, order="F" if fortran else "C")


def _check_array(array: np.ndarray[Any, Any], kinds: str, dimensions: int, finite: bool, what: str) -> None:
    if array.dtype.kind not in kinds or array.ndim != dimensions:
        raise QubolearnError(
            f"{what} is {array.dtype} with {array.ndim} dimensions; expected {' or '.join(kinds)} with {dimensions}"
        )
    if finite and array.dtype.kind == "f" and not np.isfinite(array).all():
        raise QubolearnError(f"{what} contains numbers that are not finite; download it again")
    if array.dtype.kind == "U":
        array.tolist()  # raises for invalid characters, which NumPy does not check


def write_instances(path: Path, instances: Instances, write: Write = write_atomic) -> None:
    """Write p, x_true and answer."""
    write_arrays(path, write, p=instances.p, x_true=instances.x_true.byte(), answer=instances.answer)


def write_arrays(path: Path, write: Write = write_atomic, /, **arrays: Tensor | np.ndarray[Any, Any]) -> None:
    """Write tensors or arrays as a compressed .npz, completely or not at all."""
    buffer = io.BytesIO()
    plain: dict[str, Any] = {
        name: array if isinstance(array, np.ndarray) else array.cpu().numpy() for name, array in arrays.items()
    }
    np.savez_compressed(buffer, **plain)
    write(path, buffer.getvalue())


def read_inputs(path: Path, problem: Problem) -> Tensor:
    """Return p ``[count, input_size]``, float32, from a file."""
    import torch

    p = load_npz(path, {"p": ("f", 2)})["p"]
    if p.shape[0] == 0 or p.shape[1] != problem.input_size:
        raise QubolearnError(
            f"{path}: p has shape {list(p.shape)}, but {problem} takes [count >= 1, {problem.input_size}]; "
            "is it a file of another problem?"
        )
    return torch.from_numpy(p.astype(np.float32))
