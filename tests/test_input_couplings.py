"""Benchmarks of problems whose couplings depend on the input: what they record where there is no data folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from qubolearn.benchmarks import scene, snakes
from qubolearn.benchmarks.processes import records_of


def test_scene_and_snakes_run_without_a_data_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("QUBOLEARN_DATA", str(tmp_path))
    monkeypatch.setattr(scene, "chip_view", lambda A: {"bits": A.shape[-1]})
    monkeypatch.setattr(snakes, "chip_view", lambda A: {"bits": A.shape[-1]})
    found = {record["method"]: record for record in scene.records(quick=True)}
    assert found["quant"]["source"] == "generated"
    assert found["quant"]["accuracy"] > 50
    both = found["chain of SVMs"]
    difference = found["quant, mean of 1"]["accuracy"] - both["accuracy"]
    assert both["only_quant"] - both["only_rival"] == pytest.approx(difference / 100 * both["pictures"])
    (line,) = scene.rows(list(found.values()))
    assert line["rival"] is not None
    assert line["chip"] == {"bits": 6}
    records = list(snakes.records(quick=True))
    assert [record["method"] for record in records[:3]] == ["quant", "diag", "pure"]
    assert records[3]["method"].startswith("random forest")
    assert all(50 < record["accuracy"] <= 100 for record in records)
    (line,) = snakes.rows(records)
    assert line["chip"] is not None
    assert line["chip"]["bits"] % 11 == 0


def test_processes_make_the_same_records_in_order() -> None:
    tasks: Any = [[3, 1], [2], [5, 4]]  # sorted is a function that any process knows
    work: Any = sorted
    assert list(records_of(work, tasks, jobs=2)) == list(records_of(work, tasks)) == [1, 3, 2, 4, 5]
