"""Outlines from both forms of shapes2d."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quant_reproduction.datasets import shapes2d
from quant_reproduction.datasets.files import data_root
from quant_reproduction.datasets.shapes2d import NO_CLASS, load_outlines, read_compact, read_original
from qubolearn.errors import QubolearnError

SQUARE = [(0, 0), (1, 0), (1, 1), (0, 1)]  # counter-clockwise


def shape_json(points: list[tuple[float, float]]) -> str:
    corners = [{"x": x, "y": y} for x, y in points]
    return json.dumps({"points": corners, "triangles": [{"p1": 0, "p2": 1, "p3": 2}]})


def write_archive(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("Shapes/cellular_phone-2.json", shape_json([*SQUARE, SQUARE[0]]))
        archive.writestr("Shapes/Bone-1.json", shape_json([(0, 0), (0, 0), (0, 1), (1, 1), (1, 1)]))
        archive.writestr("Shapes/imageA7.json", shape_json(SQUARE))
        archive.writestr("__MACOSX/Shapes/._Bone-1.json", b"\0\1")
        archive.writestr("README.txt", "not a shape")


def test_originals_give_clean_clockwise_outlines(tmp_path: Path) -> None:
    write_archive(tmp_path / "ShapesJSON.zip")
    with zipfile.ZipFile(tmp_path / "ShapesJSON.zip") as archive:
        archive.extractall(tmp_path)
    outlines = read_original(tmp_path)
    assert outlines.names == ("Bone-1", "cellular_phone-2", "imageA7")
    assert outlines.classes == ("Bone", "cellular phone", NO_CLASS)
    assert outlines.points[0].tolist() == [[0, 0], [0, 1], [1, 1]]  # repeats dropped
    assert sorted(map(tuple, outlines.points[1].tolist())) == sorted(SQUARE)  # the closing point dropped
    for points in outlines.points:
        x, y = points.T
        assert x @ np.roll(y, -1) - y @ np.roll(x, -1) < 0


def test_folder_of_json_files_and_the_environment_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUBOLEARN_DATA", str(tmp_path))
    (tmp_path / "shapes2d").mkdir()
    with pytest.raises(QubolearnError, match="download"):
        load_outlines()
    (tmp_path / "shapes2d" / "image4.json").write_text(shape_json(SQUARE))
    (tmp_path / "shapes2d" / "._image4.json").write_bytes(b"what macOS adds")
    assert load_outlines().classes == ("artificial",)


def test_compact_form(tmp_path: Path) -> None:
    points = np.random.default_rng(0).random((7, 2), dtype=np.float32)
    file = tmp_path / "shapes2d_outlines.npz"
    arrays = {"points": points, "names": np.array(["a-1", "b"]), "classes": np.array(["a", "b"])}
    np.savez(file, **arrays, offsets=np.array([0, 3, 7]))
    outlines = read_compact(file)
    assert [len(outline) for outline in outlines.points] == [3, 4]
    assert np.array_equal(np.concatenate(outlines.points), points)
    np.savez(file, **arrays, offsets=np.array([0, 5, 7]))
    with pytest.raises(QubolearnError, match="2 outlines of 3 or more"):
        read_compact(file)


@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"points": [{"x": "a", "y": 1}]}',
        pytest.param("[" * 100_000, id="nested"),
        shape_json([(0, 0)] * 9),
        shape_json([(0, 0), (1, 1), (float("nan"), 0)]),
    ],
)
def test_bad_shapes_are_rejected(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad-1.json").write_text(text)
    with pytest.raises(QubolearnError, match=r"bad-1\.json"):
        read_original(tmp_path)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.recursive(
        st.none()
        | st.floats()
        | st.text(max_size=3)
        | st.fixed_dictionaries({"x": st.floats(), "y": st.floats()}),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("xyz"), inner),
    )
)
def test_any_json_is_read_or_rejected(tmp_path: Path, points: object) -> None:
    (tmp_path / "fuzz-1.json").write_text(json.dumps({"points": points}))
    with suppress(QubolearnError):
        read_original(tmp_path)


def test_download_checks_what_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, served: Callable[[Path], str]
) -> None:
    monkeypatch.setenv("QUBOLEARN_DATA", str(tmp_path / "data"))
    write_archive(tmp_path / "source.zip")
    (tmp_path / "broken.zip").write_text("not a zip file")
    with pytest.raises(QubolearnError, match=r"broken\.zip"):
        shapes2d.download(served(tmp_path / "broken.zip"))
    with pytest.raises(QubolearnError, match=r"source\.zip"):
        shapes2d.download(served(tmp_path / "source.zip"), sha256="0" * 64)
    shapes2d.download(served(tmp_path / "source.zip"))
    assert load_outlines().names == ("Bone-1", "cellular_phone-2", "imageA7")


@pytest.mark.skipif(not (data_root() / "shapes2d").is_dir(), reason="needs $QUBOLEARN_DATA/shapes2d")
def test_real_dataset() -> None:
    outlines = load_outlines()
    assert len(outlines.names) == 1256
    assert len(set(outlines.classes)) == 71
    assert {len(points) for points in outlines.points} <= set(range(100, 187))
    assert tuple(map(shapes2d._class_of, outlines.names)) == outlines.classes
