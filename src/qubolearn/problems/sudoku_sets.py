"""Published sets of Sudokus of size 9, from the compact ``sudoku9.npz`` or from the archives of their authors.

They are those of Recurrent Relational Networks (Palm et al., NeurIPS 2018) and of SATNet (Wang et al., ICML 2019).
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.problems.contract import Split
from qubolearn.problems.data import (
    ZIP_ERRORS,
    cached_data,
    data_folder,
    data_root,
    download_file,
    load_npz,
    open_zip,
    read_member,
)
from qubolearn.problems.sudoku_grids import keeps_rules

__all__ = ["SetName", "Sudokus", "check_sudokus", "download", "load_set", "read_rrn", "read_satnet"]

SetName = Literal["satnet", "rrn"]
URLS: Mapping[str, str] = {
    "satnet": "https://powei.tw/sudoku.zip",
    "rrn": "https://www.dropbox.com/s/rp3hbjs91xiqdgc/sudoku-hard.zip?dl=1",
}
COMPACT = "sudoku9.npz"
ARCHIVES: Mapping[str, str] = {"satnet": "sudoku.zip", "rrn": "sudoku-hard.zip"}
REMEDY = "fetch it: python -c \"from qubolearn.problems.sudoku_sets import download; download('{}')\""
#: Bytes of an archive and of one of its members; SATNet's also holds pictures, which are left unread.
MAX_ARCHIVE, MAX_MEMBER = 2**30, 2**26
#: Held-out puzzles of SATNet's set for testing, and of its training puzzles for validation.
TESTED, VALIDATED = 1000, 500


class Sudokus(NamedTuple):
    """Puzzles with their solutions; 0 is an empty cell."""

    puzzles: Tensor  # [count, 81], int64
    solutions: Tensor  # [count, 81], int64

    def rows(self, index: Any) -> Sudokus:
        """The Sudokus at an index."""
        return Sudokus(self.puzzles[index], self.solutions[index])


def load_set(name: SetName) -> dict[Split, Sudokus]:
    """The splits of a set below ``$QUBOLEARN_DATA/sudoku``, in whichever form lies there.

    Of SATNet's 10,000 the first 1,000 of the compact file are for testing. RRN's test set is for testing alone: its
    validation set is divided into training and validation puzzles here, one in 18 for validation.
    """
    return _load(name, data_folder("sudoku", REMEDY.format(name)))


@cached_data(4)
def _load(name: SetName, folder: Path) -> dict[Split, Sudokus]:
    path = folder / ARCHIVES[name]
    if path.exists():
        whole = (read_satnet if name == "satnet" else read_rrn)(path)
    elif (folder / COMPACT).exists():
        whole = _read_compact(folder / COMPACT, name)
    else:
        raise QubolearnError(f"neither {COMPACT} nor {path.name} in {folder}; {REMEDY.format(name)}")
    if name == "satnet":
        known, test = whole["train"], whole["test"]
        held_out = torch.arange(len(known.puzzles)) < min(VALIDATED, len(known.puzzles) // 2)
    else:
        known, test = whole["validation"], whole["test"]
        held_out = torch.arange(len(known.puzzles)) % 18 == 17
    return {"train": known.rows(~held_out), "validation": known.rows(held_out), "test": test}


def download(name: SetName, url: str | None = None, sha256: str | None = None) -> Path:
    """Fetch the archive of a set into ``$QUBOLEARN_DATA/sudoku`` and check that it can be read."""
    target = data_root() / "sudoku" / ARCHIVES[name]
    path = download_file(url or URLS[name], target, MAX_ARCHIVE, sha256)
    try:
        (read_satnet if name == "satnet" else read_rrn)(path)
    except QubolearnError:
        path.unlink()
        raise
    return path


def check_sudokus(puzzles: Tensor, solutions: Tensor, what: str = "Sudokus") -> Sudokus:
    """Puzzles and solutions ``[count, cells]`` as they are, unless one breaks the rules or its own hints.

    >>> good = torch.tensor([[1, 2, 3, 4, 3, 4, 1, 2, 2, 1, 4, 3, 4, 3, 2, 1]])
    >>> len(check_sudokus(good * 0, good).puzzles)
    1
    >>> check_sudokus(good * 0, good.roll(1, 1))
    Traceback (most recent call last):
    ...
    qubolearn.errors.QubolearnError: Sudokus: grid 0 breaks a rule; remove it, nothing can be learned from it
    """
    if puzzles.ndim != 2 or puzzles.shape != solutions.shape:
        raise QubolearnError(
            f"{what}: puzzles {list(puzzles.shape)} and solutions {list(solutions.shape)}; want [count, cells] of both"
        )
    if len(broken := (~keeps_rules(solutions)).nonzero()[:, 0]):
        raise QubolearnError(f"{what}: grid {int(broken[0])} breaks a rule; remove it, nothing can be learned from it")
    if len(other := ((puzzles != 0) & (puzzles != solutions)).any(1).nonzero()[:, 0]):
        raise QubolearnError(f"{what}: puzzle {int(other[0])} has hints that its solution does not have")
    return Sudokus(puzzles.long(), solutions.long())


def _read_compact(path: Path, name: SetName) -> dict[str, Sudokus]:
    parts = {"satnet": 2} if name == "satnet" else {"rrn_validation": 2, "rrn_test": 3}
    wanted = {f"{part}_{kind}": ("iu", n) for part, n in parts.items() for kind in ("puzzle", "solution")}
    arrays = {key: torch.from_numpy(a.astype(np.int64)).reshape(-1, 81) for key, a in load_npz(path, wanted).items()}
    found = {p: check_sudokus(arrays[f"{p}_puzzle"], arrays[f"{p}_solution"], f"{path}: {p}") for p in parts}
    if name == "satnet":
        return {"test": found["satnet"].rows(slice(TESTED)), "train": found["satnet"].rows(slice(TESTED, None))}
    return {"validation": found["rrn_validation"], "test": found["rrn_test"]}


def read_rrn(path: Path) -> dict[str, Sudokus]:
    """``sudoku-hard.zip``: valid.csv and test.csv with lines ``PUZZLE,SOLUTION`` of 81 digits each, 0 for empty cells.

    Its training set is left unread: the validation set has grids enough to learn from.
    """
    return {split: _read_csv(*_member(path, f"{file}.csv")) for split, file in _RRN_FILES.items()}


_RRN_FILES = {"validation": "valid", "test": "test"}


def _read_csv(what: str, content: bytes) -> Sudokus:
    lines = content.decode("ascii", "replace").split()
    for number, line in enumerate(lines):
        puzzle, _, solution = line.partition(",")
        if len(puzzle) != 81 or len(solution) != 81 or not (puzzle + solution).isdecimal():
            raise QubolearnError(f"{what}: line {number + 1} is {line[:40]!r}; want 81 digits, a comma, 81 digits")
    if not lines:
        raise QubolearnError(f"{what} is empty; fetch it anew")
    digits = torch.tensor([[int(digit) for digit in line if digit != ","] for line in lines])
    return check_sudokus(digits[:, :81], digits[:, 81:], what)


def read_satnet(path: Path) -> dict[str, Sudokus]:
    """``sudoku.zip``: features.pt and labels.pt, one-hot ``[count, 9, 9, 9]``; SATNet tests on the last tenth."""
    grids = []
    for file in ("features.pt", "labels.pt"):
        what, content = _member(path, file)
        try:
            bits = torch.load(io.BytesIO(content), weights_only=True)  # tensors only: a pickle could run code
        except Exception as error:  # torch raises many types on damaged files
            raise QubolearnError(f"{what} holds no tensor ({type(error).__name__}); fetch it anew") from error
        if not isinstance(bits, Tensor) or bits.ndim != 4 or bits.shape[1:] != (9, 9, 9):
            raise QubolearnError(f"{what} is {list(getattr(bits, 'shape', []))}; want bits [count, 9, 9, 9]")
        bits = bits.reshape(len(bits), 81, 9)
        grids.append(torch.where(bits.sum(-1) > 0, bits.argmax(-1) + 1, 0))
    whole = check_sudokus(grids[0], grids[1], str(path))
    train = int(0.9 * len(whole.puzzles))
    return {"train": whole.rows(slice(train)), "test": whole.rows(slice(train, None))}


def _member(path: Path, name: str) -> tuple[str, bytes]:
    """What a file of an archive is called in errors, and its content."""
    what = f"{path}: {name}"
    with open_zip(path) as archive:
        entries = [entry for entry in archive.infolist() if Path(entry.filename).name == name]
        if not entries:
            raise QubolearnError(f"{what} is missing; is it the right archive?")
        if entries[0].file_size > MAX_MEMBER:
            raise QubolearnError(f"{what} has {entries[0].file_size} bytes (limit {MAX_MEMBER}); is it the right file?")
        try:
            return what, read_member(archive, entries[0])
        except ZIP_ERRORS as error:
            raise QubolearnError(f"{what} cannot be read: {error}; fetch it anew") from error
