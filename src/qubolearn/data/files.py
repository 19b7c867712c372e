"""Array files. Untrusted ones are checked: no pickles, bounded sizes."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from qubolearn.errors import QubolearnError
from qubolearn.files import write_atomic

if TYPE_CHECKING:
    from torch import Tensor

    from qubolearn.data.contract import Instances, Problem

Write = Callable[[Path, bytes], None]

#: Limit of the unpacked bytes of one .npz, against zip bombs.
MAX_UNPACKED = 2**30


def load_npz(
    path: Path | str, required: Mapping[str, tuple[str, int | None]], finite: bool = True
) -> dict[str, np.ndarray[Any, Any]]:
    """Read the arrays ``{name: (dtype kinds, dimensions)}``, such as ``("f", 2)``.

    Pickles, arrays larger than claimed and, unless ``finite`` is False, non-finite numbers raise.
    """
    path = Path(path)
    if not path.is_file():
        raise QubolearnError(f"no file {path}; expected an .npz with {', '.join(required)}")
    try:
        with zipfile.ZipFile(path) as archive:
            entries = {entry.filename: entry for entry in archive.infolist()}
            methods = {entry.compress_type for entry in entries.values()}
            if methods - {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
                raise QubolearnError(f"{path} is neither stored nor deflated; pack it again")
            missing = [name for name in required if f"{name}.npy" not in entries]
            if missing:
                raise QubolearnError(f"{path} has no array {missing[0]!r}; expected {', '.join(required)}")
            total = sum(entries[f"{name}.npy"].file_size for name in required)
            if total > MAX_UNPACKED:
                raise QubolearnError(f"{path} unpacks to {total} bytes (limit {MAX_UNPACKED})")
            arrays = {}
            for name, (kinds, dimensions) in required.items():
                with archive.open(entry := entries[f"{name}.npy"]) as member:
                    content = io.BytesIO(member.read(entry.file_size))
                arrays[name] = np.lib.format.read_array(content, allow_pickle=False)
                _check_array(arrays[name], kinds, dimensions, finite, f"{path}: array {name!r}")
            return arrays
    except QubolearnError:
        raise
    # numpy and zipfile raise many types on damaged files
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise QubolearnError(f"{path} is not a readable .npz ({why}); restore it") from error


def _check_array(array: np.ndarray[Any, Any], kinds: str, ndim: int | None, finite: bool, what: str) -> None:
    if array.dtype.kind not in kinds or ndim not in (None, array.ndim):
        expected = f"{' or '.join(kinds)} with {ndim}"
        raise QubolearnError(f"{what} is {array.dtype} with {array.ndim} dimensions; expected {expected}")
    if finite and array.dtype.kind == "f" and not np.isfinite(array).all():
        raise QubolearnError(f"{what} contains numbers that are not finite; repair them")
    if array.dtype.kind == "U":
        array.tolist()  # raises for invalid characters


def write_instances(path: Path, instances: Instances, write: Write = write_atomic) -> None:
    write_arrays(path, write, p=instances.p, x_true=instances.x_true.byte(), answer=instances.answer)


def write_arrays(path: Path, write: Write = write_atomic, /, **arrays: Tensor | np.ndarray[Any, Any]) -> None:
    """Write a compressed .npz, atomically."""
    buffer = io.BytesIO()
    plain = {k: v if isinstance(v, np.ndarray) else v.cpu().numpy() for k, v in arrays.items()}
    np.savez_compressed(buffer, **plain)  # type: ignore[arg-type]
    write(path, buffer.getvalue())


def read_inputs(path: Path, problem: Problem) -> Tensor:
    """Return p ``[count, input_size]``, float32, of a .npz file."""
    import torch

    p = load_npz(path, {"p": ("f", 2)})["p"]
    if p.shape[0] == 0 or p.shape[1] != problem.input_size:
        raise QubolearnError(
            f"{path}: p has shape {list(p.shape)}, but {problem} takes [count >= 1, {problem.input_size}]; "
            "is it a file of another problem?"
        )
    return torch.from_numpy(p.astype(np.float32))
