"""Files that are whole or not there, and files from strangers: JSON and safetensors, checked, never executed."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qubolearn.errors import NonFiniteError, QubolearnError

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "FORMAT",
    "FORMAT_VERSION",
    "check_version",
    "is_temporary",
    "read_json",
    "read_tensors",
    "read_text",
    "write_atomic",
    "write_json",
    "write_tensors",
]

FORMAT = "qubolearn-run"
FORMAT_VERSION = 1

MAX_JSON = 2**24  # bytes
MAX_HEADER = 2**20  # bytes of a safetensors file beside its tensors

#: A list of numbers as json indents it. Within a string no line ends, so none of them is taken for one.
NUMBERS = re.compile(r"\[\n\s*((?:-?\d[\d.eE+-]*,\s*)*-?\d[\d.eE+-]*)\n\s*\]")


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write JSON atomically, indented but for lists of numbers, which stand on one line."""
    text = json.dumps(value, indent=2, allow_nan=False)
    text = NUMBERS.sub(lambda found: f"[{' '.join(found[1].split())}]", text)
    write_atomic(path, (text + "\n").encode())


def write_tensors(path: Path, tensors: Mapping[str, Tensor], finite: bool = True, **metadata: int) -> None:
    """Write safetensors atomically, with the version of the format; NaN would not be read back, so it is refused."""
    import torch
    from safetensors.torch import save

    plain = {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()
    }
    for name, tensor in plain.items():
        if finite and not bool(torch.isfinite(tensor).all()):
            raise NonFiniteError(f"{name} is not finite and not written; {path.name} before it is untouched")
    header = {"format": FORMAT, "format_version": FORMAT_VERSION, **metadata}
    write_atomic(path, save(plain, {name: str(value) for name, value in header.items()}))


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file so that whatever happens, its place holds the old content or the new, never a part."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise QubolearnError(f"cannot write {path}: {error.strerror}; the file before it is untouched") from error
        raise


def is_temporary(path: Path) -> bool:
    """Whether a file is what :func:`write_atomic` writes before it is whole; a killed process leaves it behind."""
    return path.name.startswith(".") and path.name.endswith(".tmp")


def _sync_folder(folder: Path) -> None:
    """Make a renaming last through a power cut, where the system can."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object of at most 16 MiB."""
    try:
        value = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        if isinstance(error, QubolearnError):
            raise
        raise QubolearnError(f"{path} is not readable JSON ({type(error).__name__})") from error
    if not isinstance(value, dict):
        raise QubolearnError(f"{path} holds a JSON {type(value).__name__}, want an object")
    return value


def read_text(path: Path, limit: int = MAX_JSON) -> str:
    """A text of at most ``limit`` bytes."""
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise QubolearnError(f"cannot read {path}: {error.strerror}") from error
    if len(data) > limit:
        raise QubolearnError(f"{path} has more than {limit} bytes; is it the right file?")
    return data.decode("utf-8", errors="replace")


def read_tensors(
    path: Path, like: Mapping[str, Tensor], finite: bool = True
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and metadata of a safetensors file, which cannot execute anything.

    Names, shapes and types must be those of ``like``, which is checked before any tensor is read, and all numbers
    must be finite, unless ``finite`` is False.
    """
    import torch
    from safetensors import SafetensorError, safe_open

    try:
        most = MAX_HEADER + sum(tensor.numel() * tensor.element_size() for tensor in like.values())
        if path.stat().st_size > most:
            raise QubolearnError(f"{path} has {path.stat().st_size} bytes, but config.json beside it allows {most}")
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            check_version(metadata.get("format_version", "1"), path)
            shapes = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
            if shapes != {name: list(tensor.shape) for name, tensor in like.items()}:
                raise QubolearnError(f"{path} does not fit the network of config.json beside it")
            tensors = {name: file.get_tensor(name) for name in shapes}
    except (SafetensorError, OSError, ValueError) as error:
        if isinstance(error, QubolearnError):
            raise
        raise QubolearnError(f"{path} is not a readable safetensors file ({error})") from error
    for name, tensor in tensors.items():
        if tensor.dtype != like[name].dtype or (finite and not bool(torch.isfinite(tensor).all())):
            raise QubolearnError(f"{path}: {name} is not finite {like[name].dtype}; is the file damaged?")
    return tensors, metadata


def check_version(version: object, path: Path) -> None:
    """Raise unless a file is of the format that this qubolearn reads."""
    if str(version) != str(FORMAT_VERSION):
        raise QubolearnError(
            f"{path} has format version {str(version)[:20]}, this qubolearn reads {FORMAT_VERSION}; "
            "use the qubolearn that wrote it, or train again"
        )
