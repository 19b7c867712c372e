"""Tables and the figure of ``qubolearn benchmark curves``, from a small result file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qubolearn.cli import main
from qubolearn.errors import QubolearnError
from qubolearn.paper.report.curves import choices_table, curves_table, sweeps_table
from qubolearn.solvers.auto import CHOICES


def written(folder: Path) -> Path:
    def record(n: int, solver: str, best: float | None, near: float) -> dict[str, object]:
        return {"family": "dense", "n": n, "solver": solver, "best": best, "near": near}

    records = [
        {"solver": "OpenJij", "missing": "not installed; pip install openjij"},
        {**record(16, "annealing", 0.002, 0.001), "best_effort": 256, "near_effort": 64},
        {**record(16, "neal", 0.0034, 0.0005), "version": "1.2"},
        record(64, "annealing", 0.5, 0.25),
        {**record(64, "neal", None, 123.4), "version": "1.2"},
    ]
    (folder / "benchmarks").mkdir()
    result = {"records": records, "machine": "a machine", "versions": {"qubolearn": "0"}}
    (folder / "benchmarks" / "curves.json").write_text(json.dumps(result))
    return folder


def test_the_best_of_each_row_is_bold_and_what_failed_is_a_dash(tmp_path: Path) -> None:
    lines = curves_table("best")(written(tmp_path)).splitlines()
    assert lines[0] == "| QUBO | n | annealing | neal |"
    assert lines[2:4] == ["| dense | 16 | **0.002** | 0.0034 |", "| dense | 64 | **0.5** | – |"]
    assert "neal 1.2. OpenJij: not installed; pip install openjij." in lines[-1]
    assert "| dense | 64 | **0.25** | 123 |" in curves_table("near")(tmp_path)


def test_sweeps_are_those_of_annealing(tmp_path: Path) -> None:
    lines = sweeps_table(written(tmp_path)).splitlines()
    assert lines[2:4] == ["| dense | 16 | 256 | 64 |", "| dense | 64 | – | – |"]


def test_the_choices_of_auto_are_those_of_the_code(tmp_path: Path) -> None:
    table = choices_table(tmp_path)
    assert all(f"`{choice.solver}`" in table for choice in CHOICES)


def test_the_figure_is_drawn_from_the_file(tmp_path: Path) -> None:
    folder = str(written(tmp_path) / "benchmarks")
    assert main(["benchmark", "curves", "--figure", str(tmp_path / "c.svg"), "--out", folder]) == 0
    assert (tmp_path / "c.svg").read_bytes().startswith(b"<?xml")
    assert main(["benchmark", "exact", "--figure", str(tmp_path / "c.svg"), "--out", folder]) == 2
    with pytest.raises(QubolearnError, match="run: qubolearn benchmark curves --out"):
        curves_table("best")(tmp_path / "nowhere")
