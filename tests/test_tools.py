"""The tools."""

import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


def tool(name: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(sys, "path", [str(ROOT / "tools"), *sys.path])
    return runpy.run_path(str(ROOT / "tools" / f"{name}.py"))


def test_tables_are_filled_and_links_are_relative_to_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = tool("tables", monkeypatch)
    text = "before\n<!-- table: benchmark-exact -->\nold\n<!-- end -->\nafter\n"
    filled = tables["fill"](text, ROOT / "docs/solvers.md")
    assert filled.startswith("before\n<!-- table: benchmark-exact -->\n| n | batch |")
    assert "old" not in filled
    assert "](../benchmarks/results/exact.json)" in filled
    assert tables["fill"](filled, ROOT / "docs/solvers.md") == filled


def test_tables_of_the_pages_show_the_stored_results(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = [str(page) for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))]
    assert tool("tables", monkeypatch)["main"]([*pages, "--check"]) == 0
