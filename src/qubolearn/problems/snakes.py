"""snakes: number the ten cells of a snake on a grid, from tail to head; which cell follows which only colours say.

Bit ``cell * 11 + label`` of a canvas of ``rows * columns`` cells is 1 where the cell has the label: 0 for background, 1
to 10 along the snake. The bits of a cell are a one-hot group. Grids of all sizes lie in the canvas's upper left corner;
the cells beyond them are padding, whose bits are clamped to background.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from qubolearn.chips.topologies import Topology
from qubolearn.errors import QubolearnError
from qubolearn.problems.contract import Instances
from qubolearn.problems.data import cached_data
from qubolearn.problems.pools import Pool, PoolProblem
from qubolearn.problems.snake_grids import COLOURS, LABELS, PADDING, on_canvas, random_snakes
from qubolearn.problems.structured import SnakeGrids, read_snakes
from qubolearn.qubo import FREE, Groups
from qubolearn.solvers.tempering import ParallelTempering

__all__ = ["GridShape", "Snakes", "grid_pattern"]

#: Grids where data is generated: as many as in the dataset.
GENERATED = {"train": 200, "test": 100}


class GridShape(NamedTuple):
    """What a network for grids must know: p holds a symbol for each cell, 0 for padding, and each cell has a label."""

    rows: int
    columns: int
    symbols: int
    labels: int


@dataclass(frozen=True)
class Snakes(PoolProblem):
    """Number the cells of a snake: p are codes of colours ``[rows * columns]``, 0 beyond the grid, the answer labels.

    ``accuracy`` is the share of a grid's cells that are right, without padding. Splits are those of
    :class:`qubolearn.problems.pools.PoolProblem`.
    """

    name: ClassVar[str] = "snakes"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {  # chosen on held-out grids: 60 epochs of the 150 others
        "best": {
            "network": "grid",
            "hidden": 64,
            "topology": "own",
            "loss": "group-pseudo",
            "masking": 0.5,
            "beta": 3.0,
        }
        | {"learning_rate": 3e-3, "fresh": False, "epochs": 60, "instances": 150, "batch_size": 10, "validation": 40}
    }

    source: Literal["data", "generated"] = "data"
    """The dataset in $QUBOLEARN_DATA/structured, or random snakes, which need no files."""
    rows: int = 10
    """Rows of the canvas; a grid with more is refused."""
    columns: int = 11
    """Columns of the canvas."""
    held_out: int = 40
    """Training grids that are kept for validation."""

    def __post_init__(self) -> None:
        if min(self.rows, self.columns) < 1 or self.held_out < 0:
            raise QubolearnError(
                f"rows={self.rows}, columns={self.columns}, held_out={self.held_out}; want at least 1, 1 and 0"
            )

    @property
    def input_size(self) -> int:
        return self.rows * self.columns

    @property
    def bits(self) -> int:
        return self.rows * self.columns * LABELS

    @property
    def grid(self) -> GridShape:
        """What the network ``grid`` needs to know."""
        return GridShape(self.rows, self.columns, len(COLOURS), LABELS)

    def topology(self) -> Topology:
        """Couplers between all bits of neighbouring cells: the topology ``own``."""
        return grid_pattern(self.rows, self.columns, LABELS)

    @cached_property
    def groups(self) -> Groups:
        return Groups.consecutive(self.rows * self.columns, LABELS)

    def clamp(self, p: Tensor) -> Tensor:
        """Cells of padding are background; all other bits are free."""
        if p.shape[1] != self.input_size:
            raise QubolearnError(
                f"p has {p.shape[1]} cells; want {self.rows} x {self.columns}, those of the canvas: pad grids with 0"
            )
        background = torch.eye(LABELS, dtype=torch.int8, device=p.device)[0]
        return torch.where((p == PADDING)[:, :, None], background, FREE).to(torch.int8).flatten(1)

    def default_solver(self) -> ParallelTempering:
        return ParallelTempering(sweeps=300, seed=0)

    def _instances(self, rows: Tensor, device: torch.device) -> Instances:
        pool = self._pool()
        answer = pool.answer[rows].flatten(1).to(device)
        x = torch.nn.functional.one_hot(answer, LABELS).flatten(1).float()
        return Instances(pool.p[rows].flatten(1).float().to(device), x, answer)

    def _pool(self) -> Pool:
        return _load(self.source, self.rows, self.columns)

    def decode(self, x: Tensor) -> Tensor:
        """Labels ``[batch, cells]``; a cell without exactly one label says -1."""
        cells = x.reshape(len(x), -1, LABELS)
        return torch.where(cells.sum(-1) == 1, cells.argmax(-1), -1)

    def score(self, answer: Tensor, instances: Instances) -> dict[str, Tensor]:
        """``accuracy`` over the grid's cells, ``snake`` over those of the snake, and ``all_right``."""
        there = instances.p != PADDING
        right, body = (answer == instances.answer) & there, instances.answer > 0
        return {
            "accuracy": right.sum(1) / there.sum(1),
            "snake": (right & body).sum(1) / body.sum(1).clamp_min(1),
            "all_right": (right == there).all(1).float(),
        }

    def picture(self, axis: Any, instances: Instances, answer: Tensor) -> None:
        """Draw one grid on a matplotlib axis: its colours, and the labels of the snake; wrong ones in white on red."""
        codes, found, true = (
            one[0].long().reshape(self.rows, self.columns) for one in (instances.p, answer, instances.answer)
        )
        height, width = (int((codes > 0).any(1 - side).sum()) for side in (0, 1))
        axis.imshow(np.concatenate([np.full((1, 3), 255, np.uint8), COLOURS])[codes[:height, :width].numpy()])
        for i, j in (codes > 0).nonzero().tolist():
            label, wrong = int(found[i, j]), bool(found[i, j] != true[i, j])
            if label or wrong:
                box = {"facecolor": "red", "pad": 1, "linewidth": 0} if wrong else None
                axis.text(j, i, label, ha="center", va="center", color="white" if wrong else "black", bbox=box)


@lru_cache(maxsize=8)
def grid_pattern(rows: int, columns: int, labels: int) -> Topology:
    """All bits of a cell coupled with all bits of the cells to its right and below.

    >>> len(grid_pattern(2, 2, 3).couplers)  # four pairs of cells
    36
    """
    found = []
    for cell in range(rows * columns):
        right, below = cell % columns + 1 < columns, cell + columns < rows * columns
        others = [cell + 1] * right + [cell + columns] * below
        for label in range(labels):
            here = cell * labels + label
            found += [(here, other * labels + its) for other in sorted(set(others)) for its in range(labels)]
    return Topology("own", rows * columns * labels, tuple(found))


@cached_data(4)
def _load(source: str, rows: int, columns: int) -> Pool:
    """Codes and labels of all grids."""
    if source == "data":
        parts = read_snakes()
    else:
        made = random_snakes(sum(GENERATED.values()), seed=0)
        cells = made.shape[: GENERATED["train"]].astype(np.int64).prod(1).sum()
        cut = {"shape": GENERATED["train"], "image": cells, "label": cells}
        parts = {
            "train": SnakeGrids(*(getattr(made, name)[:place] for name, place in cut.items())),
            "test": SnakeGrids(*(getattr(made, name)[place:] for name, place in cut.items())),
        }
    placed = [on_canvas(parts[part], rows, columns, f"snakes, {part}") for part in ("train", "test")]
    codes, labels = (torch.cat(both) for both in zip(*placed, strict=True))
    return Pool(codes, labels, len(parts["train"].shape))
