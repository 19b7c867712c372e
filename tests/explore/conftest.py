"""Runs, pages and a browser."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # browser_actions.py
from browser_actions import Opened, make_run, settle

from qubolearn.cli import main
from qubolearn.problems import make_problem
from qubolearn.problems.sudoku import Sudoku
from qubolearn.runs import Run


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    folder, small = tmp_path_factory.mktemp("runs"), {"layers": 2, "hidden": 16}
    return {
        "chip": make_run(folder / "chip", make_problem("randgraph", k=4), topology="chimera", **small),
        "large": make_run(folder / "large", make_problem("randgraph", k=8), topology="pegasus", **small),
        "dense": make_run(folder / "dense", make_problem("maxcut", nodes=6), topology="dense", **small),
        "sudoku4": make_run(folder / "sudoku4", Sudoku(size=4, hints=8), network="shared", topology="dense"),
        "sudoku9": make_run(folder / "sudoku9", Sudoku(size=9), network="shared", topology="dense"),
    }


@pytest.fixture(scope="session")
def pages(runs: dict[str, Run], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder, made = tmp_path_factory.mktemp("pages"), {}
    for name, run in runs.items():
        made[name] = folder / f"{name}.html"
        count = "4" if name == "sudoku9" else "12"
        assert main(["explore", str(run.folder), "--out", str(made[name]), "--instances", count]) == 0
    return made


@pytest.fixture
def opened(browser: Any, pages: dict[str, Path]) -> Opened:
    def open_page(name: str, width: int = 1280) -> Any:
        browser.open(pages[name], width)
        settle(browser)
        return browser

    return open_page
