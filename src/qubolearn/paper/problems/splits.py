"""Which shapes are trained on and which are held out: without copies across, even over the classes, for everyone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from qubolearn.errors import QubolearnError
from qubolearn.randomness import derive_seed

__all__ = ["split_by_class"]


def split_by_class(
    classes: Sequence[str],
    sizes: Mapping[str, int],
    name: str,
    number: int = 0,
    alike: np.ndarray[Any, Any] | None = None,
    pools: Mapping[str, Sequence[int]] | None = None,
) -> dict[str, list[int]]:
    """Indices into ``classes`` for each split of ``sizes``, no index in two of them.

    Shapes are put in random order within their class, and each split in turn takes every so manyth of those that are
    left, so that a class has the same share in every split, and a later split's size never changes an earlier one.

    Args:
        classes: of all shapes.
        sizes: how many shapes each split has; the first one chooses first.
        name, number: the seed.
        alike: ``[N, N]``, which shapes are copies of each other: those of a chosen shape are left to no later split.
        pools: the shapes that a split may take, where not all.

    >>> splits = split_by_class(["cat", "dog"] * 10, {"test": 4, "train": 10}, "example")
    >>> sorted(i % 2 for i in splits["test"]), len(set(splits["test"] + splits["train"]))
    ([0, 0, 1, 1], 14)
    """
    shuffled = np.random.default_rng(derive_seed(number, name, "splits")).permutation(len(classes))
    left = sorted(shuffled.tolist(), key=lambda index: classes[index])
    splits: dict[str, list[int]] = {}
    for split, size in sizes.items():
        pool = left if pools is None else [index for index in left if index in set(pools[split])]
        if size > len(pool):
            says = ", ".join(f"{size} {split}" for split, size in sizes.items())
            have = f"only {len(classes)}" if alike is None else f"{len(pool)} left for {split} without copies"
            raise QubolearnError(f"{says} shapes are {sum(sizes.values())}, but there are {have}; ask for fewer")
        splits[split] = [pool[(2 * i + 1) * len(pool) // (2 * size)] for i in range(size)]
        taken = set(splits[split])
        if alike is not None:
            taken |= set(np.flatnonzero(alike[splits[split]].any(axis=0)).tolist())
        left = [index for index in left if index not in taken]
    return splits
