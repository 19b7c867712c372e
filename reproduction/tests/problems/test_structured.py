"""The readers of scene and snakes."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quant_reproduction.problems import structured
from quant_reproduction.problems.snakes import on_canvas, random_snakes
from quant_reproduction.problems.structured import convert, read_scene, read_snakes
from qubolearn.errors import QubolearnError


def small() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    scene = {f"X_{part}": rng.random((4, 3)) for part in ("train", "test")}
    scene |= {f"y_{part}": rng.integers(0, 2, (4, 6)).astype(float) for part in ("train", "test")}
    made = random_snakes(2, seed=3)
    cells = int(made.shape[0].prod())
    cut = [slice(0, cells), slice(cells, None)]
    images = [made.image[some].reshape(*size, 3) for some, size in zip(cut, made.shape, strict=True)]
    labels = [made.label[some].reshape(size) for some, size in zip(cut, made.shape, strict=True)]
    snakes = {"X_train": images[:1], "Y_train": labels[:1], "X_test": images[1:], "Y_test": labels[1:]}
    return {"scene": scene, "snakes": snakes}


def test_the_data_are_written_to_two_files(tmp_path: Path) -> None:
    data = small()
    folder = convert(data["scene"], data["snakes"], tmp_path)
    X, Y = read_scene(folder / "scene.npz")["test"]
    np.testing.assert_allclose(X, data["scene"]["X_test"], rtol=1e-6)
    np.testing.assert_array_equal(Y, data["scene"]["y_test"])
    codes, labels = on_canvas(read_snakes(folder / "snakes.npz")["train"], 10, 11)
    height, width = data["snakes"]["Y_train"][0].shape
    np.testing.assert_array_equal(labels[0, :height, :width], data["snakes"]["Y_train"][0])
    assert (codes[0, :height, :width] > 0).all()
    assert codes[0].count_nonzero() == height * width


def test_wrong_labels_and_lengths_are_named(tmp_path: Path) -> None:
    X, Y = np.zeros((3, 2), np.float32), np.zeros((3, 6), np.uint8)
    np.savez(tmp_path / "labels.npz", X_train=X, Y_train=Y, X_test=X, Y_test=Y + 2)
    with pytest.raises(QubolearnError, match="test labels 0 and 1, got 2"):
        read_scene(tmp_path / "labels.npz")
    np.savez(tmp_path / "length.npz", X_train=X, Y_train=Y[:2], X_test=X, Y_test=Y)
    with pytest.raises(QubolearnError, match=r"\[3, 2\], \[2, 6\]"):
        read_scene(tmp_path / "length.npz")
    made = random_snakes(2, seed=0)
    parts = {f"{part}_{name}": array for part in ("train", "test") for name, array in made._asdict().items()}
    np.savez(tmp_path / "short.npz", **{**parts, "test_label": made.label[:-1]})
    with pytest.raises(QubolearnError, match=f"{len(made.label)} test cells"):
        read_snakes(tmp_path / "short.npz")
    with pytest.raises(QubolearnError, match=r"scene\.npz"):
        read_scene(tmp_path / "scene.npz")


class RunsCode:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return eval, ("1 / 0",)


def test_pickles_of_the_archive_hold_arrays_only() -> None:
    kept = structured._read_arrays(pickle.dumps({"X": np.arange(6.0).reshape(2, 3)}, protocol=4))
    assert kept["X"].tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(pickle.UnpicklingError, match="eval"):
        structured._read_arrays(pickle.dumps({"X": RunsCode()}, protocol=4))
