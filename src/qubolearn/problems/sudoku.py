"""Sudoku as a problem; ``sudoku_grids`` defines the bits."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from torch import Generator, Tensor

from qubolearn.data.contract import Instances, Problem, Split
from qubolearn.errors import QubolearnError
from qubolearn.problems.sudoku_grids import (
    all_small_grids,
    bits_of,
    clashes_of,
    clashing_hints,
    count_solutions,
    grids_of,
    hint_clamp,
    keeps_rules,
    random_grids,
    random_puzzles,
    rule_groups,
    rule_qubo,
)
from qubolearn.qubo import Groups, SparseQubo
from qubolearn.random import stream
from qubolearn.solvers import Solver, solve
from qubolearn.solvers.tempering import ParallelTempering

if TYPE_CHECKING:
    from qubolearn.networks.shared import Hardened, SharedQubo

__all__ = [
    "LearnedRules",
    "Sudoku",
    "SudokuAnswers",
    "Sudokus",
    "bits_of",
    "clashes_of",
    "draw_rows",
    "grids_of",
    "hint_clamp",
    "learn_rules",
    "on_cpu",
    "rule_groups",
    "rule_qubo",
    "rules_found",
    "solve_puzzles",
]

#: How far solutions of a puzzle are counted.
COUNTED = 100


class Sudokus(NamedTuple):
    """Puzzles with their solutions; 0 is an empty cell."""

    puzzles: Tensor  # [count, cells], int64
    solutions: Tensor  # [count, cells], int64

    def rows(self, index: Any) -> Sudokus:
        """Return the Sudokus at an index."""
        return Sudokus(self.puzzles[index], self.solutions[index])


@dataclass(frozen=True)
class Sudoku(Problem):
    """Sudoku: p is the puzzle, 0 in empty cells, and the bits are the solved grid.

    Any grid that keeps rules and hints is right. Cells are groups and hints are clamped;
    the rules are learned. Grids of size 9 do not repeat; the 288 of size 4 are divided among the splits.
    """

    name: ClassVar[str] = "sudoku"

    size: int = 9
    """Digits, rows and columns: 4 or 9."""
    hints: int | None = None
    """Cells that are shown; by default 36 of 81 or 6 of 16."""
    unique: bool = False
    """Generate puzzles with one solution only; some keep more hints. This takes time."""

    def __post_init__(self) -> None:
        if self.size not in (4, 9):
            raise QubolearnError(f"size={self.size}; Sudoku has grids of size 4 and 9")
        if self.hints is not None and not 0 <= self.hints <= self.size**2:
            raise QubolearnError(f"hints={self.hints}; expected 0 to {self.size**2}")

    @property
    def input_size(self) -> int:
        return self.size**2

    @property
    def bits(self) -> int:
        return self.size**3

    @property
    def groups(self) -> Groups:
        return rule_groups(self.size)

    def clamp(self, p: Tensor) -> Tensor:
        return hint_clamp(p)

    def default_solver(self) -> Solver:
        return ParallelTempering(sweeps=20_000, target="bound", seed=0)

    def sample(self, count: int, generator: Generator, split: Split = "train") -> Instances:
        puzzles, grids = self.draw(count, on_cpu(generator), split)
        return Instances(puzzles.float(), bits_of(grids).float(), grids).to(generator.device)

    def draw(self, count: int, generator: Generator, split: Split) -> Sudokus:
        """Draw puzzles and their grids."""
        if self.size == 4:
            mine = all_small_grids()[torch.randperm(288, generator=stream(0, "sudoku"))]
            mine = {"train": mine[:216], "validation": mine[216:252], "test": mine[252:]}[split]
            grids = mine[torch.randint(len(mine), (count,), generator=generator)]
        else:
            grids = random_grids(count, generator, self.size)
        hints = {4: 6, 9: 36}[self.size] if self.hints is None else self.hints
        return Sudokus(random_puzzles(grids, hints, generator, self.unique), grids)

    def decode(self, x: Tensor) -> Tensor:
        """Return the digits, 0 for a cell without exactly one digit."""
        cells = x.reshape(len(x), self.size**2, self.size)
        return torch.where(cells.sum(-1) == 1, cells.argmax(-1) + 1, 0)

    def score(self, answer: Tensor, instances: Instances) -> dict[str, Tensor]:
        """Return ``accuracy``, 1 if solved, and ``cells``, the share of cells as drawn."""
        hints = instances.p.to(answer.dtype)
        kept = ((answer == hints) | (hints == 0)).all(1) & (answer > 0).all(1)
        cells = (answer == instances.answer).float().mean(1)
        return {"accuracy": (kept & keeps_rules(answer)).float(), "cells": cells}

    def shown(self, p: Tensor) -> Tensor:
        """Return the digits that p shows, 0 for empty cells."""
        return p.long()

    def answer_of(self, x: Tensor, p: Tensor) -> Tensor:
        """Return grids that keep the rules, else the puzzle."""
        grids = self.decode(x)
        return grids.where(keeps_rules(grids)[:, None], self.shown(p).to(grids))

    def remarks(self, answer: Tensor, p: Tensor) -> list[str]:
        """Return for each answer whether it is solved and unique, or why not."""
        return _remarks(rule_qubo(self.size), p, keeps_rules(answer), COUNTED)

    def picture(self, axis: Any, instances: Instances, answer: Tensor) -> None:
        """Draw the first answer as a grid: hints are black, other digits blue."""
        hints, size = self.shown(instances.p)[0].tolist(), self.size
        for line in range(size + 1):
            width = 0.5 if line % math.isqrt(size) else 1.6
            axis.axhline(line, color="k", lw=width)
            axis.axvline(line, color="k", lw=width)
        for cell, digit in enumerate(answer[0].tolist()):
            color = "k" if digit == hints[cell] else "#2166ac"
            place = cell % size + 0.5, cell // size + 0.5
            axis.text(*place, str(digit), ha="center", va="center", color=color)
        axis.set(xlim=(0, size), ylim=(size, 0), aspect="equal")

    @classmethod
    def preset(cls, name: str, options: Mapping[str, Any]) -> Mapping[str, Any]:
        if name != "best":
            return super().preset(name, options)
        if options.get("head", "coupled") != "coupled":  # these predict each cell alone
            own = {"network": "mlp", "hidden": 256, "epochs": 20, "learning_rate": 1e-3, "standardize": True}
            return {**_BEST, **own}
        small = {"instances": 2000, "epochs": 5, "learning_rate": 0.05}
        return {**_BEST, **(small if options.get("size") == 4 else {})}


#: Chosen on validation puzzles: one A, whose largest couplings are made hard.
_BEST: Mapping[str, Any] = {
    "network": "shared",
    "topology": "dense",
    "loss": "group-pseudo",
    "beta": 1.0,
    "instances": 6000,
    "batch_size": 100,
    "epochs": 2,
    "learning_rate": 0.02,
    "standardize": False,
    "weight_mlp": 0.0,
    "validation": 5,
}


def on_cpu(generator: Generator) -> Generator:
    """Return the generator, or a CPU one seeded by it."""
    if generator.device.type == "cpu":
        return generator
    return stream(int(torch.randint(2**62, (1,), generator=generator, device=generator.device)), "sudoku")


def _remarks(A: SparseQubo, puzzles: Tensor, solved: Tensor, most: int) -> list[str]:
    """Return if each puzzle is solved, its solutions up to ``most``, or why not."""
    remarks, counts = clashing_hints(A, puzzles), torch.ones(len(puzzles), dtype=torch.int64)
    for some, limit in ((solved, most), (~solved, 1)):
        if limit:
            counts[some] = count_solutions(puzzles[some], limit, A)
    for row, (good, count) in enumerate(zip(solved.tolist(), counts.tolist(), strict=True)):
        if good:
            number = f"at least {count}" if count == most else count
            remarks[row] = "solved" if count == 1 else f"solved, one of {number} solutions"
        elif not remarks[row]:
            why = "it has a solution; use more sweeps or other rules" if count else "it has no solution"
            remarks[row] = f"not solved: {why}"
    return remarks


class SudokuAnswers(NamedTuple):
    """Answers of a solver to puzzles."""

    grids: Tensor  # or the puzzle itself
    solved: Tensor  # [batch], bool
    remarks: list[str]  # "solved", "solved, one of 3 solutions", or why not


def solve_puzzles(
    A: SparseQubo, puzzles: Tensor, solver: Solver | None = None, count: bool = False
) -> SudokuAnswers:
    """Solve puzzles ``[batch, cells]`` under rules A, of energy 0 if none is broken.

    Puzzles that break the rules, or have no grid of energy 0, get a remark.

    Args:
        A: The rules: :func:`rule_qubo`, or learned and rounded ones.
        puzzles: Digits, 0 for empty cells.
        solver: Parallel tempering by default, up to 200,000 sweeps, until no rule is broken.
        count: Count the solutions, by exact search, for the remarks.

    >>> solve_puzzles(rule_qubo(4), torch.tensor([[1, 1] + 14 * [0]])).remarks
    ['hints contradict each other: digit 1 in cells 0 and 1']
    """
    size, grids = math.isqrt(puzzles.shape[-1]), puzzles.clone().long()
    solved = torch.zeros(len(puzzles), dtype=torch.bool)
    tried = torch.tensor([not clash for clash in clashing_hints(A, puzzles)]).nonzero().flatten()
    if len(tried):
        rules = A.with_values(A.linear.expand(len(tried), -1), A.quadratic.expand(len(tried), -1))
        solver = solver or ParallelTempering(sweeps=200_000, target="bound", seed=0)
        found = solve(rules, solver, 1, clamp=hint_clamp(puzzles[tried]), groups=rule_groups(size))
        good = (found.energies[:, 0] == 0).cpu()
        solved[tried[good]] = True
        grids[tried[good]] = grids_of(found.states[:, 0].cpu())[good]
    return SudokuAnswers(grids, solved, _remarks(A, puzzles, solved, COUNTED if count else 0))


class LearnedRules(NamedTuple):
    """A network that learned the rules, its rounded couplings, and the seconds of training."""

    network: SharedQubo
    hard: Hardened
    seconds: float


def learn_rules(seed: int = 0, **options: Any) -> LearnedRules:
    """Learn the rules of Sudoku, or of another ``problem``, by the preset ``best``, which options override."""
    from qubolearn.recipes import preset, train

    began = time.perf_counter()
    network: Any = train(*preset("best", options.pop("problem", "sudoku"), seed=seed, **options))
    return LearnedRules(network, network.hardened(), time.perf_counter() - began)


def rules_found(learned: SparseQubo, size: int) -> dict[str, Any]:
    """Count the learned couplings that are ``rules``, those there should be (``of``), and ``others``."""
    mine, rules = (set(map(tuple, A.edges.T.tolist())) for A in (learned, rule_qubo(size)))
    return {"rules": len(mine & rules), "of": len(rules), "others": len(mine - rules)}


def draw_rows(rows: Tensor, count: int, generator: Generator) -> Tensor:
    """Draw ``count`` rows in random order, repeating all equally if there are fewer."""
    if not len(rows):
        raise QubolearnError("the split is empty; hold out at least one instance (held_out)")
    device = generator.device
    rounds = range(-(-count // len(rows)))
    order = [torch.randperm(len(rows), generator=generator, device=device) for _ in rounds]
    return rows[torch.cat([torch.zeros(0, dtype=torch.int64, device=device), *order])[:count].cpu()]
