"""Grids with snakes: the colours of cells, random snakes, and grids of different sizes on one canvas.

A snake of ten cells wanders over a grid. The colour of a cell says where the snake went from there: up, down, left or
right; the last cell's colour points at background. All other cells have the colour of background.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.problems.structured import SnakeGrids

__all__ = ["COLOURS", "LABELS", "PADDING", "on_canvas", "random_snakes"]

LENGTH, LABELS = 10, 11
PADDING = 0  # the code of a cell beyond the grid; colours have the codes 1 to 5
#: RGB of background, then of down, left, up and right.
COLOURS = np.array([[0, 0, 255], [0, 255, 0], [0, 255, 255], [255, 0, 0], [255, 255, 0]], np.uint8)
STEPS = ((1, 0), (0, -1), (-1, 0), (0, 1))


def on_canvas(grids: SnakeGrids, rows: int, columns: int, what: str = "the data") -> tuple[Tensor, Tensor]:
    """Codes of colours and labels ``[grids, rows, columns]``, int64; padding has the code and the label 0.

    A grid that is larger than the canvas, a colour that is none of the five and a label above 10 are refused.

    >>> import numpy as np
    >>> one = SnakeGrids(np.array([[1, 2]]), COLOURS[[0, 1]], np.array([0, 1]))
    >>> codes, labels = on_canvas(one, 2, 2)
    >>> codes.tolist(), labels.tolist()
    ([[[1, 2], [0, 0]]], [[[0, 1], [0, 0]]])
    """
    known = (grids.image[:, None] == COLOURS).all(-1)
    if not known.any(1).all():
        cell = int(np.argmin(known.any(1)))
        raise QubolearnError(f"{what}: cell {cell} has colour {grids.image[cell].tolist()}; want one of the five")
    if len(grids.label) and grids.label.max() >= LABELS:
        cell = int(grids.label.argmax())
        raise QubolearnError(f"{what}: cell {cell} has label {grids.label[cell]}; want 0 to {LABELS - 1}")
    code = known.argmax(1) + 1
    codes, labels = np.zeros((2, len(grids.shape), rows, columns), np.int64)
    start = 0
    for number, (height, width) in enumerate(grids.shape.tolist()):
        if height > rows or width > columns:
            raise QubolearnError(
                f"{what}: grid {number} has {height} x {width} cells, more than rows={rows} x columns={columns}; "
                "raise these"
            )
        end = start + height * width
        codes[number, :height, :width] = code[start:end].reshape(height, width)
        labels[number, :height, :width] = grids.label[start:end].reshape(height, width)
        start = end
    return torch.from_numpy(codes), torch.from_numpy(labels)


def random_snakes(count: int, seed: int) -> SnakeGrids:
    """Different grids with a random snake each, and one cell of background around it, as in the dataset.

    >>> sorted(random_snakes(1, seed=0).label)[-10:] == list(range(1, 11))
    True
    """
    draw, seen = np.random.default_rng(seed), set[bytes]()
    shapes, images, labels = list[tuple[int, int]](), [], []
    while len(shapes) < count:
        walk = _walk(draw)
        if walk is None:
            continue
        cells, ways = walk
        cells = cells - cells.min(0) + 1
        height, width = cells.max(0) + 2
        image = np.tile(COLOURS[0], (height, width, 1))
        label = np.zeros((height, width), np.uint8)
        image[cells[:, 0], cells[:, 1]] = COLOURS[1 + ways]
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
    """Ten cells ``[10, 2]`` of a random walk that never meets itself, and the way on from each; None if it is stuck."""
    cells, ways = [(0, 0)], list[int]()
    while len(ways) < LENGTH:
        ahead = [(cells[-1][0] + down, cells[-1][1] + right) for down, right in STEPS]
        free = [way for way, cell in enumerate(ahead) if cell not in cells]
        if not free:
            return None
        ways.append(int(draw.choice(free)))
        cells.append(ahead[ways[-1]])
    return np.array(cells[:LENGTH]), np.array(ways)
