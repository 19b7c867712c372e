"""No number in README or docs is typed by hand: every table is what the result files say."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from qubolearn.cli import main
from qubolearn.errors import QubolearnError
from qubolearn.paper.grid.entries import ENTRIES
from qubolearn.paper.report.tables import fill

ROOT = Path(__file__).parents[3]


def test_tables_are_up_to_date(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    pages = ["README.md", *(str(page) for page in sorted(Path("docs").glob("*.md")))]
    assert main(["tables", *pages, "--check"]) == 0, capsys.readouterr().err


def test_a_table_without_results_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(QubolearnError, match="no results of randgraph"):
        fill("<!-- table: randgraph -->\n<!-- end -->", tmp_path)
    with pytest.raises(QubolearnError, match="did you mean randgraph"):
        fill("<!-- table: randgrap -->\n<!-- end -->", tmp_path)


def test_a_stale_table_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from qubolearn.paper.report import tables

    monkeypatch.setattr(tables, "TABLES", {"x": lambda results: "| 1 |\n"})
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- table: x -->\n| 2 |\n<!-- end -->\nafter\n")
    assert main(["tables", str(page), "--check"]) == 2
    assert "| 2 |" in page.read_text()
    assert main(["tables", str(page)]) == 0
    assert page.read_text() == "before\n<!-- table: x -->\n| 1 |\n<!-- end -->\nafter\n"


def test_every_record_is_found_from_the_page_of_records() -> None:
    page = ROOT / "docs" / "records.md"
    linked = {(page.parent / link).resolve() for link in re.findall(r"\]\((\.\./[^)]+\.json)\)", page.read_text())}
    stored = {path for path in (ROOT / "results").glob("*/*.json") if path.parent.name in ENTRIES}
    assert linked == stored


def test_links_to_records_lead_from_any_folder() -> None:
    text = "<!-- table: randgraph -->\n<!-- end -->"
    for docs in ("", "docs/"):
        assert f"]({docs}records.md#randgraph)" in fill(text, ROOT / "results", docs)


def test_links_to_files_of_results_lead_from_any_folder() -> None:
    text = "<!-- table: verify -->\n<!-- end -->"
    assert "](../results/verify.json)" in fill(text, ROOT / "results")
    assert "](results/verify.json)" in fill(text, ROOT / "results", "docs/")


def test_every_record_says_a_commit_of_this_history_that_nothing_was_changed_in() -> None:
    """So that a stranger can check out the code behind any number."""
    if shutil.which("git") is None or _git("rev-parse", "--is-shallow-repository") != "false":
        pytest.skip("needs the whole history of the repository")
    commits = set(_git("rev-list", "HEAD").split())
    records = [json.loads(path.read_text()) for item in ENTRIES for path in (ROOT / "results" / item).glob("*.json")]
    assert len(records) > 1000
    assert {record.get("commit") for record in records} <= commits
    assert not any(record.get("dirty") for record in records)


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
