"""Sudoku grids: rules as a QUBO, random grids and puzzles, exact search.

A grid is a row of ``size * size`` digits from 1 on; empty cells of a puzzle are 0. Bit
``cell * size + digit - 1`` is 1 if the cell holds the digit. A cell is a one-hot
group, hints are clamped, and the energy counts pairs of cells that break a rule.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache

import torch
from torch import Generator, Tensor

from qubolearn.errors import QubolearnError
from qubolearn.qubo import FREE, Groups, SparseQubo

__all__ = [
    "all_small_grids",
    "bits_of",
    "clashes_of",
    "clashing_hints",
    "count_solutions",
    "exact_solutions",
    "grids_of",
    "hint_clamp",
    "keeps_rules",
    "random_grids",
    "random_puzzles",
    "rule_clashes",
    "rule_groups",
    "rule_qubo",
    "solutions",
]

#: Shuffled copies per grid of the search.
COPIES = 20
#: Partial grids that exact search extends together.
SEARCHED_AT_ONCE = 256


def bits_of(grids: Tensor) -> Tensor:
    """Encode digits ``[batch, size * size]`` as bits, int64."""
    return torch.nn.functional.one_hot(grids.long() - 1, math.isqrt(grids.shape[-1])).flatten(-2)


def grids_of(states: Tensor) -> Tensor:
    """Decode states ``[..., size ** 3]`` to digits, int64."""
    size = round(states.shape[-1] ** (1 / 3))
    _box(size if size**3 == states.shape[-1] else 0)
    return states.reshape(*states.shape[:-1], size**2, size).argmax(-1) + 1


def rule_qubo(size: int = 9, batch: int = 1) -> SparseQubo:
    """Return the rules as a QUBO: energy 1 for each pair of equal digits in one row, column or box.

    Size 9 has 729 bits and 7,290 pairs: 810 pairs of cells for each of 9 digits.
    """
    box, cell = _box(size), torch.arange(size**2)
    row, column = cell // size, cell % size
    units = torch.stack([row, column, row // box * box + column // box])
    pairs = (units[:, :, None] == units[:, None]).any(0).triu(1).nonzero()
    edges = (pairs[:, :, None] * size + torch.arange(size)).permute(1, 0, 2).reshape(2, -1)
    edges = edges[:, (edges[0] * size**3 + edges[1]).argsort()]
    one = SparseQubo(torch.zeros(1, size**3), edges, torch.ones(1, edges.shape[1]))
    return one.with_values(one.linear.expand(batch, -1), one.quadratic.expand(batch, -1))


def rule_groups(size: int = 9) -> Groups:
    """Return the groups of bits of each cell, of which exactly one is 1."""
    _box(size)
    return Groups.consecutive(size**2, size)


def hint_clamp(puzzles: Tensor) -> Tensor:
    """Return the clamped bits ``[batch, size ** 3]`` of puzzles ``[batch, size * size]``."""
    if puzzles.ndim != 2:
        raise QubolearnError(f"puzzles have shape {list(puzzles.shape)}; expected [batch, cells]")
    cells = puzzles.shape[1]
    size = math.isqrt(cells)
    _box(size if size**2 == cells else cells)
    given = puzzles.detach().cpu().double()
    digits = given.long()
    if len(wrong := ((given != digits) | (digits < 0) | (digits > size)).nonzero()):
        row, cell = wrong[0].tolist()
        expected = f"an integer from 1 to {size}, or 0 if empty"
        value = given[row, cell].item()
        raise QubolearnError(f"puzzle {row} has {value:g} in cell {cell}; expected {expected}")
    bits = (digits[:, :, None] == torch.arange(1, size + 1)).to(torch.int8)
    return torch.where((digits > 0)[:, :, None], bits, FREE).to(torch.int8).flatten(1)


def _box(size: int) -> int:
    """Return the side of a box."""
    box = math.isqrt(max(0, size))
    if box < 1 or box**2 != size:
        raise QubolearnError(f"Sudoku of size {size}; expected a square number, such as 4 or 9")
    return box


@cache
def rule_clashes(size: int) -> tuple[int, ...]:
    """Return a mask of the bits that the rules forbid next to each bit."""
    return clashes_of(rule_qubo(size))


def clashes_of(A: SparseQubo) -> tuple[int, ...]:
    """Return a mask of the bits with a positive coupling to each bit."""
    clashes = [0] * A.n
    for i, j in A.edges[:, A.quadratic[0] > 0].T.tolist():
        clashes[i] |= 1 << j
        clashes[j] |= 1 << i
    return tuple(clashes)


def clashing_hints(A: SparseQubo, puzzles: Tensor) -> list[str]:
    """Return the first two hints per puzzle that A forbids together, or ""."""
    shown, size = hint_clamp(puzzles) == 1, math.isqrt(puzzles.shape[1])
    i, j = A.edges.cpu()
    clash = shown[:, i] & shown[:, j] & (A.quadratic[0] > 0).cpu()
    remarks = [""] * len(puzzles)
    for row in clash.any(1).nonzero()[:, 0].tolist():
        edge = int(clash[row].nonzero()[0])
        digit, cells = int(i[edge]) % size + 1, sorted((int(i[edge]) // size, int(j[edge]) // size))
        remarks[row] = f"hints contradict each other: digit {digit} in cells {cells[0]} and {cells[1]}"
    return remarks


def keeps_rules(grids: Tensor) -> Tensor:
    """Return True for grids with every digit once per row, column and box."""
    size = math.isqrt(grids.shape[1])
    box = math.isqrt(size)
    rows = grids.reshape(-1, size, size)
    boxes = grids.reshape(-1, box, box, box, box).transpose(2, 3).reshape(-1, size, size)
    units = torch.cat([rows, rows.mT, boxes], 1).sort(2).values
    return (units == torch.arange(1, size + 1, device=grids.device)).flatten(1).all(1)


def random_grids(count: int, generator: Generator, size: int = 9) -> Tensor:
    """Return solved grids, twenty random shuffles per grid of a random search."""
    blank, bases = [0] * size**2, []
    for _ in range(math.ceil(count / COPIES)):
        order = torch.rand(size**2, size, generator=generator).tolist()
        bases.append(next(solutions(blank, order)))
    grids = torch.tensor(bases).reshape(-1, size, size).repeat_interleave(COPIES, 0)[:count]
    return _shuffled(grids, generator)


def _shuffled(grids: Tensor, generator: Generator) -> Tensor:
    """Shuffle grids ``[count, size, size]`` in ways that keep the rules."""
    count, size, _ = grids.shape
    box = math.isqrt(size)

    def lines() -> Tensor:
        """Draw an order of lines ``[count, size]`` that keeps bands together."""
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
    """Return puzzles that show ``hints`` cells of grids ``[batch, cells]``.

    With ``unique``, a puzzle keeps more hints if it would allow a second solution.
    """
    cells = grids.shape[1]
    if not 0 <= hints <= cells:
        raise QubolearnError(f"hints={hints}; expected 0 to {cells}")
    order = torch.rand(grids.shape, generator=generator).argsort(1)
    if not unique:
        return torch.where(order < hints, grids, 0)
    puzzles, rows = grids.clone(), torch.arange(len(grids))
    for cell in order.T:
        tried = puzzles.clone()
        tried[rows, cell] = 0
        emptied = ((puzzles > 0).sum(1) > hints) & (count_solutions(tried) == 1)
        puzzles = torch.where(emptied[:, None], tried, puzzles)
    return puzzles


@cache
def all_small_grids() -> Tensor:
    """Return all 288 solved grids of size 4, ``[288, 16]``."""
    return torch.tensor(list(solutions([0] * 16)))


def count_solutions(puzzles: Tensor, most: int = 2, A: SparseQubo | None = None) -> Tensor:
    """Return the number of solutions per puzzle, up to ``most``; A replaces the rules.

    >>> count_solutions(torch.tensor([[1, 0, 0, 0] + [0] * 12, [1, 1, 0, 0] + [0] * 12])).tolist()
    [2, 0]
    """
    return exact_solutions(puzzles, most, A)[0].bincount(minlength=len(puzzles)).clamp(max=most)


def exact_solutions(puzzles: Tensor, most: int = 1, A: SparseQubo | None = None) -> tuple[Tensor, Tensor]:
    """Search all puzzles at once until each has ``most`` solutions or has no more.

    A digit is forced if it is the last of a cell, or if its cell is the last of a row,
    column or box. If nothing is forced, all digits of the cell with the fewest are tried.

    Returns:
        The puzzle of each solution, sorted, and the grids ``[solutions, cells]``; some
        puzzles may have more than ``most``.
    """
    size = math.isqrt(puzzles.shape[1])
    chosen = (hint_clamp(puzzles) == 1).reshape(*puzzles.shape, size)  # [partial grids, cells, digits]
    A = rule_qubo(size) if A is None else A
    clash = torch.zeros(A.n, A.n)
    i, j = A.edges[:, A.quadratic[0] > 0]
    clash[i, j] = clash[j, i] = 1
    units = _full_units(clash, size)
    counts = torch.zeros(len(puzzles), dtype=torch.int64)
    found = [(counts[:0], puzzles[:0].long())]
    stack = [(torch.arange(len(puzzles)), chosen)]
    while stack:
        owner, chosen = stack.pop()
        if len(owner) > SEARCHED_AT_ONCE:
            stack += zip(*(torch.split(each, SEARCHED_AT_ONCE) for each in (owner, chosen)), strict=True)
            continue
        free = (chosen.flatten(1).float() @ clash == 0).reshape(chosen.shape)
        empty = ~chosen.any(2)
        free &= empty[..., None] | chosen
        digits, places = free.sum(2), free[:, units].sum(2)  # [grids, cells], [grids, units, digits]
        sound = (digits > 0).all(1) & (places > 0).flatten(1).all(1) & (counts[owner] < most)
        solved = sound & ~empty.any(1)
        found.append((owner[solved], chosen[solved].long().argmax(2) + 1))
        counts += owner[solved].bincount(minlength=len(counts))
        left = sound & ~solved
        owner, chosen, free, digits, places = (each[left] for each in (owner, chosen, free, digits, places))
        forced = free & (digits == 1)[..., None]
        for unit, once in zip(units, (places == 1).unbind(1), strict=True):
            forced[:, unit] |= free[:, unit] & once[:, None]
        forced &= ~chosen
        moved = forced.flatten(1).any(1)
        cell = digits.masked_fill(chosen.any(2), size + 1).argmin(1)
        row, digit = (free[torch.arange(len(cell)), cell] & ~moved[:, None]).nonzero().T
        tried = chosen[row]
        tried[torch.arange(len(row)), cell[row], digit] = True
        if len(owner):
            further = torch.cat([(chosen | forced)[moved], tried])
            stack.append((torch.cat([owner[moved], owner[row]]), further))
    owners, grids = (torch.cat(parts) for parts in zip(*found, strict=True))
    order = owners.argsort(stable=True)
    return owners[order], grids[order]


def _full_units(clash: Tensor, size: int) -> Tensor:
    """Return the rows, columns and boxes that hold each digit once."""
    box = _box(size)
    cells = torch.arange(size**2).reshape(size, size)
    boxes = cells.reshape(box, box, box, box).transpose(1, 2).reshape(size, size)
    units = torch.cat([cells, cells.T, boxes])
    same = clash.reshape(size**2, size, size**2, size).diagonal(dim1=1, dim2=3).bool().all(2)
    same.fill_diagonal_(True)
    return units[same[units[:, :, None], units[:, None]].flatten(1).all(1)]


def solutions(puzzle: Sequence[int], order: Sequence[Sequence[float]] | None = None) -> Iterator[list[int]]:
    """Yield all solutions, by backtracking from the cell with the fewest candidates.

    Args:
        puzzle: Digits, 0 for empty cells.
        order: Numbers for each cell and digit; low ones are tried first.
    """
    size = math.isqrt(len(puzzle))
    clashes, grid, full = rule_clashes(size), list(puzzle), (1 << size) - 1
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
        if order is not None:
            digits.sort(key=order[chosen].__getitem__)
        rest = [cell for cell in empty if cell != chosen]
        for digit in digits:
            grid[chosen] = digit + 1
            yield from fill(banned | clashes[chosen * size + digit], rest)
        grid[chosen] = 0

    yield from fill(banned, [cell for cell, digit in enumerate(grid) if not digit])
