"""The explorer in a real browser."""

from __future__ import annotations

import json
from itertools import product

import pytest
import torch
from browser_actions import (
    Opened,
    check_against_library,
    click,
    grid,
    press,
    reads,
    slide,
    table,
    text,
)

from qubolearn.problems.sudoku_grids import keeps_rules
from qubolearn.runs import Run

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


def test_changes_stay_when_the_instance_changes(opened: Opened, runs: dict[str, Run]) -> None:
    browser, clamp = opened("chip"), [-1] * 8
    for bit in (5, 2, 2):
        click(browser, f'.bit[data-bit="{bit}"]')
    clamp[5], clamp[2] = 1, 0
    click(browser, '.reach[data-coupler="3"]', 0.3, 0.3)  # bits 0 and 7
    for index in (1, 2):
        click(browser, "#next")
        check_against_library(browser, runs["chip"], index, clamp, [(0, 7)])
    click(browser, "#reset")
    check_against_library(browser, runs["chip"], 2, [-1] * 8)
    browser = opened("sudoku4")
    click(browser, "#clear")
    click(browser, "#next")  # hints belong to their puzzle
    assert browser.evaluate("state.clamp.join() === instance().clamp.join()")


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


def test_couplers_are_switched_off_in_the_graph_and_in_the_matrix(
    opened: Opened, runs: dict[str, Run]
) -> None:
    browser = opened("chip")
    click(browser, '.reach[data-coupler="3"]', 0.3, 0.3)  # bits 0 and 7
    check_against_library(browser, runs["chip"], 0, [-1] * 8, [(0, 7)])
    click(browser, "#matrix", 4.5 / 8, 1.5 / 8)
    check_against_library(browser, runs["chip"], 0, [-1] * 8, [(0, 7), (1, 4)])
    click(browser, "#matrix", 0.5 / 8, 7.5 / 8)  # on again, from below the diagonal
    check_against_library(browser, runs["chip"], 0, [-1] * 8, [(1, 4)])
    browser.evaluate("document.getElementById('matrix').focus()")
    press(
        browser, *["ArrowUp"] * 8, *["ArrowLeft"] * 8, *["ArrowRight"] * 6, "ArrowDown", "ArrowDown", "Enter"
    )
    assert text(browser, "#matrix-note").endswith("off.")
    check_against_library(browser, runs["chip"], 0, [-1] * 8, [(1, 4), (2, 6)])
    assert text(browser, "#place") == "instance 1 of 12"  # arrow keys in A do not leaf
    press(browser, *["ArrowLeft"] * 4, "Enter")
    check_against_library(browser, runs["chip"], 0, [-1, -1, 1] + [-1] * 5, [(1, 4), (2, 6)])


@pytest.mark.parametrize("seed", range(4))
def test_lowest_states_with_groups_and_clamps_are_those_of_a_plain_loop(opened: Opened, seed: int) -> None:
    browser, n, groups = opened("chip"), 9, [[0, 1, 2], [4, 7]]
    draw = torch.Generator().manual_seed(seed)
    A = torch.randint(-4, 5, (n, n), generator=draw).triu().double()  # integers: ties
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
    read = browser.evaluate(
        f"(r => [[...r.x], r.energy])(anneal({made}, {choices}, 300, 20, 0.1, randomFrom({seed})))"
    )
    assert tuple(read[0]) in allowed
    assert read[1] == best[0]


# --- annealing


def test_reads_at_one_temperature_have_boltzmanns_mean_energy(opened: Opened) -> None:
    """At a constant temperature reads are samples of exp(-E / T)."""
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


def test_large_qubos_are_annealed_and_keep_the_runs_own_answer(opened: Opened) -> None:
    browser = opened("large")
    found = browser.evaluate("energyOf(state.Q, Uint8Array.from(instance().found, Number))")
    assert text(browser, "#spectrum-how") == "found by annealing"
    assert table(browser)[0][1] <= float(f"{found:.4g}") + 1e-3
    click(browser, '.bit[data-bit="0"]')
    assert {bits[0] for bits, _ in table(browser)} == {"1"}


# --- Sudoku


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


def test_a_large_sudoku_is_solved(opened: Opened) -> None:
    browser = opened("sudoku9")
    assert keeps_rules(torch.tensor([grid(browser)])).item()
    click(browser, "#clear")
    click(browser, '[data-cell="40"]')
    press(browser, "5")
    assert keeps_rules(torch.tensor([grid(browser)])).item()
    assert grid(browser)[40] == 5
