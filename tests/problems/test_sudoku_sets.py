"""Published sets of Sudokus, read from small files in the formats of their authors."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from qubolearn.errors import QubolearnError
from qubolearn.problems.data import forget_data
from qubolearn.problems.sudoku import Sudoku, bits_of
from qubolearn.problems.sudoku_grids import random_grids, random_puzzles
from qubolearn.problems.sudoku_sets import check_sudokus, download, load_set, read_rrn, read_satnet

DRAW = torch.Generator().manual_seed(0)
GRIDS = random_grids(40, DRAW)
PUZZLES = random_puzzles(GRIDS, 34, DRAW)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("QUBOLEARN_DATA", str(tmp_path))
    forget_data()
    (tmp_path / "sudoku").mkdir()
    return tmp_path / "sudoku"


def lines(puzzles: torch.Tensor, grids: torch.Tensor) -> str:
    rows = zip(puzzles.tolist(), grids.tolist(), strict=True)
    return "".join(f"{''.join(map(str, puzzle))},{''.join(map(str, grid))}\n" for puzzle, grid in rows)


def write_zip(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def tensor_file(tensor: torch.Tensor) -> bytes:
    buffer = io.BytesIO()
    torch.save(tensor, buffer)
    return buffer.getvalue()


def write_rrn(path: Path) -> Path:
    parts = {"valid": lines(PUZZLES[:36], GRIDS[:36]), "test": lines(PUZZLES[36:], GRIDS[36:]), "train": "not read"}
    return write_zip(path, {f"sudoku-hard/{name}.csv": text.encode() for name, text in parts.items()})


def write_satnet(path: Path) -> Path:
    shown = bits_of(GRIDS).reshape(-1, 9, 9, 9) * (PUZZLES > 0).reshape(-1, 9, 9, 1)
    files = {"features": shown.float(), "labels": bits_of(GRIDS).reshape(-1, 9, 9, 9).float()}
    return write_zip(path, {f"sudoku/{name}.pt": tensor_file(bits) for name, bits in files.items()})


def test_archives_of_the_authors_are_read(folder: Path) -> None:
    write_rrn(folder / "sudoku-hard.zip")
    write_satnet(folder / "sudoku.zip")
    rrn, satnet = load_set("rrn"), load_set("satnet")
    assert [len(rrn[split].puzzles) for split in ("train", "validation", "test")] == [34, 2, 4]
    assert torch.equal(rrn["test"].solutions, GRIDS[36:])
    assert [len(satnet[split].puzzles) for split in ("train", "validation", "test")] == [18, 18, 4]
    assert torch.equal(satnet["test"].puzzles, PUZZLES[36:])


def test_the_compact_file_says_the_same(folder: Path) -> None:
    arrays = {"satnet_puzzle": PUZZLES, "satnet_solution": GRIDS}
    arrays |= {"rrn_validation_puzzle": PUZZLES[:36], "rrn_validation_solution": GRIDS[:36]}
    arrays |= {"rrn_test_puzzle": PUZZLES[36:].reshape(2, 2, 81), "rrn_test_solution": GRIDS[36:].reshape(2, 2, 81)}
    np.savez(folder / "sudoku9.npz", **{name: array.numpy().astype(np.uint8) for name, array in arrays.items()})  # type: ignore[arg-type]
    assert torch.equal(load_set("rrn")["test"].puzzles, PUZZLES[36:])
    problem = Sudoku(set="rrn", hints=34)
    drawn = problem.sample(8, torch.Generator().manual_seed(1), "test")
    assert sorted(drawn.answer.tolist()) == sorted(GRIDS[36:].repeat(2, 1).tolist())  # each once before any again
    with pytest.raises(QubolearnError, match="no test puzzles with hints=17"):
        Sudoku(set="rrn", hints=17).sample(1, torch.Generator(), "test")


def test_missing_data_say_how_to_get_them(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(QubolearnError, match=r"neither sudoku9.npz nor sudoku.zip.*download\('satnet'\)"):
        Sudoku(set="satnet").sample(1, torch.Generator())
    monkeypatch.setenv("QUBOLEARN_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(QubolearnError, match=r"no dataset at .*download\('rrn'\)"):
        load_set("rrn")
    with pytest.raises(QubolearnError, match="grids of size 9, not 4"):
        Sudoku(size=4, set="rrn")


def test_archives_are_downloaded_and_bad_ones_are_not_kept(folder: Path, tmp_path: Path) -> None:
    good = write_rrn(tmp_path / "good.zip")
    assert download("rrn", good.as_uri()) == folder / "sudoku-hard.zip"
    with pytest.raises(QubolearnError, match=r"features.pt is missing"):
        download("satnet", good.as_uri())
    assert not (folder / "sudoku.zip").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (lines(PUZZLES[:1], GRIDS[:1]) + "12,34\n", "line 2 is '12,34'"),
        ("", "is empty"),
        (lines(PUZZLES[:2], GRIDS[:2].roll(1, 1)), "grid 0 breaks a rule"),
        (lines(PUZZLES[:2], GRIDS[:2].roll(1, 0)), "puzzle 0 has hints that its solution does not have"),
    ],
)
def test_damaged_lines_are_refused(tmp_path: Path, text: str, said: str) -> None:
    path = write_zip(tmp_path / "bad.zip", {"valid.csv": text.encode(), "test.csv": text.encode()})
    with pytest.raises(QubolearnError, match=said):
        read_rrn(path)


def test_tensors_of_other_shapes_and_pickles_are_refused(tmp_path: Path) -> None:
    small = tensor_file(torch.zeros(2, 4, 4, 4))
    with pytest.raises(QubolearnError, match=r"\[2, 4, 4, 4\]; want bits"):
        read_satnet(write_zip(tmp_path / "a.zip", {"features.pt": small, "labels.pt": small}))
    with pytest.raises(QubolearnError, match="holds no tensor"):
        read_satnet(write_zip(tmp_path / "b.zip", {"features.pt": b"cos\nsystem\n", "labels.pt": small}))
    with pytest.raises(QubolearnError, match=r"want .count, cells. of both"):
        check_sudokus(torch.zeros(2, 16), torch.zeros(2, 81))
