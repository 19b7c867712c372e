"""Solved grids and puzzles of Sudoku, made here: random backtracking, shuffles that keep the rules, and a counter.

A grid is a row of ``size * size`` digits from 1 on, a puzzle one with 0 where a cell is empty.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache

import torch
from torch import Generator, Tensor

from qubolearn.errors import QubolearnError
from qubolearn.problems.sudoku_rules import rule_clashes

__all__ = [
    "all_small_grids",
    "count_solutions",
    "keeps_rules",
    "random_grids",
    "random_puzzles",
    "solutions",
]

#: One grid in so many is found by backtracking of its own; the others are shuffled copies of these.
COPIES = 20


def random_grids(count: int, generator: Generator, size: int = 9) -> Tensor:
    """``count`` random solved grids ``[count, size * size]``, int64.

    One grid in twenty is found by backtracking with a random order of digits, so that grids come from many
    classes of symmetry. From each of these twenty are made by renaming digits, swapping bands, rows in a band, stacks
    and columns in a stack, and transposing.
    """
    blank = [0] * size**2
    bases = []
    for _ in range(math.ceil(count / COPIES)):
        luck = torch.rand(size**2, size, generator=generator).tolist()
        bases.append(next(solutions(blank, luck)))
    grids = torch.tensor(bases).reshape(-1, size, size).repeat_interleave(COPIES, 0)[:count]
    return _shuffled(grids, generator)


def _shuffled(grids: Tensor, generator: Generator) -> Tensor:
    """Each grid ``[count, size, size]`` shuffled in a way that keeps the rules: ``[count, size * size]``."""
    count, size, _ = grids.shape
    box = math.isqrt(size)

    def lines() -> Tensor:
        """An order of lines that keeps bands together, ``[count, size]``."""
        bands = torch.rand(count, box, generator=generator).argsort(1)
        inner = torch.rand(count, box, box, generator=generator).argsort(2)
        return (bands[:, :, None] * box + inner).flatten(1)

    rows, columns = lines(), lines()
    grids = grids.gather(1, rows[:, :, None].expand_as(grids)).gather(2, columns[:, None].expand_as(grids))
    turn = torch.rand(count, generator=generator) < 0.5
    grids = torch.where(turn[:, None, None], grids.mT, grids)
    names = torch.rand(count, size, generator=generator).argsort(1) + 1
    return names.gather(1, grids.flatten(1) - 1)


def random_puzzles(grids: Tensor, hints: int, generator: Generator, unique: bool = False) -> Tensor:
    """Puzzles ``[batch, cells]`` with ``hints`` shown cells of grids ``[batch, cells]``, 0 elsewhere.

    With ``unique`` cells are emptied in a random order unless that would allow a second solution; where no further
    cell can be emptied, a puzzle keeps more hints than asked for.
    """
    cells = grids.shape[1]
    if not 0 <= hints <= cells:
        raise QubolearnError(f"hints={hints}; want 0 to {cells}")
    order = torch.rand(grids.shape, generator=generator).argsort(1)
    if not unique:
        return torch.where(order < hints, grids, 0)
    puzzles = []
    for grid, cells_in_order in zip(grids.tolist(), order.tolist(), strict=True):
        puzzle, left = list(grid), cells
        for cell in cells_in_order:
            if left == hints:
                break
            puzzle[cell], digit = 0, puzzle[cell]
            if count_solutions(puzzle) == 1:
                left -= 1
            else:
                puzzle[cell] = digit
        puzzles.append(puzzle)
    return torch.tensor(puzzles).reshape(grids.shape)


def count_solutions(puzzle: Sequence[int], most: int = 2, clashes: Sequence[int] | None = None) -> int:
    """How many solutions a puzzle has under the rules or other ``clashes``; counting ends at ``most``.

    >>> count_solutions([1, 0, 0, 0] + [0] * 12), count_solutions([1, 1, 0, 0] + [0] * 12)
    (2, 0)
    """
    return sum(1 for _, _ in zip(range(most), solutions(puzzle, clashes=clashes), strict=False))


@cache
def all_small_grids() -> Tensor:
    """All 288 solved grids of size 4, ``[288, 16]``."""
    return torch.tensor(list(solutions([0] * 16)))


def keeps_rules(grids: Tensor) -> Tensor:
    """Whether each grid ``[batch, size * size]`` holds every digit once in every row, column and box: bool ``[batch]``.

    >>> keeps_rules(torch.stack([all_small_grids()[0], torch.ones(16, dtype=torch.int64)])).tolist()
    [True, False]
    """
    size = math.isqrt(grids.shape[1])
    box = math.isqrt(size)
    rows = grids.reshape(-1, size, size)
    boxes = grids.reshape(-1, box, box, box, box).transpose(2, 3).reshape(-1, size, size)
    digits = torch.arange(1, size + 1, device=grids.device)
    units = torch.cat([rows, rows.mT, boxes], 1).sort(2).values
    return (units == digits).flatten(1).all(1)


def solutions(
    puzzle: Sequence[int], luck: Sequence[Sequence[float]] | None = None, clashes: Sequence[int] | None = None
) -> Iterator[list[int]]:
    """All solutions of a puzzle, by backtracking from the cell of fewest candidates.

    ``luck``, numbers for each cell and digit, gives the order in which digits are tried. ``clashes`` are the rules, as
    :func:`qubolearn.problems.sudoku_rules.rule_clashes` has them; others may be learned.
    """
    size = math.isqrt(len(puzzle))
    clashes, grid, full = clashes or rule_clashes(size), list(puzzle), (1 << size) - 1
    banned = 0
    for cell, digit in enumerate(grid):
        if digit:
            bit = cell * size + digit - 1
            if banned >> bit & 1:
                return
            banned |= clashes[bit]

    def fill(banned: int, empty: list[int]) -> Iterator[list[int]]:
        if not empty:
            yield list(grid)
            return
        fewest, chosen, options = size + 1, -1, 0
        for cell in empty:
            free = ~(banned >> cell * size) & full
            if (count := free.bit_count()) < fewest:
                fewest, chosen, options = count, cell, free
                if count < 2:
                    break
        digits = [digit for digit in range(size) if options >> digit & 1]
        if luck is not None:
            digits.sort(key=luck[chosen].__getitem__)
        rest = [cell for cell in empty if cell != chosen]
        for digit in digits:
            grid[chosen] = digit + 1
            yield from fill(banned | clashes[chosen * size + digit], rest)
        grid[chosen] = 0

    yield from fill(banned, [cell for cell, digit in enumerate(grid) if not digit])
