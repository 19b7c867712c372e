"""snakes: number the ten cells of a snake on a grid, from tail to head.

The color of a cell is the direction of the snake's next cell; all other cells have that of
background. Bit ``cell * 11 + label`` of a canvas of ``rows * columns`` cells is 1 if the cell has
the label: 0 for background, 1 to 10 along the snake. The bits of a cell are a one-hot group. Grids
are in the upper left corner; bits of other cells, the padding, are clamped to background.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from quant_reproduction.datasets.files import cached_data
from quant_reproduction.problems import check_range
from quant_reproduction.problems.structured import Pool, PoolProblem, SnakeGrids, read_snakes
from qubolearn.chips.topologies import Topology
from qubolearn.data.contract import Instances
from qubolearn.errors import QubolearnError
from qubolearn.qubo import FREE, Groups
from qubolearn.solvers.tempering import ParallelTempering

LENGTH, LABELS = 10, 11
PADDING = 0  # the code of a cell outside the grid; colors have the codes 1 to 5
#: RGB of background, then of down, left, up and right.
COLORS = np.array([[0, 0, 255], [0, 255, 0], [0, 255, 255], [255, 0, 0], [255, 255, 0]], np.uint8)
STEPS = ((1, 0), (0, -1), (-1, 0), (0, 1))

#: Generated grids, as many as in the dataset, and those of them for training.
GENERATED, TRAINED = 300, 200


@dataclass(frozen=True)
class Snakes(PoolProblem):
    """Number the cells of a snake: p are color codes ``[rows * columns]``."""

    name: ClassVar[str] = "snakes"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {  # chosen on held-out grids
        "best": {"network": "grid", "hidden": 64, "topology": "own", "loss": "group-pseudo", "masking": 0.5}
        | {"beta": 3.0, "learning_rate": 3e-3, "fresh": False}
        | {"epochs": 60, "instances": 150, "batch_size": 10, "validation": 40}
    }

    source: Literal["data", "generated"] = "data"
    """The dataset in $QUBOLEARN_DATA/structured, or random snakes."""
    rows: int = 10
    """Rows of the canvas."""
    columns: int = 11
    """Columns of the canvas."""
    held_out: int = 40
    """Training grids that are held out for validation."""

    def __post_init__(self) -> None:
        check_range(self, 1, math.inf, "rows", "columns")
        check_range(self, 0, math.inf, "held_out")

    @property
    def input_size(self) -> int:
        return self.rows * self.columns

    @property
    def bits(self) -> int:
        return self.rows * self.columns * LABELS

    @property
    def grid(self) -> tuple[int, int, int, int]:
        """Rows, columns, symbols and labels, for the network ``grid``."""
        return self.rows, self.columns, len(COLORS), LABELS

    def topology(self) -> Topology:
        """Return couplers between all bits of neighboring cells."""
        return grid_pattern(self.rows, self.columns, LABELS)

    @cached_property
    def groups(self) -> Groups:
        return Groups.consecutive(self.rows * self.columns, LABELS)

    def clamp(self, p: Tensor) -> Tensor:
        """Clamp padding to background; all other bits are free."""
        if p.shape[1] != self.input_size:
            cells = f"{self.rows} x {self.columns} cells"
            raise QubolearnError(f"expected p with {cells}, got {p.shape[1]}; pad grids with 0")
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
        """Return labels ``[batch, cells]``; -1 for a cell without exactly one label."""
        cells = x.reshape(len(x), -1, LABELS)
        return torch.where(cells.sum(-1) == 1, cells.argmax(-1), -1)

    def score(self, answer: Tensor, instances: Instances) -> dict[str, Tensor]:
        """Return ``accuracy`` over all cells, ``snake`` over its own, ``all_right``."""
        there = instances.p != PADDING
        right, body = (answer == instances.answer) & there, instances.answer > 0
        snake = (right & body).sum(1) / body.sum(1).clamp_min(1)
        all_right = (right == there).all(1).float()
        return {"accuracy": right.sum(1) / there.sum(1), "snake": snake, "all_right": all_right}


@lru_cache(maxsize=8)
def grid_pattern(rows: int, columns: int, labels: int) -> Topology:
    """Couple all bits of a cell with those of the cells right and below."""
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
    if source == "generated":
        return Pool(*on_canvas(random_snakes(GENERATED, seed=0), rows, columns), TRAINED)
    parts = read_snakes()
    placed = [on_canvas(grids, rows, columns, f"snakes, {part}") for part, grids in parts.items()]
    codes, labels = (torch.cat(both) for both in zip(*placed, strict=True))
    return Pool(codes, labels, len(parts["train"].shape))


def on_canvas(grids: SnakeGrids, rows: int, columns: int, what: str = "the data") -> tuple[Tensor, Tensor]:
    """Return codes of colors and labels ``[grids, rows, columns]``."""
    known = (grids.image[:, None] == COLORS).all(-1)
    if not known.any(1).all():
        cell = int(np.argmin(known.any(1)))
        raise QubolearnError(f"{what}: expected one of the five colors, got {grids.image[cell].tolist()}")
    if len(grids.label) and grids.label.max() >= LABELS:
        cell = int(grids.label.argmax())
        raise QubolearnError(f"{what}: expected labels 0 to 10, got {grids.label[cell]} in cell {cell}")
    code = known.argmax(1) + 1
    codes, labels = np.zeros((2, len(grids.shape), rows, columns), np.int64)
    start = 0
    for number, (height, width) in enumerate(grids.shape.tolist()):
        if height > rows or width > columns:
            size = f"{height} x {width} in {number}"
            raise QubolearnError(f"{what}: expected grids up to {rows} x {columns}, got {size}")
        end = start + height * width
        codes[number, :height, :width] = code[start:end].reshape(height, width)
        labels[number, :height, :width] = grids.label[start:end].reshape(height, width)
        start = end
    return torch.from_numpy(codes), torch.from_numpy(labels)


def random_snakes(count: int, seed: int) -> SnakeGrids:
    """Generate different grids with one snake and a margin each."""
    draw, seen = np.random.default_rng(seed), set[bytes]()
    shapes, images, labels = list[tuple[int, int]](), [], []
    while len(shapes) < count:
        walk = _walk(draw)
        if walk is None:
            continue
        cells, ways = walk
        cells = cells - cells.min(0) + 1
        height, width = cells.max(0) + 2
        image = np.tile(COLORS[0], (height, width, 1))
        label = np.zeros((height, width), np.uint8)
        image[cells[:, 0], cells[:, 1]] = COLORS[1 + ways]
        label[cells[:, 0], cells[:, 1]] = np.arange(1, LENGTH + 1)
        key = label.tobytes() + image.tobytes()
        if key not in seen:
            seen.add(key)
            shapes.append((int(height), int(width)))
            images.append(image.reshape(-1, 3))
            labels.append(label.ravel())
    shape = np.array(shapes, np.int16).reshape(-1, 2)
    return SnakeGrids(shape, np.concatenate(images), np.concatenate(labels))


def _walk(draw: np.random.Generator) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.int64]], ...] | None:
    """Return a self-avoiding walk ``[10, 2]`` and its directions, or None."""
    cells, ways = [(0, 0)], list[int]()
    while len(ways) < LENGTH:
        ahead = [(cells[-1][0] + down, cells[-1][1] + right) for down, right in STEPS]
        free = [way for way, cell in enumerate(ahead) if cell not in cells]
        if not free:
            return None
        ways.append(int(draw.choice(free)))
        cells.append(ahead[ways[-1]])
    return np.array(cells[:LENGTH]), np.array(ways)
