"""Points on CAD models from both forms of ModelNet10, and OFF meshes."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quant_reproduction.datasets import modelnet
from quant_reproduction.datasets.files import data_root
from quant_reproduction.datasets.modelnet import (
    Mesh,
    load_modelnet,
    read_compact,
    read_off,
    read_original,
    sample_surface,
)
from qubolearn.errors import QubolearnError

TETRAHEDRON = b"OFF\n4 4 6\n0 0 0\n1 0 0\n0 1 0\n0 0 1\n3 0 1 2\n3 0 1 3\n3 0 2 3\n3 1 2 3\n"


def write_archive(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for group in ("bed", "chair"):
            for number in (1, 2, 3):
                archive.writestr(f"ModelNet10/{group}/train/{group}_{number:04}.off", TETRAHEDRON)
            archive.writestr(f"ModelNet10/{group}/test/{group}_0004.off", TETRAHEDRON.replace(b"OFF\n", b"OFF"))
        archive.writestr("__MACOSX/ModelNet10/bed/train/._bed_0001.off", b"\0")
        archive.writestr("ModelNet10/README.txt", b"hello")


def test_original_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modelnet, "PER_CLASS", {"train": 2, "test": 5})
    write_archive(tmp_path / "ModelNet10.zip")
    with zipfile.ZipFile(tmp_path / "ModelNet10.zip") as archive:
        archive.extractall(tmp_path / "unpacked")
    found = read_original(tmp_path / "unpacked", points=50)
    assert found.points.shape == (6, 50, 3)
    assert found.names == ("bed_0004", "bed_0001", "bed_0002", "chair_0004", "chair_0001", "chair_0002")
    assert found.classes == ("bed",) * 3 + ("chair",) * 3
    assert found.is_test.tolist() == [True, False, False] * 2
    with pytest.raises(QubolearnError, match="empty"):
        read_original(tmp_path / "empty")


def test_download_writes_a_compact_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, served: Callable[[Path], str]
) -> None:
    monkeypatch.setenv("QUBOLEARN_DATA", str(tmp_path / "data"))
    (tmp_path / "data" / "modelnet10").mkdir(parents=True)
    with pytest.raises(QubolearnError, match="download"):
        load_modelnet()
    write_archive(tmp_path / "source.zip")
    file = modelnet.download(served(tmp_path / "source.zip"), points=20)
    compact, original = read_compact(file), read_original(tmp_path / "data" / "modelnet10" / "original", points=20)
    assert np.array_equal(compact.points, original.points)
    assert (compact.names, compact.classes) == (original.names, original.classes)
    assert load_modelnet().names == original.names


def test_bad_compact_files_are_rejected(tmp_path: Path) -> None:
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


CORNERS = [(x, y, z) for x in (0, 1) for y in (0, 1) for z in (0, 1)]
QUADS = ["4 0 1 3 2", "4 4 5 7 6", "4 0 1 5 4", "4 2 3 7 6", "4 0 2 6 4", "4 1 3 7 5"]
CUBE = "\n".join(["OFF", "8 6 0", *(f"{x} {y} {z}" for x, y, z in CORNERS), *QUADS, ""]).encode()


@pytest.mark.parametrize(
    "text",
    [
        CUBE,
        CUBE.replace(b"OFF\n", b"OFF"),
        CUBE.replace(b"\n", b"\r\n"),
        CUBE.replace(b"OFF\n", b"OFF # a cube\n\n# of side 1\n"),
        CUBE.replace(b"4 0 1 3 2", b"4 0 1 3 2 255 0 0"),
    ],
)
def test_spellings_of_one_mesh(text: bytes) -> None:
    mesh = read_off(text)
    assert mesh.vertices.tolist() == [list(map(float, corner)) for corner in CORNERS]
    assert mesh.faces.shape == (12, 3)
    area = np.linalg.norm(
        np.cross(*(mesh.vertices[mesh.faces[:, i]] - mesh.vertices[mesh.faces[:, 0]] for i in (1, 2)))
    )
    assert area > 0


def test_points_are_uniform_on_the_surface() -> None:
    """Two triangles in the plane, areas 1/2 and 3/2: shares, means and second moments in closed form."""
    vertices = np.array([(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 5), (1, 0, 5), (0, 3, 5)], float)
    points = sample_surface(Mesh(vertices, np.array([(0, 1, 2), (3, 4, 5)])), 200_000, np.random.default_rng(0))
    low, high = points[points[:, 2] == 0], points[points[:, 2] == 5]
    assert len(low) + len(high) == 200_000
    assert len(low) / 200_000 == pytest.approx(1 / 4, abs=0.005)
    np.testing.assert_allclose(low.mean(0), (1 / 3, 1 / 3, 0), atol=0.01)
    np.testing.assert_allclose(high.mean(0), (1 / 3, 1, 5), atol=0.01)
    assert (low[:, 0] ** 2).mean() == pytest.approx(1 / 6, abs=0.01)
    assert (low[:, :2].sum(1) <= 1 + 1e-12).all()
    assert (low[:, :2] >= 0).all()


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"PLY\n3 1 0",
        b"OFF\n9999999999999 1 0\n0 0 0\n",
        b"OFF\n3 1 0\n0 0 0\n1 0 0\n0 1\n3 0 1 2\n",
        b"OFF\n3 1 0\n0 0 0\n1 0 0\n0 nan 0\n3 0 1 2\n",
        b"OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 3\n",
        b"OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n4 0 1 2\n",
    ],
)
def test_bad_meshes_are_rejected(text: bytes) -> None:
    with pytest.raises(QubolearnError, match=r"mesh\.off"):
        read_off(text, "mesh.off")


def test_meshes_without_a_surface_are_rejected() -> None:
    with pytest.raises(QubolearnError, match="area, got 0"):
        sample_surface(Mesh(np.zeros((3, 3)), np.array([(0, 1, 2)])), 5, np.random.default_rng(0))


@settings(max_examples=200, deadline=None)
@given(st.integers(0, len(CUBE) - 1), st.binary(max_size=4), st.integers(0, 8))
def test_any_damage_gives_our_error_or_a_mesh(where: int, patch: bytes, cut: int) -> None:
    with suppress(QubolearnError):
        mesh = read_off(CUBE[:where] + patch + CUBE[where + cut :])
        assert mesh.faces.max() < len(mesh.vertices)
