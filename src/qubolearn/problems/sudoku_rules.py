"""The rules of Sudoku as a QUBO: a bit says that a cell holds a digit, energies count pairs that break a rule.

Bit ``cell * size + digit - 1`` of a grid of ``size * size`` cells, row by row, is 1 where the cell holds the digit. The
bits of a cell are a one-hot group, hints are clamped bits, and a grid is solved when its energy is 0.
"""

from __future__ import annotations

import math
from functools import cache

import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.qubo import FREE, Groups, SparseQubo

__all__ = [
    "bits_of",
    "clashes_of",
    "clashing_hints",
    "grids_of",
    "hint_clamp",
    "rule_clashes",
    "rule_groups",
    "rule_qubo",
]


def bits_of(grids: Tensor) -> Tensor:
    """Digits ``[batch, size * size]`` as bits ``[batch, size ** 3]``, int64.

    >>> bits_of(torch.tensor([[2] + 15 * [1]]))[0, :6].tolist()
    [0, 1, 0, 0, 1, 0]
    """
    return torch.nn.functional.one_hot(grids.long() - 1, math.isqrt(grids.shape[-1])).flatten(-2)


def rule_qubo(size: int = 9, batch: int = 1) -> SparseQubo:
    """Energy 1 for every pair of cells in one row, column or box that hold the same digit; the same for all instances.

    Of size 9 that are 729 bits and 7,290 pairs: 810 pairs of cells for each of 9 digits.

    >>> rule_qubo(4)
    SparseQubo(batch=1, n=64, edges=224, dtype=torch.float32, device=cpu)
    """
    box = _box(size)
    cell = torch.arange(size**2)
    row, column = cell // size, cell % size
    block = row // box * box + column // box
    together = (row[:, None] == row) | (column[:, None] == column) | (block[:, None] == block)
    pairs = together.triu(1).nonzero()
    edges = (pairs[:, :, None] * size + torch.arange(size)).permute(1, 0, 2).reshape(2, -1)
    edges = edges[:, (edges[0] * size**3 + edges[1]).argsort()]
    one = SparseQubo(torch.zeros(1, size**3), edges, torch.ones(1, edges.shape[1]))
    return one.with_values(one.linear.expand(batch, -1), one.quadratic.expand(batch, -1))


def rule_groups(size: int = 9) -> Groups:
    """The bits of each cell, of which exactly one is 1."""
    _box(size)
    return Groups.consecutive(size**2, size)


def hint_clamp(puzzles: Tensor) -> Tensor:
    """Puzzles ``[batch, size * size]`` of digits, 0 where a cell is empty, as clamped bits ``[batch, size ** 3]``.

    >>> hint_clamp(torch.tensor([[2] + 15 * [0]]))[0, :6].tolist()
    [0, 1, 0, 0, -1, -1]
    """
    if puzzles.ndim != 2:
        raise QubolearnError(f"puzzles have shape {list(puzzles.shape)}; want [batch, cells]")
    cells = puzzles.shape[1]
    size = math.isqrt(cells)
    _box(size if size**2 == cells else cells)
    given = puzzles.detach().cpu()
    digits = given.long()
    if not torch.equal(given.double(), digits.double()):
        row, cell = (given.double() != digits.double()).nonzero()[0].tolist()
        raise QubolearnError(f"puzzle {row} has {given[row, cell].item():g} in cell {cell}; want whole digits")
    if digits.numel() and not 0 <= int(digits.min()) <= int(digits.max()) <= size:
        raise QubolearnError(f"digits from {int(digits.min())} to {int(digits.max())}; want 1 to {size}, 0 for empty")
    bits = (digits[:, :, None] == torch.arange(1, size + 1)).to(torch.int8)
    return torch.where((digits > 0)[:, :, None], bits, FREE).to(torch.int8).flatten(1)


def grids_of(states: Tensor) -> Tensor:
    """States ``[..., size ** 3]`` with one bit a cell as digits ``[..., size * size]``, int64."""
    size = round(states.shape[-1] ** (1 / 3))
    _box(size if size**3 == states.shape[-1] else 0)
    return states.reshape(*states.shape[:-1], size**2, size).argmax(-1) + 1


def _box(size: int) -> int:
    """The side of a box."""
    box = math.isqrt(max(0, size))
    if box < 1 or box**2 != size:
        raise QubolearnError(f"a Sudoku of size {size}; want a square number, such as 4 or 9")
    return box


@cache
def rule_clashes(size: int) -> tuple[int, ...]:
    """For each bit the bits that the rules forbid beside it, as the bits of a whole number."""
    return clashes_of(rule_qubo(size))


def clashes_of(A: SparseQubo) -> tuple[int, ...]:
    """For each bit those coupled to it above 0 in a batch of one, as the bits of a whole number."""
    clashes = [0] * A.n
    for i, j in A.edges[:, A.quadratic[0] > 0].T.tolist():
        clashes[i] |= 1 << j
        clashes[j] |= 1 << i
    return tuple(clashes)


def clashing_hints(A: SparseQubo, puzzles: Tensor) -> list[str]:
    """For each puzzle the first two hints that a rule of A forbids beside each other, in words, or nothing."""
    shown, size = hint_clamp(puzzles) == 1, math.isqrt(puzzles.shape[1])
    i, j = A.edges.cpu()
    clash = shown[:, i] & shown[:, j] & (A.quadratic[0] > 0).cpu()
    said = [""] * len(puzzles)
    for row in clash.any(1).nonzero()[:, 0].tolist():
        edge = int(clash[row].nonzero()[0])
        digit, cells = int(i[edge]) % size + 1, sorted((int(i[edge]) // size, int(j[edge]) // size))
        said[row] = f"hints contradict each other: digit {digit} in cells {cells[0]} and {cells[1]}"
    return said
