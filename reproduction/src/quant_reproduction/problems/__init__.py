"""Problems, registered as entry points ``qubolearn.problems``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from qubolearn.errors import QubolearnError
from qubolearn.random import derive_seed


def check_range(problem: Any, low: float, high: float, *names: str) -> None:
    """Raise unless these options are from ``low`` to ``high``."""
    for name in names:
        value = getattr(problem, name)
        if not low <= value <= high:
            raise QubolearnError(f"expected {name} from {low:g} to {high:g}, got {value}")


def split_by_class(
    classes: Sequence[str],
    sizes: Mapping[str, int],
    name: str,
    number: int = 0,
    alike: np.ndarray[Any, Any] | None = None,
    pools: Mapping[str, Sequence[int]] | None = None,
) -> dict[str, list[int]]:
    """Return disjoint indices into ``classes`` for each split of ``sizes``.

    Shapes are shuffled within their class, and each split takes evenly spaced ones of the rest.
    Copies (``alike``, ``[N, N]``) of a chosen shape are in no later split.
    """
    shuffled = np.random.default_rng(derive_seed(number, name, "splits")).permutation(len(classes))
    left = sorted(shuffled.tolist(), key=lambda index: classes[index])
    splits: dict[str, list[int]] = {}
    for split, size in sizes.items():
        pool = left if pools is None else [index for index in left if index in set(pools[split])]
        if size > len(pool):
            raise QubolearnError(f"expected at most {len(pool)} {split} shapes of {len(classes)}, got {size}")
        splits[split] = [pool[(2 * i + 1) * len(pool) // (2 * size)] for i in range(size)]
        taken = set(splits[split])
        if alike is not None:
            taken |= set(np.flatnonzero(alike[splits[split]].any(axis=0)).tolist())
        left = [index for index in left if index not in taken]
    return splits
