"""Promise 5, of whole commands: damaged files end in one line and exit code 2, or in a result, never in a traceback."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import commands
import pytest

from qubolearn.errors import QubolearnError
from qubolearn.paper.grid.entries import ENTRIES
from qubolearn.paper.grid.jobs import Outcome


def test_commands_on_damaged_files(tmp_path: Path) -> None:
    done = commands.fuzz(tmp_path, 40, "short")
    assert set(done) == {*commands.ON_RUNS, *commands.ON_RESULTS}


@pytest.mark.parametrize(
    ("command", "entry", "value"),
    [
        ("plot", "accuracy", "text"),
        ("plot", "accuracy", 1e308),  # beyond every axis: found by soak
        ("plot", "loss", -1e200),
        ("plot", "hamming", None),
        ("plot", "hamming_projected", ["x"] * 3),
        ("plot", "hamming", [1, 2]),
        ("plot", "couplings", [[1]]),
        ("plot", "couplings", [[1, 2], [3]]),
        ("plot", "loss", {}),
        ("plot", "step", 2**70),
        ("train", "seconds", "text"),
        ("train", "seconds", float("inf")),
        ("train", "seconds", 2**1200),
    ],
)
def test_entries_of_metrics_that_are_no_numbers(command: str, entry: str, value: Any, tmp_path: Path) -> None:
    assert commands.quietly([*commands.TRAIN, "--out", str(tmp_path)])[0] == 0
    records = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()][:-1]
    records[-1][entry] = value
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, records)))
    code, said = commands.quietly([word.format(run=tmp_path) for word in commands.ON_RUNS[command]])
    assert code == (2 if command == "plot" else 0), said
    assert said.count("\n") <= 1


def test_tables_of_a_binary_file(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_bytes(b"\xff\xfe\x00")
    code, said = commands.quietly(["tables", str(tmp_path / "page.md")])
    assert code == 2
    assert "it is no text" in said


@pytest.mark.parametrize("name", ["soak", "protections", "benchmarks/exact"])
def test_a_damaged_file_of_a_table_is_named(name: str, tmp_path: Path) -> None:
    target = tmp_path / f"{name}.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text('{"records": [{}], "protections": [{}], "figures": {"fuzzing": 1}}')
    page = tmp_path / "page.md"
    page.write_text(f"<!-- table: {name.replace('benchmarks/', 'benchmark-')} -->\n<!-- end -->\n")
    code, said = commands.quietly(["tables", str(page), "--results", str(tmp_path)])
    assert code == 2
    assert f"{target} is damaged" in said


@pytest.mark.parametrize("entry", ["metrics", "seconds", "versions", "all"])
def test_a_damaged_result_is_named(entry: str, tmp_path: Path) -> None:
    made = commands.Commands(tmp_path)
    name = next(each for each in made.records if each.startswith("alignment-2d"))
    record = json.loads((made.results / name).read_text())
    if entry != "all":
        record[entry] = ["x"]
    (made.results / name).write_text(json.dumps(record)[: 40 if entry == "all" else None])
    places = {"results": made.results, "page": made.page, "out": tmp_path / "out"}
    for command in ("report", "reproduce --list") if entry == "all" else ("report",):
        code, said = commands.quietly([word.format(**places) for word in commands.ON_RESULTS[command]])
        assert code == 2
        assert name in said


def test_a_result_with_a_metric_that_is_no_number_is_named() -> None:
    entry = ENTRIES["randgraph"]
    view, job = entry.views[0], entry.jobs(1, False)[0]
    (place, *_) = view.places(job)
    metrics = {place.label: {name + place.suffix: "text" for name in view.metrics}}
    with pytest.raises(QubolearnError, match=f"randgraph/{re.escape(job.filename)} is damaged"):
        view.cells([Outcome(job, {"metrics": metrics})])


@pytest.mark.soak
def test_thousands_of_commands_on_damaged_files(tmp_path: Path, figures: dict[str, Any]) -> None:
    words = [sys.executable, "-W", "error", commands.__file__, "3000", "long", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    counts = json.loads(done.stdout)
    figures["commands on damaged files"] = counts
    assert sum(counts.values()) == 3000
