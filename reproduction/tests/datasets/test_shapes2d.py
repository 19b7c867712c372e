"""The compact form of shapes2d."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from quant_reproduction.datasets.files import data_root
from quant_reproduction.datasets.shapes2d import load_outlines, read_compact
from qubolearn.errors import QubolearnError


def test_missing_data_name_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUBOLEARN_DATA", str(tmp_path))
    with pytest.raises(QubolearnError, match=r"docs/data\.md"):
        load_outlines()
    (tmp_path / "shapes2d").mkdir()
    with pytest.raises(QubolearnError, match=r"shapes2d_outlines\.npz"):
        load_outlines()


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


@pytest.mark.skipif(not (data_root() / "shapes2d").is_dir(), reason="needs $QUBOLEARN_DATA/shapes2d")
def test_real_dataset() -> None:
    outlines = load_outlines()
    assert len(outlines.names) == 1256
    assert len(set(outlines.classes)) == 71
    assert {len(points) for points in outlines.points} <= set(range(100, 187))
