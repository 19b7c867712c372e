"""A network for labels on grids: a cell's picture gives its linear terms, two neighbours' pictures their couplings.

The same weights serve all cells and all pairs, so grids of any size can be mixed in one batch, on one canvas.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot, pad

from qubolearn.errors import QubolearnError

__all__ = ["GridBody"]


class GridBody(nn.Module):
    """p ``[batch, rows * columns]``, a symbol for each cell, 0 beyond the grid -> entries of A ``[batch, entries]``.

    A cell's picture u shows the symbols of the 3 x 3 cells around it. A small network of u gives the linear terms of
    the cell's labels; one of (u, u') all couplings with its right neighbour, another those with the neighbour below.
    Entries of padding are 0, so a larger canvas changes nothing. Their order is that of
    :func:`qubolearn.problems.snakes.grid_pattern`.

    Args:
        rows, columns: of the canvas.
        symbols: how many there are; codes are 1 to ``symbols``.
        labels: of a cell.
        couplings: False leaves them out, for the methods *diag* and *pure*.
        hidden: the width of the small networks.

    >>> GridBody(2, 2, symbols=5, labels=3, couplings=True, hidden=8)(torch.ones(1, 4)).shape
    torch.Size([1, 48])
    """

    exists: Tensor  # [couplers]: which of the pairs (cell, label, neighbour, its label) do

    def __init__(
        self, rows: int, columns: int, symbols: int, labels: int, couplings: bool = True, hidden: int = 64
    ) -> None:
        super().__init__()
        self.rows, self.columns, self.symbols, self.labels = rows, columns, symbols, labels
        picture = 9 * symbols
        self.own = nn.Sequential(nn.Linear(picture, hidden), nn.ReLU(), nn.Linear(hidden, labels))
        ways = 2 if couplings else 0  # right, below
        self.pairs = nn.ModuleList(
            nn.Sequential(nn.Linear(2 * picture, hidden), nn.ReLU(), nn.Linear(hidden, labels**2)) for _ in range(ways)
        )
        cell = torch.arange(rows * columns)
        there = torch.stack([cell % columns + 1 < columns, cell + columns < rows * columns], 1)  # [cells, 2]
        there = there[:, None, :, None].expand(-1, labels, -1, labels).flatten()
        self.register_buffer("exists", there.nonzero()[:, 0], persistent=False)

    def forward(self, p: Tensor) -> Tensor:
        inside = (p > 0).to(p.dtype)
        u = self.pictures(p)
        outputs = [(self.own(u) * inside[:, :, None]).flatten(1)]
        if len(self.pairs):
            beyond = self.columns  # cells after the last one, which no coupling exists with
            u, inside = pad(u, (0, 0, 0, beyond)), pad(inside, (0, beyond))
            cells = p.shape[1]
            found = []
            for step, network in zip((1, self.columns), self.pairs, strict=True):
                both = network(torch.cat([u[:, :cells], u[:, step : cells + step]], -1))
                both = both * (inside[:, :cells] * inside[:, step : cells + step])[:, :, None]
                found.append(both.unflatten(-1, (self.labels, self.labels)))
            pairs = torch.stack(found, 3)  # [batch, cell, label, way, label]
            outputs.append(pairs.flatten(1).index_select(1, self.exists))
        return torch.cat(outputs, 1)

    def pictures(self, p: Tensor) -> Tensor:
        """What stands in the 3 x 3 cells around each: ``[batch, cells, 9 * symbols]``, all 0 beyond the grid."""
        codes = p.reshape(-1, self.rows, self.columns).long()
        if codes.numel() and not 0 <= int(codes.min()) <= int(codes.max()) <= self.symbols:
            wrong = int(codes.max()) if int(codes.max()) > self.symbols else int(codes.min())
            raise QubolearnError(f"p holds the symbol {wrong}; want 1 to {self.symbols}, and 0 beyond the grid")
        seen = pad(one_hot(codes, self.symbols + 1)[..., 1:].float(), (0, 0, 1, 1, 1, 1))
        around = [seen[:, i : i + self.rows, j : j + self.columns] for i in range(3) for j in range(3)]
        return torch.cat(around, -1).flatten(1, 2)
