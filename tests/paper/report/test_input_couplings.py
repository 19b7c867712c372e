"""Tables of scene and snakes say what their files say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scipy.stats import binomtest

from qubolearn.errors import QubolearnError
from qubolearn.paper.report.input_couplings import scene_table, snakes_table

HEAD = {"machine": "a machine", "versions": {"qubolearn": "9"}}


def test_means_spreads_and_the_paired_test_are_those_of_the_records(tmp_path: Path) -> None:
    def record(split: int, method: str, accuracy: float, **more: float) -> dict[str, object]:
        return {"split": split, "method": method, "accuracy": accuracy, "accuracies": [accuracy], "pictures": 9, **more}

    chain = {"only_quant": 30.0, "only_rival": 10.0}
    records = [record(0, "quant", 70.0), record(0, "chain of SVMs", 60.0, **chain)]
    records += [record(1, "quant", 74.0), record(1, "chain of SVMs", 64.0, only_quant=1.0, only_rival=2.0)]
    with pytest.raises(QubolearnError, match="qubolearn benchmark scene"):
        scene_table(tmp_path)
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "scene.json").write_text(json.dumps({"records": records, **HEAD}))
    quant, rival = scene_table(tmp_path).splitlines()[2:4]
    assert [cell.strip() for cell in quant.split("|")[1:-1]] == ["quant", "70.0", "72.0 ± 2.8", "–"]
    assert f"30 : 10 pictures, p = {binomtest(30, 40).pvalue:.2g}" in rival  # of the given split alone


def test_cells_snakes_and_grids_are_shown(tmp_path: Path) -> None:
    shared = {"snake": 99.0, "all_right": 50.0, "training_seconds": 3.0}
    records = [{"seed": seed, "method": "quant", "accuracy": 99.0 + seed, **shared} for seed in (0, 1)]
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "snakes.json").write_text(json.dumps({"records": records, **HEAD}))
    assert "| quant | 99.50 ± 0.71 | 99.00 ± 0.00 | 50.0 ± 0.0 | 3 |" in snakes_table(tmp_path)
