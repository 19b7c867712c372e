"""Visual Sudoku: hints are pictures of digits, and what a reader says of them enters as biases beside the rules.

A reader that is right for 99 digits of 100 reads a whole puzzle of 36 hints right in two of three cases. The grid of
lowest energy under rules and biases together corrects it: it is the most probable grid among those that keep the rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Generator, Tensor

from qubolearn.errors import QubolearnError
from qubolearn.problems.contract import Instances, Split
from qubolearn.problems.data import cached_data, data_folder, load_npz
from qubolearn.problems.sudoku import Sudoku, bits_of, on_cpu
from qubolearn.problems.sudoku_rules import rule_clashes
from qubolearn.randomness import stream
from qubolearn.solvers import Solver
from qubolearn.solvers.tempering import ParallelTempering

__all__ = ["VisualSudoku", "most_probable_grid", "reader_costs"]

#: Probabilities below this count as this: a picture says at most so much, -log of which is 27.6.
LEAST_PROBABILITY = 1e-12
#: What a broken rule costs: more than any picture can say.
STRENGTH = 30.0


@dataclass(frozen=True)
class VisualSudoku(Sudoku):
    """Sudokus whose hints are pictures: p is -log of the reader's probability of each digit, 0 for empty cells.

    Given are the cells that have a picture, and that a cell holds one digit; the rules are learned from solved grids.
    Pictures of the test split are in no other split. An answer is right where it is the grid of the puzzle.
    """

    name: ClassVar[str] = "visual-sudoku"
    #: Options of the network that shares one A.
    shared: ClassVar[dict[str, Any]] = {"biases": True, "strength": STRENGTH}

    unique: bool = True
    """Make sure that each generated puzzle has one solution; some then keep more hints."""
    reader: Literal["digits", "mnist"] = "digits"
    """Who reads which pictures: a small network scikit-learn's 8 x 8 digits; LeNet those of MNIST, whose probabilities
    for the test digits lie in $QUBOLEARN_DATA/sudoku."""

    @property
    def input_size(self) -> int:
        return self.bits

    def clamp(self, p: Tensor) -> None:  # type: ignore[override]
        return None

    def default_solver(self) -> Solver:
        return ParallelTempering(sweeps=10_000, target="bound", seed=0)

    def sample(self, count: int, generator: Generator, split: Split = "train") -> Instances:
        draw = on_cpu(generator)
        puzzles, grids = self.draw(count, draw, split)
        scores, labels = digit_scores(self.reader, split)
        p = reader_costs(scores[_pictures(puzzles, labels, draw)], puzzles > 0, self.size)
        return Instances(p, bits_of(grids).float(), grids).to(generator.device)

    def score(self, answer: Tensor, instances: Instances) -> dict[str, Tensor]:
        """``accuracy``: whether all cells are right; ``cells``: the share of those that are; ``read``: whether the most
        probable digit of every picture is right, which decides what reading alone can do."""
        right, seen = answer == instances.answer, self.shown(instances.p)
        read = ((seen == instances.answer) | (seen == 0)).all(1)
        return {"accuracy": right.all(1).float(), "cells": right.float().mean(1), "read": read.float()}

    def shown(self, p: Tensor) -> Tensor:
        """The most probable digit of every picture ``[batch, cells]``, 0 where there is none."""
        costs = p.reshape(len(p), -1, self.size)
        return torch.where((costs == 0).all(2), 0, costs.argmin(2) + 1)

    def remarks(self, answer: Tensor, p: Tensor) -> list[str]:
        """Whether each answer keeps the rules, and how many pictures it takes for another digit than the reader."""
        seen = self.shown(p)
        other = ((seen != answer) & (seen > 0)).sum(1).tolist()
        good = super().score(answer, Instances(torch.zeros_like(answer), p, answer))["accuracy"].tolist()
        return [
            f"{'solved' if ok else 'not solved'}, {n} pictures read otherwise"
            for ok, n in zip(good, other, strict=True)
        ]


def reader_costs(scores: Tensor, shown: Tensor, size: int) -> Tensor:
    """A reader's probabilities of the digits 0 to 9 ``[batch, cells, 10]`` as p ``[batch, cells * size]``.

    >>> costs = reader_costs(torch.full((1, 16, 10), 0.1), torch.arange(16)[None] < 1, 4)  # one picture, nothing known
    >>> [f"{cost:.2f}" for cost in costs[0, :5]]
    ['2.30', '2.30', '2.30', '2.30', '0.00']
    """
    costs = -scores[:, :, 1 : size + 1].clamp_min(LEAST_PROBABILITY).log()
    return torch.where(shown[:, :, None], costs, 0.0).flatten(1)


def digit_scores(reader: str, split: Split) -> tuple[Tensor, Tensor]:
    """A reader's probabilities ``[pictures, 10]`` for pictures of a split, and their labels ``[pictures]``.

    A random tenth of the pictures belongs to training and validation, all others to the test split.
    """
    if reader == "digits":
        from qubolearn.problems.digit_reader import scores_of_digits

        scores, labels = scores_of_digits()
    else:
        scores, labels = _mnist_scores()
    order = torch.randperm(len(labels), generator=stream(0, "pictures"))
    part = order[len(order) // 10 :] if split == "test" else order[: len(order) // 10]
    return scores[part], labels[part]


@cached_data(1)
def _mnist_scores() -> tuple[Tensor, Tensor]:
    path = data_folder("sudoku") / "mnist_test_scores.npz"
    arrays = load_npz(path, {"scores": ("f", 2), "label": ("iu", 1)})
    scores, labels = torch.tensor(arrays["scores"]).float(), torch.tensor(arrays["label"].astype("int64"))
    if scores.shape != (len(labels), 10) or not ((labels >= 0) & (labels < 10)).all() or bool((scores < 0).any()):
        raise QubolearnError(f"{path}: scores {list(scores.shape)} of {len(labels)} labels; want [count, 10], 0 to 9")
    return scores, labels


def _pictures(puzzles: Tensor, labels: Tensor, generator: Generator) -> Tensor:
    """A random picture of each cell's digit ``[batch, cells]``; 0 stands for any where the cell is empty."""
    order = labels.argsort(stable=True)
    number = torch.bincount(labels, minlength=10)
    first = number.cumsum(0) - number
    if int(number[1 : int(puzzles.max()) + 1].min()) < 1:
        raise QubolearnError(f"pictures of the digits 0 to 9: {number.tolist()}; want some of each")
    pick = (torch.rand(puzzles.shape, generator=generator) * number[puzzles]).long().clamp_max(number[puzzles] - 1)
    return order[first[puzzles] + pick.clamp_min(0)]


def most_probable_grid(
    costs: Sequence[Sequence[float] | None], clashes: Sequence[int] | None = None, most: float = 200.0
) -> tuple[float, list[int]] | None:
    """The grid of least cost among all that keep the rules, by branch and bound: exact, for comparison.

    Args:
        costs: of each cell the cost of each digit, or None where nothing is known.
        clashes: the rules, as :func:`qubolearn.problems.sudoku_rules.rule_clashes` has them.
        most: grids that cost more are not looked for.

    Returns:
        The cost and the grid, or None.

    >>> most_probable_grid([[0.0, 9.0, 9.0, 9.0], [0.0, 1.0, 2.0, 3.0], *[None] * 14])[0]  # no second 1 in the row
    1.0
    """
    cells = len(costs)
    size = round(cells**0.5)
    clashes, grid = clashes or rule_clashes(size), [0] * cells
    found: list[tuple[float, list[int]]] = []

    def fill(banned: int, empty: list[int], spent: float, limit: float) -> float:
        """Look for cheaper grids than limit; the cost of the best, or limit."""
        if not empty:
            found.append((spent, list(grid)))
            return spent
        least, free = {}, {}
        for cell in empty:
            allowed = [digit for digit in range(size) if not banned >> cell * size + digit & 1]
            if not allowed:
                return limit
            free[cell], cost = allowed, costs[cell]
            least[cell] = min(cost[digit] for digit in allowed) if cost else 0.0
        rest = spent + sum(least.values())
        if rest >= limit:
            return limit
        options = {}
        for cell in empty:  # digits that can be part of a cheaper grid
            cost, slack = costs[cell], limit - rest + least[cell]
            options[cell] = [digit for digit in free[cell] if not cost or cost[digit] < slack]
        chosen = min(empty, key=lambda cell: len(options[cell]))
        left, cost = [cell for cell in empty if cell != chosen], costs[chosen] or [0.0] * size
        for digit in sorted(options[chosen], key=cost.__getitem__):
            grid[chosen] = digit + 1
            limit = fill(banned | clashes[chosen * size + digit], left, spent + cost[digit], limit)
        return limit

    limit = 1e-6 + sum(min(cost) for cost in costs if cost)
    while not found and limit < most:  # few digits are affordable while little may be spent
        fill(0, list(range(cells)), 0.0, limit)
        limit = limit * 2 + 1.0
    return found[-1] if found else None
