"""Actions on the page in the browser."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from qubolearn import ExhaustiveSearch, Problem, solve
from qubolearn.explore import SCORED
from qubolearn.files import write_tensors
from qubolearn.problems.sudoku import Sudoku, rule_qubo
from qubolearn.qubo import as_dense
from qubolearn.random import stream
from qubolearn.recipes import Recipe, new_network
from qubolearn.runs import Run

Opened = Callable[..., Any]


def make_run(folder: Path, problem: Problem, **recipe: Any) -> Run:
    """Create an untrained run, or one with the rules of Sudoku."""
    run = Run.create(folder, problem, Recipe(**recipe))
    network = new_network(problem, run.recipe)
    if isinstance(problem, Sudoku):
        rules = as_dense(rule_qubo(problem.size))[0] * 2.5
        network.load_state_dict({"linear": torch.zeros(problem.bits), "quadratic": rules})
    write_tensors(run.folder / "model.safetensors", network.state_dict())
    return run


def settle(browser: Any) -> None:
    """Wait until the page has finished solving."""
    browser.page.locator("body[data-busy=false]").wait_for(state="attached")


def press(browser: Any, *keys: str) -> None:
    for key in keys:
        browser.page.keyboard.press(key)
    settle(browser)


def click(browser: Any, selector: str, across: float = 0.5, down: float = 0.5) -> None:
    """Click at a share of an element's box, without a hit test."""
    found = browser.page.locator(selector).first
    found.evaluate("element => element.scrollIntoView({ block: 'center', behavior: 'instant' })")
    box = found.bounding_box()
    browser.page.mouse.click(box["x"] + across * box["width"], box["y"] + down * box["height"])
    settle(browser)


def text(browser: Any, selector: str) -> str:
    found: str = browser.page.locator(selector).first.text_content()
    return found


def table(browser: Any) -> list[tuple[str, float]]:
    """Return bits and energies of the table of lowest states."""
    rows = browser.evaluate("""[...document.querySelectorAll('#spectrum tbody tr')].map(
      row => [row.querySelector('button').textContent, row.querySelector('.number').textContent])""")
    return [(bits, float(energy.replace("−", "-"))) for bits, energy in rows]


def check_against_library(
    browser: Any, run: Run, index: int, clamp: Sequence[int], off: Sequence[tuple[int, int]] = ()
) -> None:
    """Compare the table with exhaustive search."""
    data = run.problem.sample(SCORED, stream(0, "test"), "test")
    with torch.no_grad():
        A = as_dense(run.network()(data.p[index : index + 1])).clone()
    for i, j in off:
        A[0, i, j] = A[0, j, i] = 0
    found = solve(A, ExhaustiveSearch(), 12, clamp=torch.tensor([clamp]))
    shown = table(browser)
    assert shown[0][0] == "".join(str(int(bit)) for bit in found.states[0, 0])
    assert [energy for _, energy in shown] == pytest.approx(found.energies[0].tolist(), rel=1e-3, abs=1e-3)


def reads(browser: Any) -> list[float]:
    found: list[float] = browser.evaluate("state.energies")
    return found


def slide(browser: Any, name: str, value: int) -> None:
    browser.evaluate(f"""(() => {{
      const slider = document.getElementById('{name}');
      slider.value = {value};
      slider.dispatchEvent(new Event('input'));
    }})()""")
    settle(browser)


def grid(browser: Any) -> list[int]:
    found: list[int] = browser.evaluate(
        "[...document.querySelectorAll('#board input')].map(i => Number(i.value || i.placeholder))"
    )
    return found
