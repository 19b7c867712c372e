"""Points on CAD models from both forms of ModelNet10, in files that the tests write."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from qubolearn.errors import QubolearnError
from qubolearn.paper.datasets import modelnet
from qubolearn.paper.datasets.modelnet import load_modelnet, read_compact, read_original
from qubolearn.problems.data import data_root

TETRAHEDRON = b"OFF\n4 4 6\n0 0 0\n1 0 0\n0 1 0\n0 0 1\n3 0 1 2\n3 0 1 3\n3 0 2 3\n3 1 2 3\n"


def write_archive(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for group in ("bed", "chair"):
            for number in (1, 2, 3):
                archive.writestr(f"ModelNet10/{group}/train/{group}_{number:04}.off", TETRAHEDRON)
            archive.writestr(f"ModelNet10/{group}/test/{group}_0004.off", TETRAHEDRON.replace(b"OFF\n", b"OFF"))
        archive.writestr("__MACOSX/ModelNet10/bed/train/._bed_0001.off", b"\0")
        archive.writestr("ModelNet10/README.txt", b"hello")


def test_archive_and_folder_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modelnet, "PER_CLASS", {"train": 2, "test": 5})
    write_archive(tmp_path / "ModelNet10.zip")
    from_zip = read_original(tmp_path / "ModelNet10.zip", points=50)
    assert from_zip.points.shape == (6, 50, 3)
    assert from_zip.names == ("bed_0004", "bed_0001", "bed_0002", "chair_0004", "chair_0001", "chair_0002")
    assert from_zip.classes == ("bed",) * 3 + ("chair",) * 3
    assert from_zip.is_test.tolist() == [True, False, False] * 2
    with zipfile.ZipFile(tmp_path / "ModelNet10.zip") as archive:
        archive.extractall(tmp_path / "unpacked")
    from_folder = read_original(tmp_path / "unpacked" / "ModelNet10", points=50)
    assert np.array_equal(from_zip.points, from_folder.points)
    assert from_zip.names == from_folder.names


def test_download_leaves_a_compact_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, served: Callable[[Path], str]
) -> None:
    monkeypatch.setenv("QUBOLEARN_DATA", str(tmp_path / "data"))
    write_archive(tmp_path / "source.zip")
    file = modelnet.download(served(tmp_path / "source.zip"), points=20)
    compact, original = read_compact(file), read_original(tmp_path / "source.zip", points=20)
    assert np.array_equal(compact.points, original.points)
    assert (compact.names, compact.classes) == (original.names, original.classes)
    assert load_modelnet().names == original.names
    assert {path.name for path in file.parent.iterdir()} == {"ModelNet10.zip", "modelnet10_points.npz"}


def test_bad_archives_are_refused(tmp_path: Path) -> None:
    (tmp_path / "broken.zip").write_text("no zip")
    with pytest.raises(QubolearnError, match="cannot read"):
        read_original(tmp_path / "broken.zip")
    with zipfile.ZipFile(tmp_path / "empty.zip", "w") as archive:
        archive.writestr("hello.txt", "")
    with pytest.raises(QubolearnError, match=r"no CLASS/train\|test/NAME\.off"):
        read_original(tmp_path / "empty.zip")


def test_bad_compact_files_are_refused(tmp_path: Path) -> None:
    good = {
        "points": np.zeros((2, 4, 3), np.float32),
        "labels": np.array([0, 1], np.int8),
        "is_test": np.array([True, False]),
        "names": np.array(["a", "b"]),
        "class_names": np.array(["x", "y"]),
    }
    np.savez(tmp_path / "good.npz", **good)
    assert read_compact(tmp_path / "good.npz").classes == ("x", "y")
    for change in ({"labels": np.array([0, 2], np.int8)}, {"names": np.array(["a"])}, {"points": np.zeros((2, 4, 2))}):
        np.savez(tmp_path / "bad.npz", **{**good, **change})
        with pytest.raises(QubolearnError, match=r"bad\.npz"):
            read_compact(tmp_path / "bad.npz")


@pytest.mark.skipif(not (data_root() / "modelnet10").is_dir(), reason="needs $QUBOLEARN_DATA/modelnet10")
def test_real_dataset() -> None:
    clouds = load_modelnet()
    assert clouds.points.shape[1:] == (1024, 3)
    assert len(set(clouds.classes)) == 10
    assert 0 < clouds.is_test.sum() < len(clouds.names)
