"""The explorer's page as a file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from browser_actions import Opened, click, make_run, settle, slide, text

from qubolearn import Instances, Problem, QubolearnError, pretrained
from qubolearn.explore import SCORED, page
from qubolearn.explore.views import view
from qubolearn.random import stream
from qubolearn.runs import Run

# --- the file


@pytest.mark.parametrize("name", ["chip", "large", "dense", "sudoku4", "sudoku9"])
def test_opens_from_disk_without_errors_loads_nothing_and_is_small(
    opened: Opened, pages: dict[str, Path], name: str
) -> None:
    browser = opened(name)
    assert browser.errors == []
    assert [url.partition(":")[0] for url in browser.requests if not url.startswith("data:")] == ["file"]
    assert pages[name].stat().st_size < 2_000_000


@dataclass(frozen=True)
class Named(Problem):
    """A problem whose option is untrusted text."""

    name: ClassVar[str] = "named"
    text: str = ""
    input_size: ClassVar[int] = 2
    bits: ClassVar[int] = 3

    def sample(self, count: int, generator: torch.Generator, split: str = "train") -> Instances:
        p = torch.rand(count, 2, generator=generator)
        x = (torch.rand(count, 3, generator=generator) > 0.5).float()
        return Instances(p, x, x)


def test_untrusted_text_stays_text(browser: Any, tmp_path: Path) -> None:
    evil = "</script><script>window.hit = 1</script><img src=x onerror='window.hit = 1'>\u2028&lt;"
    run = make_run(tmp_path / "run", Named(evil), topology="dense", layers=2, hidden=4)
    out = tmp_path / "page.html"
    out.write_text(page(run, 3)[0], encoding="utf-8")
    browser.open(out)
    settle(browser)
    assert browser.evaluate("window.hit") is None
    assert evil in text(browser, "h1")
    assert browser.errors == []


# --- views of p


VIEWS: dict[str, tuple[Any, str]] = {
    "image": ("image", "canvas"),
    "color": (lambda p: {"image": np.zeros((4, 5, 3))}, "canvas"),
    "table": ("table", "table"),
    "own table": (lambda p: {"table": [["<b>", "entry"], ["first", p[0]]]}, "table"),
    "graph": ("graph", "svg"),
    "own graph": (lambda p: {"graph": (["a", "b"], [(0, 1, -2.0)])}, "svg"),
}


@pytest.mark.parametrize("name", VIEWS)
def test_p_is_shown_as_requested(browser: Any, runs: dict[str, Run], tmp_path: Path, name: str) -> None:
    show, element = VIEWS[name]
    text, data = page(runs["dense"], 3, show=show)
    (out := tmp_path / "page.html").write_text(text, encoding="utf-8")
    browser.open(out)
    settle(browser)
    assert browser.errors == []
    for kind in ("canvas", "table", "svg"):
        assert browser.page.locator(f"#input-panel {kind}").is_visible() == (kind == element)
    if name == "graph":  # maxcut: an entry of p per pair of the six nodes
        p = runs["dense"].problem.sample(SCORED, stream(0, "test"), "test").p[0]
        assert [edge[:2] for edge in data["instances"][0]["view"]["edges"]] == [
            list(pair) for pair, edge in zip(combinations(range(6), 2), p, strict=True) if edge
        ]
        assert browser.page.locator("#input-panel svg line").count() == int(p.sum())
    if name == "own table":
        assert browser.page.locator("#input-panel table th").first.text_content() == "<b>"
        browser.open(out, 390)
        settle(browser)
        assert browser.page.locator("#input-panel table th").last.is_visible()


@pytest.mark.parametrize(
    ("show", "named"),
    [
        ("movie", "movie"),
        (lambda p: None, "None"),
        (lambda p: {"image": np.zeros(3)}, "[3]"),
        (lambda p: {"image": np.zeros((100, 100))}, "4096"),
        (lambda p: {"graph": (["a"], [(0, 1)])}, "1 nodes"),
        (lambda p: {"table": 3}, "3"),
    ],
)
def test_other_views_are_rejected(show: Any, named: str, runs: dict[str, Run]) -> None:
    with pytest.raises(QubolearnError) as caught:
        page(runs["dense"], 2, show=show)
    assert named in str(caught.value)


def test_graphs_of_a_graph_body_and_of_matrices_are_equal() -> None:
    matrix = np.triu(np.arange(16.0).reshape(4, 4) * (np.arange(16).reshape(4, 4) % 3 > 0), 1)
    pairs = matrix[np.triu_indices(4, 1)]
    shown = view("graph", matrix)
    assert [(i, j) for i, j, _ in shown["edges"]] == list(zip(*matrix.nonzero(), strict=True))
    assert view("graph", pairs) == shown
    assert view("graph", (np.arange(4.0)[:, None], pairs[:, None])) == {
        **shown,
        "names": ["0", "1", "2", "3"],
    }
    with pytest.raises(QubolearnError, match="5"):
        view("graph", np.zeros(5))


def test_pages_of_shipped_models_have_wrong_answers() -> None:
    for name in ("knapsack", "maxcut"):
        data = page(pretrained(name))[1]
        hits = [one["hit"] for one in data["instances"]]
        assert len(hits) == 24
        assert 1 <= hits.count(False) < 12
        assert data["scored"][1] == SCORED


# --- windows and readers


def test_screenshot(browser: Any, tmp_path: Path) -> None:
    """Make the picture of the documentation: `make explorer`."""
    out = tmp_path / "page.html"
    out.write_text(page(pretrained("knapsack"))[0], encoding="utf-8")
    browser.open(out, 1280, 900)
    settle(browser)
    slide(browser, "sweeps", 6)
    slide(browser, "temperature", 55)
    click(browser, '.bit[data-bit="3"]')
    browser.page.mouse.move(0, 0)
    browser.evaluate("scrollTo(0, 0)")
    height = browser.evaluate("Math.ceil(document.querySelector('main').getBoundingClientRect().bottom) + 24")
    png = browser.page.screenshot(full_page=True, clip={"x": 0, "y": 0, "width": 1280, "height": height})
    assert png.startswith(b"\x89PNG")
    assert 20_000 < len(png) < 200_000  # an empty page is smaller
    if folder := os.environ.get("QUBOLEARN_SCREENSHOTS"):
        Path(folder, "explorer.png").write_bytes(png)
