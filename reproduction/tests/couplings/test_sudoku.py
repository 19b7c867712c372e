"""Sudoku as a task."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from quant_reproduction.couplings import puzzle_on_chip, view_of
from quant_reproduction.couplings.sudoku import by_search, read_puzzles, solved_puzzles


@pytest.fixture(scope="module")
def quant() -> dict[str, Any]:
    """Return the result of a quick task."""
    return solved_puzzles(0, "satnet", "quant", quick=True)


def test_rules_are_learned_and_solve_what_cells_alone_do_not(quant: dict[str, Any]) -> None:
    assert quant["quant"]["accuracy"] == 1
    assert (quant["rules"]["rules"], quant["rules"]["of"], quant["rules"]["others"]) == (224, 224, 0)
    assert solved_puzzles(0, "satnet", "diag", quick=True)["diag"]["accuracy"] < 0.5
    assert by_search(0, "satnet", quick=True)["search"]["accuracy"] == 1


def test_hints_make_a_puzzle_smaller_on_a_chip() -> None:
    empty = puzzle_on_chip(torch.zeros(16), 4)
    assert (empty.n, empty.edges.shape[1]) == (64, 224 + 16 * 6)  # rules, and one digit per cell
    hint = torch.zeros(16)
    hint[0] = 1
    assert puzzle_on_chip(hint, 4).n == 64 - 4 - 7  # its cell, row, column and box


def test_bits_that_are_all_coupled_on_a_chip() -> None:
    pytest.importorskip("minorminer")
    view = view_of(0, bits=6)["chip"]
    assert (view["bits"], view["couplers"], view["fits"]) == (6, 15, True)


def test_visual_sudoku_is_checked_against_exact_search() -> None:
    pytest.importorskip("sklearn")
    found = read_puzzles(0, quick=True)
    assert found["quant"]["lowest_found"] == found["quant"]["checked_exactly"] == 10
    assert found["quant"]["accuracy"] >= found["read"]["accuracy"] > found["diag"]["accuracy"] == 0
