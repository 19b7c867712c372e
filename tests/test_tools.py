"""Tools count lines, fill tables, check the site and read the pages that they use."""

import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


def tool(name: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(sys, "path", [str(ROOT / "tools"), *sys.path])
    return runpy.run_path(str(ROOT / "tools" / f"{name}.py"))


def test_tables_are_filled_and_links_are_relative_to_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = tool("tables", monkeypatch)
    text = "before\n<!-- table: benchmark-exact -->\nold\n<!-- end -->\nafter\n"
    filled = tables["fill"](text, ROOT / "docs/solvers.md")
    assert filled.startswith("before\n<!-- table: benchmark-exact -->\n| n | batch |")
    assert "old" not in filled
    assert "](../benchmarks/results/exact.json)" in filled
    assert tables["fill"](filled, ROOT / "docs/solvers.md") == filled


GOOD = '<img class="sphx-glr-single-img" src="a.png"><div class="highlight-Python"></div><a href="plot_1.ipynb">'


@pytest.mark.parametrize(
    ("example", "reference", "style", "found"),
    [
        (GOOD, '<dt id="qubolearn.fit">', "", 0),
        (GOOD[GOOD.index("<div") :], '<dt id="qubolearn.fit">', "", 1),  # no picture before the code
        (GOOD.replace("a.png", "https://elsewhere/a.png"), '<dt id="qubolearn.fit">', "", 1),
        (GOOD.replace("plot_1.ipynb", "plot_2.ipynb"), '<dt id="qubolearn.fit">', "", 1),
        (GOOD, '<dt id="qubolearn.fi">', "", 1),
        (GOOD, '<dt id="qubolearn.fit">', "@import '//elsewhere/font.css'", 1),
    ],
)
def test_the_site_check_finds_faults(
    example: str, reference: str, style: str, found: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gallery").mkdir()
    (tmp_path / "gallery/plot_1.html").write_text(example)
    (tmp_path / "gallery/plot_1.ipynb").write_text("{}")
    (tmp_path / "reference.html").write_text(reference)
    (tmp_path / "page.css").write_text(style)
    assert len(list(tool("site_check", monkeypatch)["wrong"](tmp_path, ["plot_1"], ["fit"]))) == found


def test_tables_of_the_pages_show_the_stored_results(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = [str(page) for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))]
    assert tool("tables", monkeypatch)["main"]([*pages, "--check"]) == 0
