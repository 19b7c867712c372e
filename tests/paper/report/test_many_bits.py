"""The table and the figure of losses for many bits, from a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qubolearn.cli import main
from qubolearn.paper.report.many_bits import losses_table


def record(kind: str, n: int, loss: str, right: float) -> dict[str, object]:
    return {"kind": kind, "n": n, "loss": loss, "right": right, "right_spread": 2.0, "seconds": 1.5, "seeds": 3}


def test_losses_are_in_table_and_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "benchmarks"
    assert main(["benchmark", "losses", "--figure", str(tmp_path / "x.svg"), "--out", str(folder)]) == 2
    assert "qubolearn benchmark losses" in capsys.readouterr().err
    folder.mkdir()
    records = [
        record("bits", 16, "pseudo", 40.0),
        record("bits", 32, "pseudo", 30.0),
        record("groups", 32, "exact", 90),
    ]
    found = {"records": records, "machine": "a machine", "versions": {"qubolearn": "0"}}
    (folder / "losses.json").write_text(json.dumps(found))
    first, second = losses_table(tmp_path).splitlines()[2:4]
    assert first == "| bits | pseudo | 40 ± 2, 1.5 s | 30 ± 2, 1.5 s |"
    assert second == "| one-hot groups of four | exact | – | 90 ± 2, 1.5 s |"
    assert main(["benchmark", "losses", "--figure", str(tmp_path / "x.svg"), "--out", str(folder)]) == 0
    assert "<svg" in (tmp_path / "x.svg").read_text()
    assert main(["benchmark", "exact", "--figure", str(tmp_path / "x.svg")]) == 2
