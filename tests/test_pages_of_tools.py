"""Pages that tools write say what the result files say, and the check of the built site can fail."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


def tool(name: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(sys, "path", [str(ROOT / "tools"), *sys.path])
    return runpy.run_path(str(ROOT / "tools" / f"{name}.py"))


def test_the_newcomers_page_is_of_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    known = json.loads((ROOT / "results/newcomer.json").read_text())
    assert tool("newcomer", monkeypatch)["page"](known) == (ROOT / "docs/newcomer.md").read_text()
    assert all(sum(step["seconds"] for step in each["steps"]) < 600 for each in known.values())


def test_the_table_of_releases_is_of_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    check, page = tool("release_check", monkeypatch), (ROOT / "docs/release.md").read_text()
    checked = json.loads((ROOT / "results/release.json").read_text())["checked"]
    assert check["filled"](page, checked) == page
    newer = {**checked[0], "date": "2030-01-01"}
    assert check["merged"](checked, [newer]) == [newer, *checked[1:]]
    assert check["filled"](page, [newer]) != page


def test_every_notebook_was_run_and_showed_a_picture() -> None:
    """`make notebooks` writes the file."""
    ran = json.loads((ROOT / "results/notebooks.json").read_text())["notebooks"]
    assert sorted(ran) == sorted(path.stem for path in (ROOT / "gallery").glob("plot_*.py"))
    assert all(each["pictures"] and "error" not in each for each in ran.values())


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
def test_the_site_check_sees_what_is_wrong(
    example: str, reference: str, style: str, found: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gallery").mkdir()
    (tmp_path / "gallery/plot_1.html").write_text(example)
    (tmp_path / "gallery/plot_1.ipynb").write_text("{}")
    (tmp_path / "reference.html").write_text(reference)
    (tmp_path / "page.css").write_text(style)
    assert len(list(tool("site_check", monkeypatch)["wrong"](tmp_path, ["plot_1"], ["fit"]))) == found
