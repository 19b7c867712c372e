"""What benchmarks record; how fast anything is belongs into results, not into tests."""

from __future__ import annotations

import pytest

from qubolearn.benchmarks import anneal_large, couplings, fit_by_hand, large_annealing


def test_large_annealing_records_every_family(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_annealing, "SWEEPS", 20)
    records = list(anneal_large(quick=True))
    assert [(record["family"], record["n"]) for record in records] == [
        ("dense", 64),
        ("3-regular", 512),
        ("Pegasus", 680),
    ]
    for record in records:
        assert record["ours_seconds"] > 0
        assert record["ratio"] > 0
        assert abs(record["difference_in_errors"]) < 5  # the same process as neal's


def test_couplings_are_recorded_beside_their_rivals() -> None:
    maxcut, knapsack, sudoku = couplings(quick=True)
    assert {"quant", "diag", "pure"} <= maxcut.keys() & knapsack.keys()
    assert 90 < knapsack["rival"] <= 100  # greedy
    assert sudoku["rules"] == sudoku["of"] == 224


def test_fit_is_measured_on_both_engines() -> None:
    records = list(fit_by_hand(quick=True))
    assert len(records) == 2
    assert all(record["steps"] == 10 and record["fit_over_by_hand"] > 0 for record in records)
