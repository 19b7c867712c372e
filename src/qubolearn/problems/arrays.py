"""The user's own data as a problem: p and x as arrays, split once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor
from torch.utils.data import DataLoader, Dataset

from qubolearn.errors import QubolearnError
from qubolearn.problems.contract import Instances, Problem, RightAnswers, Split, check_bits
from qubolearn.problems.structures import as_tensors, count_rows
from qubolearn.randomness import stream

__all__ = ["Arrays", "make_instances", "pair_of", "whole_of"]


def make_instances(p: Any, x: Any, answer: Any = None, right: RightAnswers | None = None) -> Instances:
    """Arrays or tensors as checked instances.

    Args:
        p: what the network sees, ``[N, m]``, numpy or torch, or a structure (tuple, list, mapping) of such arrays.
        x: bits of the solutions ``[N, n]``, 0 and 1 of any dtype.
        answer: the solutions before they became bits ``[N, ...]``; by default x.
        right: all right answers, where instances have several.

    Returns:
        Instances in float32. Integers in p stay integers, as a user's own network may want them; for p ``[N, m]`` they
        become float32.

    Raises:
        QubolearnError: where lengths differ, x holds anything but 0 and 1, or p is not made of arrays.
    """
    p, x = as_tensors(p), as_tensors(x)
    if not isinstance(x, Tensor) or x.ndim != 2 or x.shape[1] < 1:
        raise QubolearnError(f"x must be an array of bits [N, n], got {list(getattr(x, 'shape', []))}")
    if isinstance(p, Tensor):
        p = p.float() if p.ndim == 2 else p
    if (count := count_rows(p)) != len(x):
        raise QubolearnError(f"p has {count} instances, but x has {len(x)}; both need one row for each")
    check_bits(x)
    x = x.float()
    if right is not None:
        check_bits(right.states, "right.states")
        right = RightAnswers(right.states.float(), right.valid.bool())
        if right.states.shape[::2] != x.shape or right.valid.shape != right.states.shape[:2]:
            raise QubolearnError(
                f"right answers are states {list(right.states.shape)} and valid {list(right.valid.shape)}; "
                f"want [{len(x)}, t, {x.shape[1]}] and [{len(x)}, t]"
            )
        if not bool(right.valid.any(1).all()):
            raise QubolearnError(f"instance {int((~right.valid.any(1)).nonzero()[0])} has no right answer at all")
    return Instances(p, x, x if answer is None else as_tensors(answer), right)


class Arrays(Problem):
    """Two arrays as a problem: p ``[N, m]`` and the bits x ``[N, n]`` of their solutions.

    Args:
        p: numpy or torch, ``[N, m]``, or a structure of arrays with N rows that the network takes.
        x: the bits, 0 and 1, ``[N, n]``.
        validation: how many instances to hold out for validation: a share below 1, or a number.
        test: how many to hold out for testing, likewise.
        seed: decides which instances these are.
        answer: what the bits stand for, ``[N, ...]``; only :meth:`score` of a subclass uses it.
        right: all right answers, where instances have several.

    Raises:
        QubolearnError: where lengths differ, x holds anything but 0 and 1, or no row is left to train on.

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
            raise QubolearnError(f"validation={validation} and test={test} leave none of {count} instances to train on")
        order = torch.randperm(count, generator=stream(seed, "arrays"))
        held_out, tested, trained = torch.split(order, [*sizes, count - sum(sizes)])
        self._rows: dict[str, Tensor] = {"train": trained, "validation": held_out, "test": tested}

    @property
    def input_size(self) -> int:
        p = self.instances.p
        if not isinstance(p, Tensor) or p.ndim != 2:
            raise QubolearnError("p is no [N, m] array but a structure; give the network no inputs= to standardise")
        return p.shape[1]

    @property
    def bits(self) -> int:
        return self.instances.x_true.shape[1]

    def size(self, split: Split) -> int:
        """How many instances a split has."""
        return len(self._rows[split])

    def whole(self, split: Split) -> Instances:
        """All instances of a split."""
        return self.instances.rows(self._rows[split])

    def sample(self, count: int, generator: Generator, split: Split = "train") -> Instances:
        """``count`` different instances of a split in random order; more than there are is an error."""
        rows = self._rows[split]
        if count > len(rows):
            raise QubolearnError(f"{count} {split} instances asked for, but there are only {len(rows)}")
        chosen = torch.randperm(len(rows), generator=generator, device=generator.device)[:count].cpu()
        return self.instances.rows(rows[chosen]).to(generator.device)

    def __repr__(self) -> str:
        p = self.instances.p
        m = f"m={p.shape[1]}, " if isinstance(p, Tensor) and p.ndim == 2 else ""
        return f"Arrays({len(self.instances.x_true)} instances, {m}n={self.bits})"


def _size(share: float, count: int, what: str) -> int:
    if not share >= 0 or (share >= 1 and share != int(share)):
        raise QubolearnError(f"{what}={share}; want a share below 1 or a number of instances")
    return round(share * count) if share < 1 else int(share)


def pair_of(item: Sequence[Any]) -> Instances:
    """(p, x) or (p, x, answer) of a Dataset or DataLoader as instances."""
    if isinstance(item, Instances):
        return make_instances(*item)
    if not isinstance(item, (tuple, list)) or len(item) not in (2, 3):
        raise QubolearnError(f"the data yields {type(item).__name__}; want pairs (p, x): what the network sees, bits")
    return make_instances(*item)


def whole_of(data: Any) -> Iterator[Instances]:
    """All instances of data that is no problem, in pieces: of (p, x), Instances, a Dataset or a DataLoader."""
    if isinstance(data, Instances) or (isinstance(data, (tuple, list)) and len(data) == 2):
        yield make_instances(*data)
    elif isinstance(data, DataLoader):
        yield from map(pair_of, data)
    elif isinstance(data, Dataset):
        yield from map(pair_of, DataLoader(data, 256))
    else:
        raise QubolearnError(f"data is a {type(data).__name__}; want a Problem, (p, x), a Dataset or a DataLoader")
