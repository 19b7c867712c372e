"""Tensors in safetensors files: checked against what they should be, with a checksum, equal bytes for equal tensors."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from qubolearn.errors import NonFiniteError, QubolearnError
from qubolearn.files.atomic import write_atomic
from qubolearn.files.json_files import CHECKSUM

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["FORMAT", "FORMAT_VERSION", "check_version", "read_metadata", "read_tensors", "write_tensors"]

FORMAT = "qubolearn-run"
FORMAT_VERSION = 2  # 1: the loss nll also meant soft targets; all fields had to be there
MAX_HEADER = 2**20  # bytes of a safetensors file beside its tensors


def write_tensors(path: Path, tensors: Mapping[str, Tensor], finite: bool = True, **metadata: int | str) -> None:
    """Write safetensors atomically, with the version of the format; NaN would not be read back, so it is refused.

    Equal tensors give equal bytes.
    """
    import torch
    from safetensors.torch import save

    plain = {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()
    }
    for name, tensor in plain.items():
        if finite and not bool(torch.isfinite(tensor).all()):
            raise NonFiniteError(f"{name} is not finite and not written; {path.name} before it is untouched")
    notes = {name: str(value) for name, value in (("format", FORMAT), ("format_version", FORMAT_VERSION))}
    notes |= {name: str(value) for name, value in metadata.items()}
    notes[CHECKSUM] = _tensors_digest(plain, notes)
    # safetensors itself writes metadata in an order that changes from process to process
    data = save(plain)
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.dumps({"__metadata__": dict(sorted(notes.items())), **json.loads(data[8:start])}).encode()
    header += b" " * (-len(header) % 8)
    write_atomic(path, len(header).to_bytes(8, "little") + header + data[start:])


def read_tensors(
    path: Path, like: Mapping[str, Tensor], finite: bool = True, others: str | None = None
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and metadata of a safetensors file, which cannot execute anything.

    Names, shapes and types must be those of ``like``, which is checked before any tensor is made, all numbers must be
    finite, unless ``finite`` is False, and a checksum must be right. Names that begin with ``others`` may come on top,
    of any shape, as the states of optimizers do, as long as they are together no larger than eight times the rest.
    """
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        most = MAX_HEADER + sum(tensor.numel() * tensor.element_size() for tensor in like.values())
        most = most if others is None else 9 * most
        if path.stat().st_size > most:
            raise QubolearnError(f"{path} has {path.stat().st_size} bytes, but its configuration allows {most}")
        data = path.read_bytes()  # not by its name, which the library wants to be UTF-8
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        metadata = {str(key): str(value) for key, value in (header.pop("__metadata__", None) or {}).items()}
        check_version(metadata.get("format_version", "1"), path)
        shapes = {name: entry["shape"] for name, entry in header.items()}
        known = {name: shape for name, shape in shapes.items() if others is None or not name.startswith(others)}
        if known != {name: list(tensor.shape) for name, tensor in like.items()}:
            raise QubolearnError(f"{path} does not fit the network that its configuration asks for")
        tensors = load(data)
    except (SafetensorError, OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        if isinstance(error, QubolearnError):
            raise
        raise QubolearnError(f"{path} is not a readable safetensors file ({error})") from error
    for name, tensor in tensors.items():
        want = like.get(name, tensor)
        if tensor.shape != want.shape:
            raise QubolearnError(f"{path} does not fit the network that its configuration asks for")
        if tensor.dtype != want.dtype or (finite and not bool(torch.isfinite(tensor).all())):
            raise QubolearnError(f"{path}: {name} is not finite {want.dtype}; is the file damaged?")
    if metadata.pop(CHECKSUM, None) not in (None, _tensors_digest(tensors, metadata)):
        raise QubolearnError(f"{path} is damaged: its checksum is another; take a copy of it, or train again")
    return tensors, metadata


def read_metadata(path: Path) -> dict[str, str]:
    """The metadata of a safetensors file, of which no more than 1 MiB is read; its checksum is not checked."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > MAX_HEADER:
                raise QubolearnError(f"{path} is no model file: its header has {length} bytes (limit {MAX_HEADER})")
            metadata = json.loads(file.read(length)).get("__metadata__") or {}
        found = {str(key): str(value) for key, value in metadata.items()}
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        if isinstance(error, QubolearnError):
            raise
        raise QubolearnError(f"{path} is not a readable safetensors file ({type(error).__name__})") from error
    check_version(found.get("format_version", "1"), path)
    return found


def check_version(version: object, path: Path) -> None:
    """Raise unless a file is of the format that this qubolearn reads."""
    if str(version) not in map(str, range(1, FORMAT_VERSION + 1)):
        raise QubolearnError(
            f"{path} has format version {str(version)[:20]}, this qubolearn reads 1 to {FORMAT_VERSION}; "
            "use the qubolearn that wrote it, or train again"
        )


def _tensors_digest(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    """Of names, types, shapes, numbers and metadata, whatever their order."""
    import torch

    digest = hashlib.sha256(json.dumps(metadata, sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)} ".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
