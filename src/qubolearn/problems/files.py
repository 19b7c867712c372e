"""Instances in files: an .npz with p, and where known x_true and answer. No pickles, checked on reading."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.files import write_atomic
from qubolearn.problems.contract import Instances, Problem
from qubolearn.problems.data import load_npz

__all__ = ["read_inputs", "write_arrays", "write_instances"]


Write = Callable[[Path, bytes], None]


def write_instances(path: Path, instances: Instances, write: Write = write_atomic) -> None:
    """Write p, x_true and answer."""
    write_arrays(path, write, p=instances.p, x_true=instances.x_true.to(torch.uint8), answer=instances.answer)


def write_arrays(path: Path, write: Write = write_atomic, /, **arrays: Tensor | np.ndarray[Any, Any]) -> None:
    """Write tensors or arrays as a compressed .npz, whole or not at all; ``write_output`` follows links."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **{name: _plain(array) for name, array in arrays.items()})  # type: ignore[arg-type]
    write(path, buffer.getvalue())


def _plain(array: Tensor | np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array.cpu().numpy() if isinstance(array, Tensor) else array


def read_inputs(path: Path, problem: Problem) -> Tensor:
    """p ``[count, input_size]``, float32, of a file; wrong shapes and non-finite numbers are refused."""
    p = load_npz(path, {"p": ("f", 2)})["p"]
    if p.shape[0] == 0 or p.shape[1] != problem.input_size:
        raise QubolearnError(
            f"{path}: p has shape {list(p.shape)}, but {problem} takes [count >= 1, {problem.input_size}]; "
            "is it a file of another problem?"
        )
    return torch.from_numpy(p.astype(np.float32))
