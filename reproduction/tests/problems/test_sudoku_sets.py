"""Published sets of Sudokus."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from quant_reproduction.datasets.files import clear_data_cache
from quant_reproduction.problems.sudoku_sets import SudokuSet, check_sudokus, load_set
from qubolearn.errors import QubolearnError
from qubolearn.problems.sudoku_grids import random_grids, random_puzzles

DRAW = torch.Generator().manual_seed(0)
GRIDS = random_grids(40, DRAW)
PUZZLES = random_puzzles(GRIDS, 34, DRAW)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("QUBOLEARN_DATA", str(tmp_path))
    clear_data_cache()
    (tmp_path / "sudoku").mkdir()
    return tmp_path / "sudoku"


def test_the_compact_file_has_the_same_puzzles(folder: Path) -> None:
    arrays = {"satnet_puzzle": PUZZLES, "satnet_solution": GRIDS}
    arrays |= {"rrn_validation_puzzle": PUZZLES[:36], "rrn_validation_solution": GRIDS[:36]}
    arrays |= {
        "rrn_test_puzzle": PUZZLES[36:].reshape(2, 2, 81),
        "rrn_test_solution": GRIDS[36:].reshape(2, 2, 81),
    }
    np.savez(
        folder / "sudoku9.npz", **{name: array.numpy().astype(np.uint8) for name, array in arrays.items()}
    )  # type: ignore[arg-type]
    assert torch.equal(load_set("rrn")["test"].puzzles, PUZZLES[36:])
    problem = SudokuSet(set="rrn", hints=34)
    drawn = problem.sample(8, torch.Generator().manual_seed(1), "test")
    assert sorted(drawn.answer.tolist()) == sorted(
        GRIDS[36:].repeat(2, 1).tolist()
    )  # each once before any again
    with pytest.raises(QubolearnError, match="no test puzzles with hints=17"):
        SudokuSet(set="rrn", hints=17).sample(1, torch.Generator(), "test")


def test_missing_data_name_the_remedy(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(QubolearnError, match=r"sudoku9\.npz"):
        SudokuSet(set="satnet").sample(1, torch.Generator())
    monkeypatch.setenv("QUBOLEARN_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(QubolearnError, match="nowhere"):
        load_set("rrn")
    with pytest.raises(QubolearnError, match="got 4"):
        SudokuSet(size=4, set="rrn")


@pytest.mark.parametrize(
    ("puzzles", "grids", "message"),
    [
        (PUZZLES[:2], GRIDS[:2].roll(1, 1), "grid 0"),
        (PUZZLES[:2], GRIDS[:2].roll(1, 0), "puzzle 0"),
        (torch.zeros(2, 16), torch.zeros(2, 81), r"\[2, 16\], \[2, 81\]"),
    ],
)
def test_damaged_puzzles_are_rejected(puzzles: torch.Tensor, grids: torch.Tensor, message: str) -> None:
    with pytest.raises(QubolearnError, match=message):
        check_sudokus(puzzles, grids)
