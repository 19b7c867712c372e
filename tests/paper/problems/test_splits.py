"""Splits of shapes: disjoint, even over classes, stable."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qubolearn.errors import QubolearnError
from qubolearn.paper.problems.splits import split_by_class


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from("abcd"), min_size=12, max_size=60), st.integers(1, 4), st.integers(1, 8))
def test_splits_are_disjoint_and_of_the_right_size(classes: list[str], test: int, train: int) -> None:
    splits = split_by_class(classes, {"test": test, "train": train}, "x")
    assert {name: len(set(chosen)) for name, chosen in splits.items()} == {"test": test, "train": train}
    assert not set(splits["test"]) & set(splits["train"])
    assert set(splits["test"] + splits["train"]) <= set(range(len(classes)))


def test_every_class_has_its_share() -> None:
    classes = ["a"] * 60 + ["b"] * 30 + ["c"] * 10
    splits = split_by_class(classes, {"test": 10, "train": 45}, "x")
    assert Counter(classes[i] for i in splits["test"]) == {"a": 6, "b": 3, "c": 1}
    shares = Counter(classes[i] for i in splits["train"])
    assert abs(shares["a"] - 27) <= 1
    assert abs(shares["b"] - 13.5) <= 1.5


def test_a_larger_training_set_leaves_the_test_set_alone() -> None:
    classes = [str(i % 7) for i in range(100)]
    small, large = (split_by_class(classes, {"test": 10, "train": size}, "x") for size in (20, 60))
    assert small["test"] == large["test"]
    assert small["test"] != split_by_class(classes, {"test": 10, "train": 20}, "y")["test"]


def test_too_many_shapes_are_refused() -> None:
    with pytest.raises(QubolearnError, match="2 test, 3 train shapes are 5, but there are only 4"):
        split_by_class("aabb", {"test": 2, "train": 3}, "x")


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 30))
def test_no_copy_is_on_two_sides(seed: int, copies: int) -> None:
    """Whichever shapes are copies of each other, none of a later split is a copy of an earlier split's."""
    rng = np.random.default_rng(seed)
    alike = np.eye(60, dtype=bool)
    for first, second in rng.integers(60, size=(copies, 2)):
        alike[first, second] = alike[second, first] = True
    splits = split_by_class("abc" * 20, {"test": 5, "validation": 4, "train": 10}, "x", seed, alike)
    assert [len(chosen) for chosen in splits.values()] == [5, 4, 10]
    for one, other in (("test", "validation"), ("test", "train"), ("validation", "train")):
        assert not alike[np.ix_(splits[one], splits[other])].any()


def test_numbers_are_different_splits_and_pools_are_kept_to() -> None:
    drawn = [split_by_class("ab" * 30, {"test": 6}, "x", number)["test"] for number in range(5)]
    assert len({tuple(chosen) for chosen in drawn}) == 5
    pools = {"test": range(10), "train": range(10, 60)}
    splits = split_by_class("ab" * 30, {"test": 4, "train": 20}, "x", 1, np.eye(60, dtype=bool), pools)
    assert max(splits["test"]) < 10 <= min(splits["train"])


def test_too_many_copies_are_refused() -> None:
    with pytest.raises(QubolearnError, match="0 left for train without copies"):
        split_by_class("aabb", {"test": 1, "train": 1}, "x", 1, np.ones((4, 4), bool))
