"""The command line of the report."""

import json
from pathlib import Path

import pytest

from quant_reproduction.cli import main


def test_writes_the_page_and_prints_the_summary(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "page.html"
    assert main(["report", "--results", str(results), "--seeds", "3", "--out", str(out), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert "<!doctype html>" in out.read_text()
    assert printed["out"] == str(out)
    assert printed["cells"]["a"]["better"] + printed["cells"]["a"]["worse"] > 0
    assert printed["done"] < printed["jobs"]


def test_bad_input_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = str(tmp_path / "nothing")
    assert main(["report", "--results", missing]) == 2
    error = capsys.readouterr().err
    assert missing in error
    assert error.count("\n") == 1
