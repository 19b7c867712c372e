"""Hands and eyes for the page in the browser: click, press, slide, read; and runs that need no training."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from qubolearn import ExhaustiveSearch, Problem, solve
from qubolearn.files import write_tensors
from qubolearn.problems.sudoku import Sudoku, rule_qubo
from qubolearn.qubo import as_dense
from qubolearn.randomness import stream
from qubolearn.training.build import new_network
from qubolearn.training.recipes import Recipe
from qubolearn.training.runs import Run

Opened = Callable[..., Any]
BAD = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded", "Network.loadingFailed")
KEYS = {"Enter": 13, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Backspace": 8, "Tab": 9}


def make_run(folder: Path, problem: Problem, **recipe: Any) -> Run:
    """A run with the weights that its seed draws, and of Sudokus with the true rules: no training is needed here."""
    run = Run.create(folder, problem, Recipe(**recipe))
    network = new_network(problem, run.recipe)
    if isinstance(problem, Sudoku):
        rules = as_dense(rule_qubo(problem.size))[0] * 2.5
        network.load_state_dict({"linear": torch.zeros(problem.bits), "quadratic": rules})
    write_tensors(run.folder / "model.safetensors", network.state_dict())
    return run


def settle(browser: Any) -> None:
    """Wait until the page has solved what it was asked for."""
    end = time.monotonic() + 30
    while browser.evaluate("document.body.dataset.busy") != "false":
        assert time.monotonic() < end
        time.sleep(0.01)


def press(browser: Any, *keys: str) -> None:
    for key in keys:
        what = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS.get(key, ord(key[0]))}
        text = {"text": "\r" if key == "Enter" else key} if key == "Enter" or len(key) == 1 else {}
        browser.call("Input.dispatchKeyEvent", type="keyDown", **what, **text)
        browser.call("Input.dispatchKeyEvent", type="keyUp", **what)
    settle(browser)


def click(browser: Any, selector: str, across: float = 0.5, down: float = 0.5) -> None:
    """A real click of the mouse in an element, or in the middle of a line of the graph."""
    box = browser.evaluate(f"""(() => {{
      const found = document.querySelector({json.dumps(selector)});
      found.scrollIntoView({{ block: 'center', behavior: 'instant' }});
      const box = found.getBoundingClientRect();
      return [box.x, box.y, box.width, box.height];
    }})()""")
    at = {"x": box[0] + across * box[2], "y": box[1] + down * box[3], "button": "left", "clickCount": 1}
    for kind in ("mousePressed", "mouseReleased"):
        browser.call("Input.dispatchMouseEvent", type=kind, **at)
    settle(browser)


def text(browser: Any, selector: str) -> str:
    found: str = browser.evaluate(f"document.querySelector({json.dumps(selector)}).textContent")
    return found


def table(browser: Any) -> list[tuple[str, float]]:
    """Bits and energies of the table of lowest states, as people read them."""
    rows = browser.evaluate("""[...document.querySelectorAll('#spectrum tbody tr')].map(
      row => [row.querySelector('button').textContent, row.querySelector('.number').textContent])""")
    return [(bits, float(energy.replace("−", "-"))) for bits, energy in rows]


def check_against_library(
    browser: Any, run: Run, index: int, clamp: Sequence[int], off: Sequence[tuple[int, int]] = ()
) -> None:
    """The table must say what exhaustive search says of the same QUBO, with the same changes."""
    data = run.problem.sample(12, stream(0, "test"), "test")
    with torch.no_grad():
        A = as_dense(run.network()(data.p[index : index + 1])).clone()
    for i, j in off:
        A[0, i, j] = A[0, j, i] = 0
    found = solve(A, ExhaustiveSearch(), 12, clamp=torch.tensor([clamp]))
    said = table(browser)
    assert said[0][0] == "".join(str(int(bit)) for bit in found.states[0, 0])
    assert [energy for _, energy in said] == pytest.approx(found.energies[0].tolist(), rel=1e-3, abs=1e-3)


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
