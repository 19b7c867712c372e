"""Published sets of Sudokus, read from small files in the formats of their authors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from quant_reproduction.datasets.files import clear_data_cache
from quant_reproduction.problems.sudoku_sets import SudokuSet, check_sudokus, load_set, read_rrn, read_satnet
from qubolearn.errors import QubolearnError
from qubolearn.problems.sudoku import bits_of
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


def lines(puzzles: torch.Tensor, grids: torch.Tensor) -> str:
    rows = zip(puzzles.tolist(), grids.tolist(), strict=True)
    return "".join(f"{''.join(map(str, puzzle))},{''.join(map(str, grid))}\n" for puzzle, grid in rows)


def write_rrn(folder: Path, valid: str | None = None) -> Path:
    (folder / "sudoku-hard").mkdir(parents=True)
    parts = {
        "valid": lines(PUZZLES[:36], GRIDS[:36]) if valid is None else valid,
        "test": lines(PUZZLES[36:], GRIDS[36:]),
    }
    for name, text in parts.items():
        (folder / "sudoku-hard" / f"{name}.csv").write_text(text)
    return folder


def write_satnet(folder: Path) -> Path:
    folder.mkdir(parents=True)
    shown = bits_of(GRIDS).reshape(-1, 9, 9, 9) * (PUZZLES > 0).reshape(-1, 9, 9, 1)
    torch.save(shown.float(), folder / "features.pt")
    torch.save(bits_of(GRIDS).reshape(-1, 9, 9, 9).float(), folder / "labels.pt")
    return folder


def test_files_of_the_authors_are_read(folder: Path) -> None:
    write_rrn(folder / "rrn" / "original")
    write_satnet(folder / "satnet" / "original")
    rrn, satnet = load_set("rrn"), load_set("satnet")
    assert [len(rrn[split].puzzles) for split in ("train", "validation", "test")] == [34, 2, 4]
    assert torch.equal(rrn["test"].solutions, GRIDS[36:])
    assert [len(satnet[split].puzzles) for split in ("train", "validation", "test")] == [18, 18, 4]
    assert torch.equal(satnet["test"].puzzles, PUZZLES[36:])


def test_the_compact_file_has_the_same_puzzles(folder: Path) -> None:
    arrays = {"satnet_puzzle": PUZZLES, "satnet_solution": GRIDS}
    arrays |= {"rrn_validation_puzzle": PUZZLES[:36], "rrn_validation_solution": GRIDS[:36]}
    arrays |= {"rrn_test_puzzle": PUZZLES[36:].reshape(2, 2, 81), "rrn_test_solution": GRIDS[36:].reshape(2, 2, 81)}
    np.savez(folder / "sudoku9.npz", **{name: array.numpy().astype(np.uint8) for name, array in arrays.items()})  # type: ignore[arg-type]
    assert torch.equal(load_set("rrn")["test"].puzzles, PUZZLES[36:])
    problem = SudokuSet(set="rrn", hints=34)
    drawn = problem.sample(8, torch.Generator().manual_seed(1), "test")
    assert sorted(drawn.answer.tolist()) == sorted(GRIDS[36:].repeat(2, 1).tolist())  # each once before any again
    with pytest.raises(QubolearnError, match="no test puzzles with hints=17"):
        SudokuSet(set="rrn", hints=17).sample(1, torch.Generator(), "test")


def test_missing_data_name_the_remedy(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(QubolearnError, match=r"sudoku9.npz.*download\('satnet'\)"):
        SudokuSet(set="satnet").sample(1, torch.Generator())
    monkeypatch.setenv("QUBOLEARN_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(QubolearnError, match=r"no dataset at .*download\('rrn'\)"):
        load_set("rrn")
    with pytest.raises(QubolearnError, match="got 4"):
        SudokuSet(size=4, set="rrn")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (lines(PUZZLES[:1], GRIDS[:1]) + "12,34\n", "12,34"),
        ("", "empty"),
        (lines(PUZZLES[:2], GRIDS[:2].roll(1, 1)), "grid 0"),
        (lines(PUZZLES[:2], GRIDS[:2].roll(1, 0)), "puzzle 0"),
    ],
)
def test_damaged_lines_are_rejected(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(QubolearnError, match=message):
        read_rrn(write_rrn(tmp_path, text))


def test_other_tensors_and_pickles_are_rejected(tmp_path: Path) -> None:
    torch.save(torch.zeros(2, 4, 4, 4), tmp_path / "features.pt")
    with pytest.raises(QubolearnError, match=r"\[2, 4, 4, 4\]"):
        read_satnet(tmp_path)
    (tmp_path / "features.pt").write_bytes(b"cos\nsystem\n")
    with pytest.raises(QubolearnError, match=r"features\.pt"):
        read_satnet(tmp_path)
    with pytest.raises(QubolearnError, match=r"valid\.csv"):
        read_rrn(tmp_path)
    with pytest.raises(QubolearnError, match=r"\[2, 16\], \[2, 81\]"):
        check_sudokus(torch.zeros(2, 16), torch.zeros(2, 81))
