"""Where datasets lie on disk, and how strangers' files are read: no pickles, no surprises in size."""

from __future__ import annotations

import hashlib
import io
import math
import os
import struct
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, wraps
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, TypeVar

import numpy as np
from numpy.lib import format as npy

from qubolearn.errors import QubolearnError

__all__ = [
    "ZIP_ERRORS",
    "cached_data",
    "data_folder",
    "data_root",
    "download_file",
    "file_digest",
    "files_read",
    "forget_data",
    "load_npz",
    "note_file",
    "open_zip",
    "read_member",
]

Loader = TypeVar("Loader", bound=Callable[..., Any])

#: The most bytes that one .npz may unpack to. The largest dataset here has 12 MB; a zip bomb has more.
MAX_UNPACKED = 2**30

#: What zipfile raises on damaged archives.
ZIP_ERRORS = (
    *(OSError, EOFError, RuntimeError, NotImplementedError, UnicodeError, OverflowError),
    *(zipfile.BadZipFile, zlib.error, struct.error),
)


def data_root() -> Path:
    """The folder of all datasets: ``$QUBOLEARN_DATA``, or ``~/.cache/qubolearn`` where that is not set."""
    if named := os.environ.get("QUBOLEARN_DATA"):
        return Path(named)
    try:
        return Path.home() / ".cache" / "qubolearn"
    except RuntimeError as error:  # a user id that no file of users knows
        raise QubolearnError("this user has no home folder; set QUBOLEARN_DATA to a folder for datasets") from error


def data_folder(name: str, remedy: str = "") -> Path:
    """The folder of one dataset below :func:`data_root`; ``remedy`` tells how to get it where it is missing."""
    folder = data_root() / name
    if not folder.is_dir():
        remedy = f", or {remedy}" if remedy else ""
        raise QubolearnError(f"no dataset at {folder}; set QUBOLEARN_DATA to the folder that holds {name}/{remedy}")
    return folder


_caches: list[Callable[[], None]] = []


def forget_data() -> None:
    """Free all datasets that this process keeps, and the instances made of them, on every device."""
    for clear in _caches:
        clear()


#: What the innermost open block of :func:`files_read` has found: name -> sha256.
_found: ContextVar[dict[str, str] | None] = ContextVar("_found", default=None)


@contextmanager
def files_read() -> Iterator[dict[str, str]]:
    """Collect the dataset files that are read inside the block, as ``{"DATASET/FILE": sha256}``.

    A file counts as well where :func:`cached_data` holds what was made of it.
    """
    found: dict[str, str] = {}
    token = _found.set(found)
    try:
        yield found
    finally:
        _found.reset(token)
        _note(found)


def note_file(path: Path | str) -> None:
    """Every reader of a dataset file calls this first, so that :func:`files_read` knows of it.

    A folder of many files, such as pictures, counts as one.
    """
    path = Path(path)
    if _found.get() is not None and path.exists():
        inside = path.is_relative_to(data_root())
        name = path.relative_to(data_root()).as_posix() if inside else path.name  # no path of the machine
        _note({name: file_digest(path)})


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes; of a folder, of the names and digests of all files in it, in order."""
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
    """``lru_cache`` for functions that read datasets: a value from the cache counts as reading its files again.

    Another ``QUBOLEARN_DATA`` is another dataset. Up to ``maxsize`` values stay until :func:`forget_data`.
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
    """A zip archive whose members are stored or deflated.

    zipfile can unpack these piece by piece, but hands out whole blocks of bzip2 and LZMA: a thousand bytes can become
    gigabytes.
    """
    try:
        note_file(path)
        archive = zipfile.ZipFile(path)
    except ZIP_ERRORS as error:
        raise QubolearnError(f"cannot read {path} as a zip archive: {error}; fetch it anew") from error
    for entry in archive.infolist():
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            archive.close()
            raise QubolearnError(f"{path} is packed by method {entry.compress_type}; want stored or deflated members")
    return archive


def read_member(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """A member's content; asking for the size in its header keeps zipfile from unpacking more than that."""
    with archive.open(entry) as member:
        return member.read(entry.file_size)


def load_npz(
    path: Path | str, required: Mapping[str, tuple[str, int]], finite: bool = True
) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays that ``required`` names, as ``{name: (dtype kinds, dimensions)}``, e.g. ``{"points": ("f", 2)}``.

    Every other array in the file is left unread. Pickled arrays, arrays larger than the file says and (unless
    ``finite`` is False) non-finite numbers are refused.
    """
    path = Path(path)
    if not path.is_file():
        raise QubolearnError(f"no file {path}; want an .npz with {', '.join(required)}")
    try:
        with open_zip(path) as archive:
            entries = {entry.filename: entry for entry in archive.infolist()}
            missing = [name for name in required if f"{name}.npy" not in entries]
            if missing:
                raise QubolearnError(f"{path} has no array {missing[0]!r}; want {', '.join(required)}")
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
        raise QubolearnError(
            f"{path} is not a readable .npz ({type(error).__name__}: {error}); fetch it anew"
        ) from error


def _read_npy(content: bytes) -> np.ndarray[Any, Any]:
    """One array, after its header was found to claim no more than there is."""
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
            f"{what} is {array.dtype} with {array.ndim} dimensions; want kind {' or '.join(kinds)} with {dimensions}"
        )
    if finite and array.dtype.kind == "f" and not np.isfinite(array).all():
        raise QubolearnError(f"{what} holds numbers that are not finite; fetch it anew")
    if array.dtype.kind == "U":
        array.tolist()  # raises where a character does not exist, which numpy does not look at before


def download_file(url: str, target: Path, max_bytes: int, sha256: str | None = None, timeout: float = 60.0) -> Path:
    """Fetch ``url`` into ``target``, which appears only when whole, within ``max_bytes`` and of the right checksum.

    A file that is already there is kept as it is.
    """
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    digest, size = hashlib.sha256(), 0
    with NamedTemporaryFile(dir=target.parent, prefix=target.name, suffix=".part", delete=False) as part:
        try:
            with urllib.request.urlopen(url, timeout=timeout) as answer:
                while block := answer.read(2**20):
                    size += len(block)
                    if size > max_bytes:
                        raise QubolearnError(f"{url} sends more than {max_bytes} bytes; nothing was kept")
                    digest.update(block)
                    part.write(block)
            if sha256 is not None and digest.hexdigest() != sha256:
                raise QubolearnError(f"{url} has sha256 {digest.hexdigest()}, want {sha256}; nothing was kept")
            part.flush()
            os.replace(part.name, target)
        except OSError as error:
            Path(part.name).unlink(missing_ok=True)
            raise QubolearnError(f"cannot fetch {url}: {error}; download it by hand to {target}") from error
        except BaseException:
            Path(part.name).unlink(missing_ok=True)
            raise
    return target
