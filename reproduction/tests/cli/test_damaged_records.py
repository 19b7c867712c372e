"""Damaged records: one line, no traceback."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from quant_reproduction.cli import main
from quant_reproduction.grid.entries import ENTRIES
from quant_reproduction.grid.jobs import Outcome
from qubolearn.errors import QubolearnError

RESULTS = Path(__file__).parents[2] / "results"
NAME = "alignment-2d.jsonl"


@pytest.mark.parametrize("entry", ["metrics", "seconds", "versions", "all"])
def test_a_damaged_record_is_named(entry: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in (NAME, "energies.jsonl", "qubits.jsonl"):  # the page takes seconds
        shutil.copy(RESULTS / name, tmp_path)
    first, *others = (tmp_path / NAME).read_text().splitlines()
    damaged = first[:40] if entry == "all" else json.dumps({**json.loads(first), entry: ["x"]})
    (tmp_path / NAME).write_text("".join(f"{line}\n" for line in (damaged, *others)))
    commands = [["report", "--results", str(tmp_path), "--out", str(tmp_path / "page.html")]]
    commands += [["reproduce", "--list", "--out", str(tmp_path)]] if entry == "all" else []
    for words in commands:
        assert main(words) == 2
        assert NAME in capsys.readouterr().err


def test_a_metric_that_is_not_a_number_is_named() -> None:
    entry = ENTRIES["randgraph"]
    view, job = entry.views[0], entry.jobs(1, False)[0]
    (place, *_) = view.places(job)
    metrics = {place.label: {name + place.suffix: "text" for name in view.metrics}}
    with pytest.raises(QubolearnError, match=r"randgraph\.jsonl"):
        view.cells([Outcome(job, {"metrics": metrics})])
