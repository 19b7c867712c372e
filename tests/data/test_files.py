"""Refusing damaged or hostile files with one line."""

from __future__ import annotations

import io
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qubolearn.data.files import load_npz
from qubolearn.errors import QubolearnError

WANTED = {"points": ("f", 2), "names": ("U", 1)}


def write_good(path: Path) -> None:
    np.savez_compressed(
        path, points=np.ones((3, 2), np.float32), names=np.array(["a", "b"]), other=np.zeros(5)
    )


def test_load_npz_reads_what_is_requested(tmp_path: Path) -> None:
    write_good(tmp_path / "good.npz")
    arrays = load_npz(tmp_path / "good.npz", WANTED)
    assert set(arrays) == {"points", "names"}
    assert arrays["points"].tolist() == [[1, 1]] * 3
    assert arrays["names"].tolist() == ["a", "b"]
    fortran = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    np.savez(tmp_path / "fortran.npz", points=fortran)
    assert load_npz(tmp_path / "fortran.npz", {"points": ("f", 2)})["points"].tolist() == fortran.tolist()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"names": np.array(["a"])}, "no array 'points'"),
        ({"points": np.ones(3), "names": np.array(["a"])}, "expected f with 2"),
        ({"points": np.ones((3, 2), int), "names": np.array(["a"])}, "is int64"),
        ({"points": np.array([[np.nan, 0]]), "names": np.array(["a"])}, "not finite"),
        ({"points": np.ones((3, 2)), "names": np.array([{"a": 1}], dtype=object)}, "Object arrays"),
    ],
)
def test_load_npz_rejects(tmp_path: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(QubolearnError, match=message):
        load_npz(tmp_path / "bad.npz", WANTED)


def test_load_npz_rejects_a_header_that_claims_more_than_there_is(tmp_path: Path) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (10**12, 2)}
    )
    with zipfile.ZipFile(tmp_path / "claim.npz", "w") as archive:
        archive.writestr("points.npy", header.getvalue())
    with pytest.raises(QubolearnError, match="claim"):
        load_npz(tmp_path / "claim.npz", {"points": ("f", 2)})


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=st.integers(0, 10_000), value=st.integers(0, 255), cut=st.integers(0, 2000))
def test_damaged_files_give_our_error_or_the_arrays(tmp_path: Path, where: int, value: int, cut: int) -> None:
    write_good(tmp_path / "good.npz")
    content = bytearray((tmp_path / "good.npz").read_bytes())
    content[where % len(content)] = value
    (tmp_path / "damaged.npz").write_bytes(content[: max(len(content) - cut, 0)] if cut % 2 else content)
    with suppress(QubolearnError):
        assert load_npz(tmp_path / "damaged.npz", WANTED)["points"].ndim == 2
