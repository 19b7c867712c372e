"""Finding data, and forgetting what was read."""

from __future__ import annotations

from pathlib import Path

import pytest

from quant_reproduction.datasets import files
from quant_reproduction.datasets.files import data_folder
from qubolearn.errors import QubolearnError


def test_data_folder_follows_the_variable_and_says_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUBOLEARN_DATA", str(tmp_path))
    with pytest.raises(QubolearnError, match=r"set QUBOLEARN_DATA .* of shapes/, or run X"):
        data_folder("shapes", "run X")
    (tmp_path / "shapes").mkdir()
    assert data_folder("shapes") == tmp_path / "shapes"
    monkeypatch.delenv("QUBOLEARN_DATA")
    assert files.data_root() == Path.home() / ".cache" / "qubolearn"


def test_what_is_cached_belongs_to_its_folder_and_can_be_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    @files.cached_data(4)
    def load(name: str) -> str:
        made.append((files.data_root() / name).read_text())
        return made[-1]

    for folder in ("old", "new"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "set").write_text(folder)
    for folder in ("old", "new", "old"):
        monkeypatch.setenv("QUBOLEARN_DATA", str(tmp_path / folder))
        assert load("set") == folder
    assert made == ["old", "new"]
    files.clear_data_cache()
    assert load("set") == "old"
    assert made == ["old", "new", "old"]
