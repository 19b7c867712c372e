"""Streams of random numbers."""

from __future__ import annotations

from itertools import product

import pytest

from qubolearn.errors import QubolearnError
from qubolearn.random import derive_seed, stream


def test_no_two_paths_share_a_stream() -> None:
    """("train",) and ("train", 0) once did."""
    parts = ["train", "test", "weights", "solver", 0, 1, 2**32 - 1]
    paths = [path for length in range(5) for path in product(parts, repeat=length)]
    seeds = {derive_seed(3, *path) for path in paths}
    assert len(seeds) == len(paths)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("train", 0), 405196350438031772),
        (("train", 3), 783308178886146965),
        (("weights",), 7095406515538963518),
        (("validation",), 345422854056211472),
        (("test",), 7186022957869142853),
        (("solver", 0), 3126854975036179543),
        (("pointset", "train", 5), 2773024755093306002),
    ],
)
def test_streams_that_results_were_made_with_stay(path: tuple[str | int, ...], value: int) -> None:
    assert derive_seed(7, *path) == value


def test_seeds_of_all_sizes_differ() -> None:
    seeds = [0, 1, 2**32, 2**32 + 1, 2**63, 2**64 - 1]
    assert len({derive_seed(seed, "train", 1) for seed in seeds}) == len(seeds)


@pytest.mark.parametrize(("seed", "path"), [(2**64, ()), (-1, ()), (0, (2**32,)), (0, ("train", -1))])
def test_what_would_share_a_stream_is_rejected(seed: int, path: tuple[str | int, ...]) -> None:
    with pytest.raises(QubolearnError, match="an integer"):
        stream(seed, *path)
