"""Files: atomic writes, folder locks, checked JSON and safetensors."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from qubolearn.errors import NonFiniteError, QubolearnError

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "FORMAT",
    "FORMAT_VERSION",
    "MAX_JSON",
    "check_version",
    "is_temporary",
    "lock_folder",
    "make_folder",
    "open_regular",
    "read_bytes",
    "read_json",
    "read_metadata",
    "read_records",
    "read_tensors",
    "read_text",
    "write_atomic",
    "write_json",
    "write_output",
    "write_records",
    "write_tensors",
]

FORMAT = "qubolearn-run"
FORMAT_VERSION = 2  # 1: nll also meant soft targets
MAX_JSON = 2**24  # bytes
MAX_HEADER = 2**20  # bytes of a safetensors file before its tensors

#: The entry with the checksum of all others, which old files lack.
CHECKSUM = "sha256"

#: A list of numbers as json indents it; strings contain no line ends.
NUMBERS = re.compile(r"\[\n\s*((?:-?\d[\d.eE+-]*,\s*)*-?\d[\d.eE+-]*)\n\s*\]")


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file such that its path always holds the complete old or new content.

    A link at this path is replaced. The mode and, if allowed, the group of a replaced file stay.
    """
    temporary = path.parent / f".{path.name[:100]}.{secrets.token_hex(8)}.tmp"
    try:
        if not path.name or path.is_dir():
            raise IsADirectoryError(None, "it is a folder")
        with open(temporary, "xb") as file:  # not even a link may exist
            file.write(data)
            file.flush()
            if path.is_file() and not path.is_symlink():
                before = path.stat()
                with suppress(OSError, AttributeError):
                    os.chown(temporary, -1, before.st_gid)
                temporary.chmod(before.st_mode & 0o777)
            os.fsync(file.fileno())
        os.replace(temporary, path)
        if hasattr(os, "O_DIRECTORY"):  # so that the new name survives a power cut
            descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            reason = f"{error.strerror}; the previous file is unchanged"
            raise QubolearnError(f"cannot write {path}: {reason}") from error
        raise


def write_output(path: Path, data: bytes) -> None:
    """Write to a path of the user, also to links, devices and pipes."""
    try:
        is_file = not path.exists() or stat.S_ISREG(path.stat().st_mode)
        # what a shell opened as /dev/stdout must not be replaced
        if (is_file and not str(path).startswith(("/dev/", "/proc/"))) or path.is_dir():
            write_atomic(Path(os.path.realpath(path)), data)
        else:
            path.write_bytes(data)
    except OSError as error:
        raise QubolearnError(f"cannot write {path}: {error.strerror}") from error


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading; raise for a pipe or device."""
    nonblocking = getattr(os, "O_NONBLOCK", 0)
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | nonblocking))  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise QubolearnError(f"{path} is a pipe or device; expected a regular file")
    return file


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise QubolearnError(f"cannot use the folder {folder}: {error.strerror}; choose another") from error


def is_temporary(path: Path) -> bool:
    """Return True for an unfinished file of :func:`write_atomic`."""
    return path.name.startswith(".") and path.name.endswith(".tmp")


@contextmanager
def lock_folder(folder: Path, wait: bool = False) -> Iterator[None]:
    """Hold the lock of a folder; if it is held, raise or, with ``wait``, wait.

    The system drops the lock (flock on ``.lock``) when its holder dies. On Windows and some network
    file systems nothing is locked.
    """
    try:
        import fcntl

        descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except (ImportError, OSError):  # it cannot be written either
        yield
        return
    try:
        with suppress(OSError):  # a file system without locks
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError as error:
                busy = "is being written by another training run; wait until it ends, or choose another --out"
                raise QubolearnError(f"{folder} {busy}") from error
        yield
    finally:
        os.close(descriptor)


def write_json(path: Path, value: Mapping[str, Any], checksum: bool = False) -> None:
    """Write indented JSON atomically, lists of numbers on one line."""
    if checksum:
        value = {**value, CHECKSUM: _json_digest(json.loads(json.dumps(value)))}  # as read
    text = json.dumps(value, indent=2, allow_nan=False)
    text = NUMBERS.sub(lambda found: f"[{' '.join(found[1].split())}]", text)
    write_atomic(path, (text + "\n").encode())


def write_records(path: Path, records: Sequence[Mapping[str, Any]]) -> None:
    """Write lines of JSON atomically, with their checksum on the last line."""
    lines = [json.dumps(record) for record in records]
    write_atomic(path, "\n".join([*lines, json.dumps({CHECKSUM: _digest("\n".join(lines))}), ""]).encode())


def read_json(path: Path) -> dict[str, Any]:
    """Return a JSON object of at most 16 MiB with a valid checksum."""
    text = read_text(path)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise QubolearnError(f"{path} is not readable JSON ({type(error).__name__}); restore it") from error
    if not isinstance(value, dict):
        raise QubolearnError(f"{path} holds a JSON {type(value).__name__}; expected an object")
    if value.pop(CHECKSUM, None) not in (None, _json_digest(value)):
        remedy = f"if you edited it, delete the entry {CHECKSUM!r}"
        raise QubolearnError(f"{path} is damaged or was edited: checksum mismatch; {remedy}")
    return value


def read_records(path: Path, limit: int) -> list[dict[str, Any]]:
    """Return the JSON objects of a file of lines with a valid checksum."""
    lines, records = read_text(path, limit).splitlines(), []
    for number, line in enumerate(lines):
        record = None
        with suppress(ValueError, RecursionError):
            record = json.loads(line)
        if isinstance(record, dict) and CHECKSUM not in record:
            records.append(record)
        elif f'"{CHECKSUM}"' in line and record != {CHECKSUM: _digest("\n".join(lines[:number]))}:
            raise QubolearnError(f"{path} is damaged: checksum mismatch; delete it to continue without it")
    return records


def read_text(path: Path, limit: int = MAX_JSON) -> str:
    return read_bytes(path, limit).decode("utf-8", errors="replace")


def read_bytes(path: Path, limit: int) -> bytes:
    try:
        with open_regular(path) as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise QubolearnError(f"cannot read {path}: {error.strerror}") from error
    if len(data) > limit:
        raise QubolearnError(f"{path} has more than {limit} bytes; is it the right file?")
    return data


def write_tensors(path: Path, tensors: Mapping[str, Tensor], finite: bool = True, **more: int | str) -> None:
    """Write safetensors atomically and reproducibly, all finite if ``finite``."""
    import torch
    from safetensors.torch import save

    plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    for name, tensor in plain.items():
        if finite and not bool(torch.isfinite(tensor).all()):
            raise NonFiniteError(f"{name} is not finite; the previous {path.name} is unchanged")
    notes = {"format": FORMAT, "format_version": str(FORMAT_VERSION)}
    notes |= {name: str(value) for name, value in more.items()}
    notes[CHECKSUM] = _tensors_digest(plain, notes)
    # safetensors writes metadata in random order
    data = save(plain)
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.dumps({"__metadata__": dict(sorted(notes.items())), **json.loads(data[8:start])}).encode()
    header += b" " * (-len(header) % 8)
    write_atomic(path, len(header).to_bytes(8, "little") + header + data[start:])


def read_tensors(
    path: Path, like: Mapping[str, Tensor], finite: bool = True, others: str | None = None
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors and metadata of a safetensors file.

    Args:
        path: The file.
        like: Tensors with the expected names, shapes and types.
        finite: Raise if a number is not finite.
        others: Prefix of additional names, of any shape, up to eight times the size of the rest.
    """
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load

    limit = MAX_HEADER + sum(tensor.numel() * tensor.element_size() for tensor in like.values())
    limit = limit if others is None else 9 * limit
    try:
        data = read_bytes(path, limit)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        metadata = _metadata(header, path)
        shapes = {_renamed(name, like): entry["shape"] for name, entry in header.items()}
        known = {n: shape for n, shape in shapes.items() if others is None or not n.startswith(others)}
        if known != (fitting := {name: list(tensor.shape) for name, tensor in like.items()}):
            name = next(name for name in sorted({*known, *fitting}) if known.get(name) != fitting.get(name))
            there = f"{name[:60]} is {known.get(name)} in the file and {fitting.get(name)} in the network"
            raise QubolearnError(f"{path} does not fit the network: {there}; pass the one that was saved")
        stored = load(data)
    except QubolearnError:
        raise
    except (SafetensorError, ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        raise QubolearnError(f"{path} is not a readable safetensors file ({error}); restore it") from error
    tensors = {_renamed(name, like): tensor for name, tensor in stored.items()}
    for name, tensor in tensors.items():
        expected = like.get(name, tensor)
        if tensor.dtype != expected.dtype or (finite and not bool(torch.isfinite(tensor).all())):
            raise QubolearnError(f"{path}: {name} is not finite {expected.dtype}; is the file damaged?")
    if metadata.pop(CHECKSUM, None) not in (None, _tensors_digest(stored, metadata)):
        raise QubolearnError(f"{path} is damaged: checksum mismatch; restore it or train again")
    return tensors, metadata


def _renamed(name: str, like: Mapping[str, Tensor]) -> str:
    return name if name in like else name.replace("standardise.", "standardize.")  # old files


def read_metadata(path: Path) -> dict[str, str]:
    """Return the metadata of a safetensors file without checking its checksum."""
    try:
        with open_regular(path) as file:
            length = min(int.from_bytes(file.read(8), "little"), MAX_HEADER)
            return _metadata(json.loads(file.read(length)), path)
    except QubolearnError:
        raise
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        name = "a folder; see Run.open" if path.is_dir() else type(error).__name__
        broken = f"is not a readable safetensors file ({name}); restore it"
        raise QubolearnError(f"{path} {broken if path.exists() else 'does not exist'}") from error


def _metadata(header: dict[str, Any], path: Path) -> dict[str, str]:
    metadata = {str(key): str(value) for key, value in (header.pop("__metadata__", None) or {}).items()}
    check_version(metadata.get("format_version", "1"), path)
    return metadata


def check_version(version: object, path: Path) -> None:
    if str(version) not in map(str, range(1, FORMAT_VERSION + 1)):
        remedy = f"expected 1 to {FORMAT_VERSION}; use the qubolearn that wrote it, or train again"
        raise QubolearnError(f"{path} has format version {str(version)[:20]}; {remedy}")


def _json_digest(value: Mapping[str, Any]) -> str:
    return _digest(json.dumps(value, sort_keys=True))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _tensors_digest(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    import torch

    digest = hashlib.sha256(json.dumps(metadata, sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)} ".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
