"""The table of Willow's ten keypoints says what the records say."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean

import pytest

from qubolearn.errors import QubolearnError
from qubolearn.paper.report.tables import fill
from qubolearn.paper.report.willow10 import PUBLISHED, willow10_table

ROOT = Path(__file__).parents[3]
CLASSES = ("car", "duck", "face", "motorbike", "winebottle")


def record(method: str, split: int, accuracy: float) -> dict[str, object]:
    scores = {"accuracy": accuracy, **dict.fromkeys(CLASSES, accuracy)}
    return {"method": method, "split": split, "pairs_a_class": 7, "training_seconds": 3.0, **scores}


def test_means_and_spreads_are_over_splits(tmp_path: Path) -> None:
    (tmp_path / "benchmarks").mkdir()
    records = [record("quant", 0, 0.9), record("diag", 0, 0.5), record("quant", 1, 1.0), record("diag", 1, 0.5)]
    result = {"records": records, "machine": "one", "versions": {"qubolearn": "9"}}
    (tmp_path / "benchmarks" / "willow10.json").write_text(json.dumps(result))
    table = willow10_table(tmp_path)
    assert "| quant | 95.0 ± 7.1 | 90.0 to 100.0 | 95.0 |" in table
    assert "| diag | 50.0 ± 0.0 |" in table
    assert "2 random splits, 7 test pairs" in table


def test_a_missing_file_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(QubolearnError, match="qubolearn benchmark willow10"):
        willow10_table(tmp_path)


def test_published_means_are_those_of_their_classes() -> None:
    for numbers in PUBLISHED.values():
        assert mean(numbers[:-1]) == pytest.approx(numbers[-1], abs=6e-4)


def test_the_page_is_up_to_date() -> None:
    page = (ROOT / "docs" / "willow10.md").read_text(encoding="utf-8")
    assert fill(page, ROOT / "results") == page
