"""Promise 5, of whole commands."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import command_fuzzing
import pytest


def test_commands_on_damaged_files(tmp_path: Path) -> None:
    done = command_fuzzing.fuzz(tmp_path, 40, "short")
    assert set(done) == set(command_fuzzing.ON_RUNS)


@pytest.mark.parametrize(
    ("command", "entry", "value"),
    [
        ("plot", "accuracy", 1e308),  # beyond every axis: found by soak
        ("plot", "hamming_projected", ["x"] * 3),
        ("train", "seconds", 2**1200),
    ],
)
def test_entries_of_metrics_that_are_not_numbers(
    command: str, entry: str, value: Any, tmp_path: Path
) -> None:
    assert command_fuzzing.quietly(f"{command_fuzzing.TRAIN} {tmp_path}")[0] == 0
    records = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()][:-1]
    records[-1][entry] = value
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, records)))
    code, message = command_fuzzing.quietly(command_fuzzing.ON_RUNS[command].format(run=tmp_path))
    assert code == (2 if command == "plot" else 0), message
    assert message.count("\n") <= 1


@pytest.mark.soak
def test_thousands_of_commands_on_damaged_files(tmp_path: Path, figures: dict[str, Any]) -> None:
    words = [sys.executable, "-W", "error", command_fuzzing.__file__, "3000", "long", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    counts = json.loads(done.stdout)
    figures["commands on damaged files"] = counts
    assert sum(counts.values()) == 3000
