"""Structures of tensors, validated instances, and arrays as a problem."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Generator, Tensor
from torch.utils.data import DataLoader, Dataset

from qubolearn.data.contract import Instances, Problem, RightAnswers, Split, check_bits
from qubolearn.errors import QubolearnError
from qubolearn.qubo.sparse import SparseQubo, on_checked_graph
from qubolearn.random import stream


def map_tensors(function: Callable[[Tensor], Any], structure: Any) -> Any:
    """Apply a function to every tensor of a nested structure; keep other objects.

    >>> map_tensors(torch.exp, {"nodes": torch.zeros(2), "edges": (torch.zeros(1), None)})
    {'nodes': tensor([1., 1.]), 'edges': (tensor([1.]), None)}
    """
    if isinstance(structure, Tensor):
        return function(structure)
    if isinstance(structure, SparseQubo):
        linear, quadratic = function(structure.linear), function(structure.quadratic)
        return on_checked_graph(linear, structure.edges.to(linear.device), quadratic)
    if isinstance(structure, Mapping):
        return {name: map_tensors(function, part) for name, part in structure.items()}
    if isinstance(structure, (tuple, list)):
        parts = [map_tensors(function, part) for part in structure]
        return type(structure)(*parts) if hasattr(structure, "_fields") else type(structure)(parts)
    return structure


def tensors_of(structure: Any) -> Iterator[Tensor]:
    found: list[Tensor] = []
    map_tensors(lambda tensor: found.append(tensor) or tensor, structure)  # type: ignore[func-returns-value]
    return iter(found)


def count_rows(structure: Any, what: str = "p") -> int:
    """Return the common number of rows; raise if they differ."""
    lengths = {len(tensor) if tensor.ndim else 0 for tensor in tensors_of(structure)}
    if len(lengths) != 1:
        raise QubolearnError(f"the tensors of {what} have {sorted(lengths)} rows; expected equal numbers")
    return lengths.pop()


def as_tensors(structure: Any) -> Any:
    """Convert NumPy arrays to tensors, and floats to float32; raise for others."""
    if isinstance(structure, np.ndarray) and structure.dtype.kind in "biufc":
        structure = torch.from_numpy(np.require(structure, requirements=["C", "W"]))
    elif isinstance(structure, Mapping):
        return {name: as_tensors(part) for name, part in structure.items()}
    elif isinstance(structure, (tuple, list)):
        return tuple(as_tensors(part) for part in structure)
    if isinstance(structure, SparseQubo):
        return structure.to(torch.float32)
    if isinstance(structure, Tensor):
        if structure.is_complex():
            raise QubolearnError(f"a tensor of {structure.dtype}; pass real and imaginary parts as columns")
        return structure.float() if structure.is_floating_point() else structure
    what = f"array of {structure.dtype}" if isinstance(structure, np.ndarray) else type(structure).__name__
    raise QubolearnError(f"expected a tensor or array of numbers, got {what}; use numpy.asarray(..., float)")


def make_instances(p: Any, x: Any, answer: Any = None, right: RightAnswers | None = None) -> Instances:
    """Return validated instances in float32; integers in a structure p stay."""
    p, x = as_tensors(p), as_tensors(x)
    if not isinstance(x, Tensor) or x.ndim != 2 or x.shape[1] < 1:
        raise QubolearnError(f"x must be an array of bits [N, n], got {list(getattr(x, 'shape', []))}")
    if isinstance(p, Tensor):
        p = p.float() if p.ndim == 2 else p
    if (count := count_rows(p)) != len(x):
        raise QubolearnError(f"p has {count} instances, but x has {len(x)}; expected one row per instance")
    check_bits(x)
    x = x.float()
    if right is not None:
        check_bits(right.states, "right.states")
        right = RightAnswers(right.states.float(), right.valid.bool())
        if right.states.shape[::2] != x.shape or right.valid.shape != right.states.shape[:2]:
            raise QubolearnError(
                f"right answers are states {list(right.states.shape)} and valid {list(right.valid.shape)}; "
                f"expected [{len(x)}, t, {x.shape[1]}] and [{len(x)}, t]"
            )
        if not bool(right.valid.any(1).all()):
            raise QubolearnError(f"instance {int((~right.valid.any(1)).nonzero()[0])} has no right answer")
    return Instances(p, x, x if answer is None else as_tensors(answer), right)


class Arrays(Problem):
    """Arrays as a problem: inputs p ``[N, m]`` and the bits x ``[N, n]`` of their solutions.

    Args:
        p: NumPy or torch, ``[N, m]``, or a structure of arrays with N rows that the network accepts.
        x: the bits, 0 and 1, ``[N, n]``.
        validation: the instances to hold out for validation: a fraction below 1, or a number.
        test: the instances to hold out for testing: a fraction or a number, too.
        seed: the seed of the split.
        answer: the solutions before encoding ``[N, ...]``, for :meth:`score` of a subclass.
        right: all right answers, if instances have several.

    >>> import numpy as np
    >>> data = Arrays(np.random.rand(100, 5), np.random.rand(100, 3) < 0.5, validation=0.2)
    >>> data, data.size("train"), data.size("validation")
    (Arrays(100 instances, m=5, n=3), 80, 20)
    """

    name: ClassVar[str] = "arrays"

    def __init__(
        self,
        p: Any,
        x: Any,
        *,
        validation: float = 0.1,
        test: float = 0.0,
        seed: int = 0,
        answer: Any = None,
        right: RightAnswers | None = None,
    ) -> None:
        self.instances = make_instances(p, x, answer, right)
        count = len(self.instances.x_true)
        sizes = [_size(share, count, what) for share, what in ((validation, "validation"), (test, "test"))]
        if sum(sizes) >= count:
            raise QubolearnError(f"validation={validation} and test={test} take all {count} instances")
        order = torch.randperm(count, generator=stream(seed, "arrays"))
        held_out, tested, trained = torch.split(order, [*sizes, count - sum(sizes)])
        self._rows: dict[str, Tensor] = {"train": trained, "validation": held_out, "test": tested}

    @property
    def input_size(self) -> int:
        p = self.instances.p
        if not isinstance(p, Tensor) or p.ndim != 2:
            raise QubolearnError("p is a structure, not an array [N, m]; do not pass inputs= to the network")
        return p.shape[1]

    @property
    def bits(self) -> int:
        return self.instances.x_true.shape[1]

    def size(self, split: Split) -> int:
        """Return the number of instances of a split."""
        return len(self._rows[split])

    def whole(self, split: Split) -> Instances:
        """Return all instances of a split."""
        return self.instances.rows(self._rows[split])

    def sample(self, count: int, generator: Generator, split: Split = "train") -> Instances:
        """Draw ``count`` different instances of a split in random order."""
        rows = self._rows[split]
        if count > len(rows):
            raise QubolearnError(f"{count} {split} instances requested, but there are only {len(rows)}")
        chosen = torch.randperm(len(rows), generator=generator, device=generator.device)[:count].cpu()
        return self.instances.rows(rows[chosen]).to(generator.device)

    def __repr__(self) -> str:
        p = self.instances.p
        m = f"m={p.shape[1]}, " if isinstance(p, Tensor) and p.ndim == 2 else ""
        return f"Arrays({len(self.instances.x_true)} instances, {m}n={self.bits})"


def _size(share: float, count: int, what: str) -> int:
    if not share >= 0 or (share >= 1 and share != int(share)):
        raise QubolearnError(f"{what}={share}; expected a fraction below 1 or a number of instances")
    return round(share * count) if share < 1 else int(share)


def pair_of(item: Sequence[Any]) -> Instances:
    """Return (p, x) or (p, x, answer) as instances."""
    pair = isinstance(item, (tuple, list)) and len(item) in (2, 3)
    if not pair and not isinstance(item, Instances):
        raise QubolearnError(f"the data yields {type(item).__name__}; expected pairs of inputs and bits")
    return make_instances(*item)


def iter_instances(data: Any) -> Iterator[Instances]:
    """Yield data as batches of instances."""
    if isinstance(data, Instances) or (isinstance(data, (tuple, list)) and len(data) == 2):
        yield make_instances(*data)
    elif isinstance(data, DataLoader):
        yield from map(pair_of, data)
    elif isinstance(data, Dataset):
        yield from map(pair_of, DataLoader(data, 256))
    else:
        kinds = "a Problem, (p, x), a Dataset or a DataLoader"
        raise QubolearnError(f"data is a {type(data).__name__}; expected {kinds}")
