"""Tables of README and docs."""

from __future__ import annotations

from pathlib import Path

import pytest

from quant_reproduction.cli import main
from quant_reproduction.datasets.files import data_folder
from quant_reproduction.report import tables
from quant_reproduction.report.tables import fill
from qubolearn.errors import QubolearnError

ROOT = Path(__file__).parents[2]


def test_tables_are_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    pages = {page.stem: str(page) for page in sorted((ROOT / "docs").glob("*.md"))}
    try:
        data_folder("shapes2d")
    except QubolearnError:  # errata.md computes one number from shapes2d
        del pages["errata"]
    assert main(["tables", *pages.values(), "--results", str(ROOT / "results"), "--check"]) == 0, (
        capsys.readouterr().err
    )


def test_a_table_without_results_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(QubolearnError, match="randgraph"):
        fill("<!-- table: randgraph -->\n<!-- end -->", tmp_path)
    with pytest.raises(QubolearnError, match="did you mean randgraph"):
        fill("<!-- table: randgrap -->\n<!-- end -->", tmp_path)


def test_a_stale_table_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "TABLES", {"x": lambda report: "| 1 |\n"})
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- table: x -->\n| 2 |\n<!-- end -->\nafter\n")
    assert main(["tables", str(page), "--check"]) == 2
    assert "| 2 |" in page.read_text()
    assert main(["tables", str(page)]) == 0
    assert page.read_text() == "before\n<!-- table: x -->\n| 1 |\n<!-- end -->\nafter\n"
