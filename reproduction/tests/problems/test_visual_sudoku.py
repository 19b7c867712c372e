"""Visual Sudoku against exact search."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from quant_reproduction.datasets.files import clear_data_cache
from quant_reproduction.problems.visual_sudoku import (
    VisualSudoku,
    digit_scores,
    most_probable_grid,
    reader_costs,
)
from qubolearn import SharedQubo, evaluate
from qubolearn.errors import QubolearnError
from qubolearn.problems.sudoku import rule_qubo
from qubolearn.problems.sudoku_grids import all_small_grids, keeps_rules
from qubolearn.random import stream


@pytest.fixture
def blurred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> VisualSudoku:
    """Return puzzles whose reader mistakes every fourth image."""
    monkeypatch.setenv("QUBOLEARN_DATA", str(tmp_path))
    clear_data_cache()
    labels = np.sort(np.arange(2000) % 10)
    rng = np.random.default_rng(0)
    scores = rng.dirichlet(np.ones(10), 2000) * 0.4
    taken = np.where(rng.random(2000) < 0.25, (labels + 1) % 10, labels)
    scores[np.arange(2000), labels] += 0.2
    scores[np.arange(2000), taken] += 0.4
    (tmp_path / "sudoku").mkdir()
    np.savez(tmp_path / "sudoku" / "mnist_test_scores.npz", scores=scores.astype(np.float32), label=labels)
    return VisualSudoku(size=4, hints=10, reader="mnist")


def knowing(problem: VisualSudoku) -> SharedQubo:
    """Return a network that has learned the rules."""
    network = SharedQubo(problem.bits, levels=2, **problem.shared)
    with torch.no_grad():
        network.quadratic.copy_(rule_qubo(problem.size).dense()[0] / 2)
    return network


def costs_of(p: torch.Tensor, size: int) -> list[list[float] | None]:
    return [cost if any(cost) else None for cost in p.reshape(-1, size).tolist()]


def test_exact_search_agrees_with_all_grids(blurred: VisualSudoku) -> None:
    test = blurred.sample(30, stream(0, "test"), "test")
    grids = all_small_grids()
    for p in test.p:
        all_costs = p.reshape(16, 4)[torch.arange(16), grids - 1].sum(1)
        found = most_probable_grid(costs_of(p, 4))
        assert found is not None
        assert found[0] == pytest.approx(all_costs.min().item(), abs=1e-4)
        assert keeps_rules(torch.tensor([found[1]]))


def test_the_lowest_energy_is_the_most_probable_grid_and_corrects_the_reader(blurred: VisualSudoku) -> None:
    network = knowing(blurred).eval()
    test = blurred.sample(30, stream(0, "test"), "test")
    found = evaluate(network, blurred, instances=30)
    assert found.metrics["read"] < 0.5 < 0.8 < found.metrics["accuracy"]
    exact = [most_probable_grid(costs_of(p, 4)) for p in test.p]
    grids = [best and best[1] for best in exact]
    right = [grid == answer for grid, answer in zip(grids, test.answer.tolist(), strict=True)]
    assert found.metrics["accuracy"] == pytest.approx(np.mean(right))
    assert "0 images" in blurred.remarks(blurred.shown(test.p).clamp_min(1), test.p)[0]


def test_pictures_of_splits_differ_and_show_the_hints(blurred: VisualSudoku) -> None:
    (train, _), (test, labels) = digit_scores("mnist", "train"), digit_scores("mnist", "test")
    assert not any(torch.equal(a, b) for a, b in product(train[:20], test[:20]))
    sure = VisualSudoku(size=4, hints=7, reader="mnist")
    data = sure.sample(50, stream(1, "test"), "test")
    assert ((sure.shown(data.p) > 0).sum(1) >= 7).all()
    assert sure.clamp(data.p) is None
    true = torch.nn.functional.one_hot(labels, 10).float()
    costs = reader_costs(true[None, :16], torch.ones(1, 16, dtype=torch.bool), 4)
    assert costs.max() == pytest.approx(27.63, abs=0.01)


def test_damaged_scores_are_rejected(blurred: VisualSudoku, tmp_path: Path) -> None:
    file = tmp_path / "sudoku" / "mnist_test_scores.npz"
    for columns, message in ((9, r"\[3, 9\]"), (10, "every digit")):
        np.savez(file, scores=np.ones((3, columns), np.float32), label=np.arange(3))
        with pytest.raises(QubolearnError, match=message):
            blurred.sample(1, stream(0, "test"))
