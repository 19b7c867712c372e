"""The explorer's page as a file: small, safe, alone, at every width, with a name for every control, and its picture."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from browser_actions import Opened, make_run, settle, slide, text

from qubolearn import Instances, Problem, pretrained
from qubolearn.explore import page

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


# --- windows and readers


def test_screenshot(browser: Any, tmp_path: Path) -> None:
    """The picture of the documentation: `make explorer` puts it there."""
    out = tmp_path / "page.html"
    out.write_text(page(pretrained("matching"))[0], encoding="utf-8")
    browser.open(out, 1280, 900)
    settle(browser)
    slide(browser, "sweeps", 6)
    slide(browser, "temperature", 55)
    height = browser.evaluate("Math.ceil(document.querySelector('main').getBoundingClientRect().bottom) + 24")
    png = browser.page.screenshot(full_page=True, clip={"x": 0, "y": 0, "width": 1280, "height": height})
    assert png.startswith(b"\x89PNG")
    assert 20_000 < len(png) < 200_000  # an empty page is smaller
    if folder := os.environ.get("QUBOLEARN_SCREENSHOTS"):
        Path(folder, "explorer.png").write_bytes(png)
