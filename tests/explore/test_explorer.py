"""The explorer in a real browser: what it solves is compared with the library, controls are used as people do."""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

from qubolearn import ExhaustiveSearch, Instances, Problem, make_problem, preset, solve, train
from qubolearn.cli import main
from qubolearn.explore import page, rendered
from qubolearn.files import write_tensors
from qubolearn.problems.sudoku import Sudoku, rule_qubo
from qubolearn.problems.sudoku_grids import keeps_rules
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


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    folder = tmp_path_factory.mktemp("runs")
    return {
        "chip": make_run(folder / "chip", make_problem("randgraph", k=4), topology="chimera", layers=2, hidden=16),
        "large": make_run(folder / "large", make_problem("randgraph", k=8), topology="pegasus", layers=2, hidden=16),
        "dense": make_run(folder / "dense", make_problem("maxcut", nodes=6), topology="dense", layers=2, hidden=16),
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


# --- the file


@pytest.mark.parametrize("name", ["chip", "large", "dense", "sudoku4", "sudoku9"])
def test_opens_from_disk_without_errors_loads_nothing_and_is_small(
    opened: Opened, pages: dict[str, Path], name: str
) -> None:
    browser = opened(name)
    assert [event for event in browser.events if event["method"] in BAD] == []
    requests = [e["params"]["request"]["url"] for e in browser.events if e["method"] == "Network.requestWillBeSent"]
    assert [url.partition(":")[0] for url in requests if not url.startswith("data:")] == ["file"]
    assert pages[name].stat().st_size < 2_000_000


@dataclass(frozen=True)
class Named(Problem):
    """A problem whose option is a text of a stranger's."""

    name: ClassVar[str] = "named"
    text: str = ""
    input_size: ClassVar[int] = 2
    bits: ClassVar[int] = 3

    def sample(self, count: int, generator: torch.Generator, split: str = "train") -> Instances:
        p = torch.rand(count, 2, generator=generator)
        x = (torch.rand(count, 3, generator=generator) > 0.5).float()
        return Instances(p, x, x)


def test_texts_of_strangers_stay_texts(browser: Any, tmp_path: Path) -> None:
    evil = "</script><script>window.hit = 1</script><img src=x onerror='window.hit = 1'>\u2028&lt;"
    run = make_run(tmp_path / "run", Named(evil), topology="dense", layers=2, hidden=4)
    out = tmp_path / "page.html"
    out.write_text(page(run, 3)[0], encoding="utf-8")
    browser.open(out)
    settle(browser)
    assert browser.evaluate("window.hit") is None
    assert evil in text(browser, "h1")
    assert [event for event in browser.events if event["method"] in BAD] == []


def test_weak_couplers_are_left_out_where_there_are_too_many(
    runs: dict[str, Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qubolearn.explore.numbers.MOST_COUPLERS", 10)
    data = page(runs["chip"], 5)[1]
    with torch.no_grad():
        A = runs["chip"].network()(runs["chip"].problem.sample(5, stream(0, "test"), "test").p)
    strength = A.abs().amax(0).triu(1)
    kept = strength.flatten().topk(10).indices
    assert set(zip(data["rows"], data["columns"], strict=True)) == {(int(k) // 8, int(k) % 8) for k in kept}
    assert data["dropped"] == 6


def test_fewer_instances_where_they_would_be_too_many_numbers(
    runs: dict[str, Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qubolearn.explore.numbers.MOST_NUMBERS", 1000)
    assert len(page(runs["chip"], 50)[1]["instances"]) == 1000 // (8 + 8 + 16 + 256)
    assert len(page(runs["sudoku4"], 50)[1]["instances"]) == 1000 // (64 + 64 + 16)  # couplers are there once


def test_a_long_p_is_cut_and_said_so(
    browser: Any, runs: dict[str, Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qubolearn.explore.numbers.MOST_INPUTS", 100)
    (tmp_path / "page.html").write_text(page(runs["chip"], 2)[0], encoding="utf-8")
    browser.open(tmp_path / "page.html")
    assert text(browser, "#input-note") == "The first 100 of 256 numbers."


# --- instances


def test_leafs_by_buttons_arrow_keys_and_marks(opened: Opened, runs: dict[str, Run]) -> None:
    browser = opened("chip")
    check_against_library(browser, runs["chip"], 0, [-1] * 8)
    click(browser, "#next")
    check_against_library(browser, runs["chip"], 1, [-1] * 8)
    browser.evaluate("document.activeElement.blur()")
    press(browser, "ArrowRight")
    assert text(browser, "#place") == "instance 3 of 12"
    check_against_library(browser, runs["chip"], 2, [-1] * 8)
    press(browser, "ArrowLeft", "ArrowLeft", "ArrowLeft")
    assert text(browser, "#place") == "instance 12 of 12"
    click(browser, "#strip button:nth-child(5)")
    check_against_library(browser, runs["chip"], 4, [-1] * 8)


def test_says_which_instances_are_right_and_what_the_bits_mean(
    browser: Any, runs: dict[str, Run], tmp_path: Path
) -> None:
    data = page(runs["chip"], 4)[1]
    data["instances"][2]["right"].append(data["instances"][2]["found"])  # an untrained network is hardly ever right
    (tmp_path / "page.html").write_text(rendered(data), encoding="utf-8")
    browser.open(tmp_path / "page.html")
    for index, one in enumerate(data["instances"]):
        settle(browser)
        bits, _ = table(browser)[0]
        assert bits == one["found"]
        wrong = min(sum(a != b for a, b in zip(bits, right, strict=True)) for right in one["right"])
        said = text(browser, "#verdict")
        assert said == ("✓ right" if wrong == 0 else f"wrong in {wrong} bit{'s' * (wrong > 1)}")
        assert (wrong == 0) == (index == 2 or one["hit"])
        answer = runs["chip"].problem.decode(torch.tensor([[float(bit) for bit in bits]]))[0].tolist()
        assert text(browser, "#spectrum td.answer").split()[:4] == [str(value) for value in answer]
        press(browser, "ArrowRight")


# --- bits and couplers


def test_bits_are_clamped_by_clicks_and_keys(opened: Opened, runs: dict[str, Run]) -> None:
    browser, clamp = opened("chip"), [-1] * 8
    for bit in (5, 0, 0, 5, 5):  # free -> 1 -> 0 -> free
        click(browser, f'.bit[data-bit="{bit}"]')
        clamp[bit] = {-1: 1, 1: 0, 0: -1}[clamp[bit]]
        check_against_library(browser, runs["chip"], 0, clamp)
    browser.evaluate("document.querySelector('.bit[data-bit=\"3\"]').focus()")
    press(browser, "Enter")
    clamp[3] = 1
    check_against_library(browser, runs["chip"], 0, clamp)
    assert "clamped to 1" in browser.evaluate("document.activeElement.getAttribute('aria-label')")
    click(browser, "#reset")
    check_against_library(browser, runs["chip"], 0, [-1] * 8)


def test_couplers_are_switched_off_in_the_graph_and_in_the_matrix(opened: Opened, runs: dict[str, Run]) -> None:
    browser = opened("chip")
    click(browser, '.reach[data-coupler="3"]', 0.3, 0.3)  # bits 0 and 7: from the left to the bottom
    check_against_library(browser, runs["chip"], 0, [-1] * 8, [(0, 7)])
    click(browser, "#matrix", 4.5 / 8, 1.5 / 8)
    check_against_library(browser, runs["chip"], 0, [-1] * 8, [(0, 7), (1, 4)])
    click(browser, "#matrix", 0.5 / 8, 7.5 / 8)  # on again, from below the diagonal
    check_against_library(browser, runs["chip"], 0, [-1] * 8, [(1, 4)])
    browser.evaluate("document.getElementById('matrix').focus()")
    press(browser, *["ArrowUp"] * 8, *["ArrowLeft"] * 8, *["ArrowRight"] * 6, "ArrowDown", "ArrowDown", "Enter")
    assert text(browser, "#matrix-note").endswith("off.")
    check_against_library(browser, runs["chip"], 0, [-1] * 8, [(1, 4), (2, 6)])
    assert text(browser, "#place") == "instance 1 of 12"  # arrow keys in A do not leaf
    press(browser, *["ArrowLeft"] * 4, "Enter")
    check_against_library(browser, runs["chip"], 0, [-1, -1, 1] + [-1] * 5, [(1, 4), (2, 6)])


@pytest.mark.parametrize("seed", range(4))
def test_lowest_states_with_groups_and_clamps_are_those_of_a_plain_loop(opened: Opened, seed: int) -> None:
    browser, n, groups = opened("chip"), 9, [[0, 1, 2], [4, 7]]
    draw = torch.Generator().manual_seed(seed)
    A = torch.randint(-4, 5, (n, n), generator=draw).triu().double()  # whole numbers: states of equal energy
    clamp = [-1] * n
    clamp[3], clamp[1] = seed % 2, seed // 2 - 1
    allowed = [
        x
        for x in product((0, 1), repeat=n)
        if all(sum(x[bit] for bit in group) == 1 for group in groups)
        and all(held in (-1, bit) for held, bit in zip(clamp, x, strict=True))
    ]
    best = sorted(float(torch.tensor(x).double() @ A @ torch.tensor(x).double()) for x in allowed)[:10]
    rows, columns = torch.triu_indices(n, n, 1).tolist()
    words = [n, rows, columns, A.diagonal().tolist(), A[rows, columns].tolist()]
    made = f"makeQubo(...{json.dumps(words)}, new Set())"
    choices = f"choicesOf({n}, {groups}, {clamp})"
    found = browser.evaluate(f"lowestStates({made}, {choices}, 10).map(s => [[...s.x], s.energy])")
    assert [energy for _, energy in found] == best
    for x, energy in found:
        assert tuple(x) in allowed
        assert float(torch.tensor(x).double() @ A @ torch.tensor(x).double()) == energy
    read = browser.evaluate(f"(r => [[...r.x], r.energy])(anneal({made}, {choices}, 300, 20, 0.1, randomFrom({seed})))")
    assert tuple(read[0]) in allowed
    assert read[1] == best[0]


# --- annealing


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


def test_reads_at_one_temperature_have_boltzmanns_mean_energy(opened: Opened) -> None:
    """Sliders to the right: the temperature stays where it starts, so that reads are samples of exp(-E / T)."""
    browser = opened("chip")
    slide(browser, "reads", 100)
    slide(browser, "sweeps", 25)
    slide(browser, "temperature", 100)
    exact = browser.evaluate("lowestStates(state.Q, state.choices, 256).map(s => s.energy)")
    hot = browser.evaluate("hottest(state.Q)")
    energies = torch.tensor(exact, dtype=torch.float64)
    weights = torch.softmax(-energies / hot, 0)
    mean = float(weights @ energies)
    spread = float((weights @ (energies - mean) ** 2).sqrt())
    found = reads(browser)
    assert len(found) == 1000
    assert abs(sum(found) / 1000 - mean) < 5 * spread / 1000**0.5


def test_cold_reads_find_the_lowest_energy_and_sliders_answer_keys(opened: Opened) -> None:
    browser = opened("chip")
    slide(browser, "temperature", 10)
    slide(browser, "sweeps", 75)
    assert f"{len(reads(browser))} of {len(reads(browser))} reads" in text(browser, "#anneal-note")
    before = text(browser, "#sweeps-out")
    browser.evaluate("document.getElementById('sweeps').focus()")
    press(browser, "ArrowLeft")
    assert text(browser, "#sweeps-out") != before
    assert text(browser, "#place") == "instance 1 of 12"
    click(browser, "#anneal")
    assert len(reads(browser)) == 200
    assert browser.evaluate("document.querySelectorAll('#histogram rect').length") >= 1


def test_large_qubos_are_annealed_and_keep_the_runs_own_answer(opened: Opened) -> None:
    browser = opened("large")
    found = browser.evaluate("energyOf(state.Q, Uint8Array.from(instance().found, Number))")
    assert text(browser, "#spectrum-how") == "found by annealing"
    assert table(browser)[0][1] <= float(f"{found:.4g}") + 1e-3
    click(browser, '.bit[data-bit="0"]')
    assert {bits[0] for bits, _ in table(browser)} == {"1"}


# --- Sudoku


def grid(browser: Any) -> list[int]:
    found: list[int] = browser.evaluate(
        "[...document.querySelectorAll('#board input')].map(i => Number(i.value || i.placeholder))"
    )
    return found


def test_a_typed_sudoku_is_solved(opened: Opened) -> None:
    browser = opened("sudoku4")
    assert keeps_rules(torch.tensor([grid(browser)])).item()  # the instance's own
    click(browser, "#clear")
    click(browser, '[data-cell="0"]')
    press(browser, "3", "ArrowRight", "1", "ArrowDown", "ArrowDown", "2", "ArrowRight", "4")
    digits = grid(browser)
    hints = browser.evaluate("[...document.querySelectorAll('#board input')].map(i => Number(i.value))")
    assert {cell: digit for cell, digit in enumerate(hints) if digit} == {0: 3, 1: 1, 9: 2, 10: 4}
    assert keeps_rules(torch.tensor([digits])).item()
    assert [digits[cell] for cell in (0, 1, 9, 10)] == [3, 1, 2, 4]
    assert "right" in text(browser, "#verdict")
    press(browser, "Backspace", "2")  # a second 2 in the row
    assert browser.evaluate("document.querySelectorAll('#board .clash').length") == 2
    assert "break a learned rule" in text(browser, "#board-note")
    press(browser, "7")  # no digit of this size
    assert browser.evaluate("document.activeElement.value") == ""
    assert keeps_rules(torch.tensor([grid(browser)])).item()


def test_a_puzzle_without_a_solution_is_said_so(opened: Opened) -> None:
    browser = opened("sudoku4")
    click(browser, "#clear")
    click(browser, '[data-cell="0"]')
    press(browser, "1", "ArrowRight", "2", "ArrowRight", "3", "ArrowDown", "ArrowRight", "4")
    assert text(browser, "#board-note").startswith("No grid keeps the learned rules")
    assert text(browser, "#verdict") == "no grid"


def test_without_its_couplers_a_rule_is_not_kept(opened: Opened) -> None:
    """The page knows the rules from the couplings alone: without any, a free cell may hold anything."""
    browser = opened("sudoku4")
    browser.evaluate("state.off = new Set(data.rows.keys()), state.clamp.fill(-1), update()")
    settle(browser)
    assert float(text(browser, "#spectrum td.number").replace("−", "-")) == 0
    assert not browser.evaluate("state.states.every(s => keepsRules(digitsOf(s.x, 4), 4))")


def test_of_pictures_only_the_grid_they_show_is_right(browser: Any, tmp_path: Path) -> None:
    """Biases that speak for one grid, as a reader of pictures gives: others keep the rules, too, and are not right."""
    run = make_run(tmp_path / "run", Sudoku(size=4, hints=0), network="shared", topology="dense")
    data = page(run, 1)[1]
    one = data["instances"][0]
    one["linear"] = [0.5 - int(bit) for bit in one["right"][0]]
    out = tmp_path / "page.html"
    out.write_text(rendered(data), encoding="utf-8")
    browser.open(out)
    settle(browser)
    assert text(browser, "#verdict") == "✓ right"
    assert browser.evaluate("document.querySelectorAll('#spectrum .tick').length") == 1


def test_a_large_sudoku_is_solved(opened: Opened) -> None:
    browser = opened("sudoku9")
    assert keeps_rules(torch.tensor([grid(browser)])).item()
    click(browser, "#clear")
    click(browser, '[data-cell="40"]')
    press(browser, "5")
    assert keeps_rules(torch.tensor([grid(browser)])).item()
    assert grid(browser)[40] == 5


# --- windows and readers


@pytest.mark.parametrize(
    ("name", "width"),
    [("large", 320), ("large", 390), ("large", 768), ("sudoku4", 320), ("sudoku9", 390), ("sudoku9", 768)],
)
def test_fits_the_window(opened: Opened, name: str, width: int) -> None:
    browser = opened(name, width)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    wide = """[...document.querySelectorAll('#panels > section:not([hidden])')].filter(
      panel => panel.scrollWidth > panel.clientWidth + 1).map(panel => panel.id)"""
    assert browser.evaluate(wide) == []


def test_every_control_has_a_name_and_can_be_reached_by_tab(opened: Opened) -> None:
    browser = opened("chip")
    names = browser.evaluate("""[...document.querySelectorAll('button, input, [role=button], canvas, svg')].map(
      e => e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || e.textContent || e.labels?.length)""")
    assert all(names)
    browser.evaluate("document.getElementById('reset').disabled = false, document.activeElement.blur()")
    reached = set()
    for _ in range(40):
        press(browser, "Tab")
        reached.add(browser.evaluate("document.activeElement.id || document.activeElement.dataset.bit"))
    controls = {"previous", "next", "reset", "matrix", "sweeps", "temperature", "reads", "anneal"}
    assert reached >= controls | {str(bit) for bit in range(8)}


def test_screenshot(browser: Any, runs: dict[str, Run], tmp_path: Path) -> None:
    """The picture of the documentation: `make explorer` puts it there, of a run that was trained."""
    folder, run = os.environ.get("QUBOLEARN_SCREENSHOTS"), runs["chip"]
    if folder:
        problem, recipe = preset("best", "randgraph", k=4, epochs=10)
        run = Run.create(tmp_path / "run", problem, recipe)
        train(problem, recipe, run)
    out = tmp_path / "page.html"
    out.write_text(page(run)[0], encoding="utf-8")
    browser.open(out, 1280, 900)
    settle(browser)
    slide(browser, "sweeps", 6)
    slide(browser, "temperature", 55)
    height = browser.evaluate("Math.ceil(document.querySelector('main').getBoundingClientRect().bottom) + 24")
    clip = {"x": 0, "y": 0, "width": 1280, "height": height, "scale": 1}
    taken = browser.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
    png = base64.b64decode(taken["data"])
    assert png.startswith(b"\x89PNG")
    assert 20_000 < len(png) < 200_000  # an empty page is smaller
    if folder:
        Path(folder, "explorer.png").write_bytes(png)
