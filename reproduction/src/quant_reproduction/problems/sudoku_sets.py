"""Published sets of Sudokus of size 9, from the compact ``sudoku9.npz``.

Recurrent Relational Networks (Palm et al., NeurIPS 2018); SATNet (Wang et al., ICML 2019).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Generator, Tensor

from quant_reproduction.datasets.files import cached_data, data_folder, load_npz
from qubolearn.data.contract import Split
from qubolearn.errors import QubolearnError
from qubolearn.problems.sudoku import Sudoku, Sudokus, draw_rows
from qubolearn.problems.sudoku_grids import keeps_rules

SetName = Literal["satnet", "rrn"]
REMEDY = "docs/data.md has its source"
#: Held-out puzzles of SATNet's set for testing, and for validation.
TESTED, VALIDATED = 1000, 500


@dataclass(frozen=True)
class SudokuSet(Sudoku):
    """Sudokus of a published set; none repeats before all were drawn."""

    name: ClassVar[str] = "sudoku-set"

    set: Literal["generated", "satnet", "rrn"] = "satnet"
    """Source of puzzles: generated, or a published set of size 9 in $QUBOLEARN_DATA/sudoku."""
    hints: int | None = None
    """Shown cells; by default 36 of 81 or 6 of 16, and any number in published sets."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.set != "generated" and self.size != 9:
            raise QubolearnError(f"set={self.set!r} has size=9, got {self.size}; use set='generated'")

    def available(self, split: Split) -> int | None:
        return None if self.set == "generated" else len(self._known(split).puzzles)

    def draw(self, count: int, generator: Generator, split: Split) -> Sudokus:
        if self.set == "generated":
            return super().draw(count, generator, split)
        known = self._known(split)
        return known.rows(draw_rows(torch.arange(len(known.puzzles)), count, generator))

    def _known(self, split: Split) -> Sudokus:
        assert self.set != "generated"
        known = load_set(self.set)[split]
        if self.hints is not None:
            known = known.rows((known.puzzles > 0).sum(1) == self.hints)
        if not len(known.puzzles):
            raise QubolearnError(f"{self.set} has no {split} puzzles with hints={self.hints}; change hints")
        return known


@cached_data(4)
def load_set(name: SetName) -> dict[Split, Sudokus]:
    """Load the splits of a set; SATNet's first 1,000 are for testing."""
    known, test = _read_compact(data_folder("sudoku", REMEDY) / "sudoku9.npz", name)
    number = torch.arange(len(known.puzzles))
    held_out = number < min(VALIDATED, len(number) // 2) if name == "satnet" else number % 18 == 17
    return {"train": known.rows(~held_out), "validation": known.rows(held_out), "test": test}


def check_sudokus(puzzles: Tensor, solutions: Tensor, what: str = "Sudokus") -> Sudokus:
    """Return puzzles and solutions ``[count, cells]``; raise if one is wrong."""
    if puzzles.ndim != 2 or puzzles.shape != solutions.shape:
        shapes = f"{list(puzzles.shape)}, {list(solutions.shape)}"
        raise QubolearnError(f"{what}: expected puzzles and solutions [count, cells], got {shapes}")
    if len(broken := (~keeps_rules(solutions)).nonzero()[:, 0]):
        raise QubolearnError(f"{what}: grid {int(broken[0])} breaks a rule; remove it")
    if len(other := ((puzzles != 0) & (puzzles != solutions)).any(1).nonzero()[:, 0]):
        raise QubolearnError(f"{what}: hints of puzzle {int(other[0])} differ from its solution; remove it")
    return Sudokus(puzzles.long(), solutions.long())


def _read_compact(path: Path, name: SetName) -> tuple[Sudokus, Sudokus]:
    parts = {"satnet": 2} if name == "satnet" else {"rrn_validation": 2, "rrn_test": 3}
    required = {f"{part}_{kind}": ("iu", n) for part, n in parts.items() for kind in ("puzzle", "solution")}
    read = load_npz(path, required).items()
    arrays = {key: torch.from_numpy(a.astype(np.int64)).reshape(-1, 81) for key, a in read}
    found = [check_sudokus(arrays[f"{p}_puzzle"], arrays[f"{p}_solution"], f"{path}: {p}") for p in parts]
    if name == "satnet":
        return found[0].rows(slice(TESTED, None)), found[0].rows(slice(TESTED))
    return found[0], found[1]
