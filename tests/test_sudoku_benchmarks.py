"""What the benchmarks of Sudoku record."""

from __future__ import annotations

import pytest

from qubolearn.benchmarks import sudoku, visual_sudoku


def test_sudoku_is_recorded_with_what_a_chip_would_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sudoku, "chip_view", lambda A: {"bits": A.n, "couplers": A.edges.shape[1]})  # embeds nothing
    found = list(sudoku.records(quick=True))
    assert [(record["quant"], record["rules"], record["others"]) for record in found] == [(100, 224, 0)]
    assert found[0]["rival"] == 100
    (line,) = sudoku.rows(found)
    assert line["quant"]["mean"] > line["diag"]["mean"]  # type: ignore[index]
    assert line["chip"] == {"bits": 64, "couplers": 224 + 16 * 6}  # the rules, and one digit a cell


def test_visual_sudoku_is_checked_against_exact_search() -> None:
    pytest.importorskip("sklearn")
    (record,) = visual_sudoku.records(quick=True)
    assert record["lowest_found"] == record["checked_exactly"] == 10
    assert record["quant"] >= record["rival"] > record["diag"] == 0
    assert visual_sudoku.rows([record])[0]["published"] == []
