"""Nested structures of tensors: what a user's own network takes as p, a graph or a picture, row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from qubolearn.errors import QubolearnError

__all__ = ["as_tensors", "count_rows", "map_tensors", "tensors_of"]


def map_tensors(function: Callable[[Tensor], Any], structure: Any) -> Any:
    """The same structure of tuples, lists, mappings and None with ``function`` applied to every tensor in it.

    >>> map_tensors(lambda t: t + 1, {"nodes": torch.zeros(2), "edges": (torch.ones(1), None)})
    {'nodes': tensor([1., 1.]), 'edges': (tensor([2.]), None)}

    Anything else that a user's network may take, such as a graph object, must have a method ``to`` and is handed on
    as it is.
    """
    if isinstance(structure, Tensor):
        return function(structure)
    if isinstance(structure, Mapping):
        return {name: map_tensors(function, part) for name, part in structure.items()}
    if isinstance(structure, tuple) and hasattr(structure, "_fields"):
        return type(structure)(*(map_tensors(function, part) for part in structure))
    if isinstance(structure, (tuple, list)):
        return type(structure)(map_tensors(function, part) for part in structure)
    return structure


def tensors_of(structure: Any) -> Iterator[Tensor]:
    """All tensors of a structure, in order."""
    found: list[Tensor] = []
    map_tensors(found.append, structure)
    return iter(found)


def count_rows(structure: Any, what: str = "p") -> int:
    """The length of the first dimension, which all tensors of the structure share; otherwise a QubolearnError."""
    lengths = {len(tensor) if tensor.ndim else 0 for tensor in tensors_of(structure)}
    if len(lengths) != 1:
        raise QubolearnError(
            f"the tensors of {what} have {sorted(lengths)} rows; want one number of instances in the first dimension"
        )
    return lengths.pop()


def as_tensors(structure: Any) -> Any:
    """numpy arrays as tensors and float64 as float32, at any depth; a structure without tensors is an error."""
    import numpy as np

    if isinstance(structure, np.ndarray) and structure.dtype.kind in "biuf":
        structure = torch.from_numpy(np.ascontiguousarray(structure))
    elif isinstance(structure, Mapping):
        return {name: as_tensors(part) for name, part in structure.items()}
    elif isinstance(structure, (tuple, list)):
        return tuple(as_tensors(part) for part in structure)
    if isinstance(structure, Tensor):
        if structure.is_complex():
            raise QubolearnError(f"a tensor of {structure.dtype}; give real and imaginary parts as columns")
        return structure.float() if structure.dtype in (torch.float64, torch.float16, torch.bfloat16) else structure
    what = f"array of {structure.dtype}" if isinstance(structure, np.ndarray) else type(structure).__name__
    raise QubolearnError(f"{what} where a tensor or an array of numbers is wanted; lists become one by numpy.asarray")
