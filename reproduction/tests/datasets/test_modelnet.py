"""ModelNet10's compact form."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from quant_reproduction.datasets.files import data_root
from quant_reproduction.datasets.modelnet import load_modelnet, read_compact
from qubolearn.errors import QubolearnError


def test_missing_data_name_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUBOLEARN_DATA", str(tmp_path))
    (tmp_path / "modelnet10").mkdir()
    with pytest.raises(QubolearnError, match="modelnet10"):
        load_modelnet()


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
    wrong = {"labels": np.array([0, 2], np.int8), "names": np.array(["a"]), "points": np.zeros((2, 4, 2))}
    for change in ({name: value} for name, value in wrong.items()):
        np.savez(tmp_path / "bad.npz", **{**good, **change})
        with pytest.raises(QubolearnError, match=r"bad\.npz"):
            read_compact(tmp_path / "bad.npz")


@pytest.mark.skipif(not (data_root() / "modelnet10").is_dir(), reason="needs $QUBOLEARN_DATA/modelnet10")
def test_real_dataset() -> None:
    clouds = load_modelnet()
    assert clouds.points.shape[1:] == (1024, 3)
    assert len(set(clouds.classes)) == 10
    assert 0 < clouds.is_test.sum() < len(clouds.names)
