"""Which shapes are trained on, and which are held out: disjoint, even over the classes, the same for everyone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from qubolearn.errors import QubolearnError
from qubolearn.randomness import derive_seed

__all__ = ["split_by_class"]


def split_by_class(classes: Sequence[str], sizes: Mapping[str, int], name: str) -> dict[str, list[int]]:
    """Indices into ``classes`` for each split of ``sizes``, no index in two of them.

    Shapes are put in random order within their class, and each split in turn takes every so manyth of those that are
    left, so that a class has the same share in every split, and a later split's size never changes an earlier one.
    ``name`` is the seed.

    >>> splits = split_by_class(["cat", "dog"] * 10, {"test": 4, "train": 10}, "example")
    >>> sorted(i % 2 for i in splits["test"]), len(set(splits["test"] + splits["train"]))
    ([0, 0, 1, 1], 14)
    """
    wanted = sum(sizes.values())
    if wanted > len(classes):
        says = ", ".join(f"{size} {split}" for split, size in sizes.items())
        raise QubolearnError(f"{says} shapes are {wanted}, but there are only {len(classes)}; ask for fewer")
    shuffled = np.random.default_rng(derive_seed(0, name, "splits")).permutation(len(classes))
    left = sorted(shuffled.tolist(), key=lambda index: classes[index])
    splits = {}
    for split, size in sizes.items():
        splits[split] = [left[(2 * i + 1) * len(left) // (2 * size)] for i in range(size)]
        taken = set(splits[split])
        left = [index for index in left if index not in taken]
    return splits
