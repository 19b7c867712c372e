"""Sudokus as a problem, and answers to puzzles in words; which bit is what is in ``sudoku_rules``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Generator, Tensor

from qubolearn.errors import QubolearnError
from qubolearn.problems.contract import Instances, Problem, Split
from qubolearn.problems.pools import draw_rows
from qubolearn.problems.sudoku_grids import all_small_grids, count_solutions, keeps_rules, random_grids, random_puzzles
from qubolearn.problems.sudoku_rules import (
    bits_of,
    clashes_of,
    clashing_hints,
    grids_of,
    hint_clamp,
    rule_groups,
    rule_qubo,
)
from qubolearn.problems.sudoku_sets import Sudokus, load_set
from qubolearn.qubo import Groups, SparseQubo
from qubolearn.randomness import stream
from qubolearn.solvers import Solver, solve
from qubolearn.solvers.tempering import ParallelTempering

__all__ = [
    "Sudoku",
    "SudokuAnswers",
    "bits_of",
    "clashes_of",
    "grids_of",
    "hint_clamp",
    "on_cpu",
    "rule_groups",
    "rule_qubo",
    "solve_puzzles",
]

#: How far solutions of a puzzle that has several are counted.
COUNTED = 100


@dataclass(frozen=True)
class Sudoku(Problem):
    """Sudokus: p is the puzzle, digits with 0 where a cell is empty, and the bits are the solved grid.

    Any grid that keeps the rules and the hints is right. That a cell holds one digit is given (:func:`rule_groups`),
    and hints are clamped; the rules are to be learned. Generated grids of size 9 are never seen twice; the 288 grids of
    size 4 are divided among the splits, six in eight for training.
    """

    name: ClassVar[str] = "sudoku"

    size: int = 9
    """Digits, rows and columns: 4 or 9."""
    set: Literal["generated", "satnet", "rrn"] = "generated"
    """Where puzzles come from: generated here, or a published set of size 9 in $QUBOLEARN_DATA/sudoku."""
    hints: int | None = None
    """Cells that are shown; by default 36 of 81 or 6 of 16, and of published sets the puzzles of any number."""
    unique: bool = False
    """Make sure that each generated puzzle has one solution; some then keep more hints. It takes time."""

    def __post_init__(self) -> None:
        if self.size not in (4, 9):
            raise QubolearnError(f"size={self.size}; Sudoku has grids of size 4 and 9")
        if self.hints is not None and not 0 <= self.hints <= self.size**2:
            raise QubolearnError(f"hints={self.hints}; want 0 to {self.size**2}")
        if self.set != "generated" and self.size != 9:
            raise QubolearnError(f"set={self.set!r} has grids of size 9, not {self.size}; use set='generated'")

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

    def available(self, split: Split) -> int | None:
        return None if self.set == "generated" else len(self._known(split).puzzles)

    def _known(self, split: Split) -> Sudokus:
        """All puzzles of a published set's split that have the right number of hints."""
        assert self.set != "generated"
        known = load_set(self.set)[split]
        if self.hints is not None:
            known = known.rows((known.puzzles > 0).sum(1) == self.hints)
        if not len(known.puzzles):
            raise QubolearnError(f"set={self.set!r} has no {split} puzzles with hints={self.hints}; leave it out")
        return known

    def draw(self, count: int, generator: Generator, split: Split) -> Sudokus:
        """Puzzles and their grids. Those of a set come in random order, none again before all were drawn."""
        if self.set != "generated":
            known = self._known(split)
            return known.rows(draw_rows(torch.arange(len(known.puzzles)), count, generator))
        if self.size == 4:
            mine = all_small_grids()[torch.randperm(288, generator=stream(0, "sudoku"))]
            mine = {"train": mine[:216], "validation": mine[216:252], "test": mine[252:]}[split]
            grids = mine[torch.randint(len(mine), (count,), generator=generator)]
        else:
            grids = random_grids(count, generator, self.size)
        hints = {4: 6, 9: 36}[self.size] if self.hints is None else self.hints
        return Sudokus(random_puzzles(grids, hints, generator, self.unique), grids)

    def decode(self, x: Tensor) -> Tensor:
        """The digits; a cell without exactly one digit says 0."""
        cells = x.reshape(len(x), self.size**2, self.size)
        return torch.where(cells.sum(-1) == 1, cells.argmax(-1) + 1, 0)

    def score(self, answer: Tensor, instances: Instances) -> dict[str, Tensor]:
        """``accuracy``: whether all cells are filled, no rule is broken and every hint is kept; ``cells``: the share of
        cells that are as in the grid that the puzzle was made of."""
        hints = instances.p.to(answer.dtype)
        kept = ((answer == hints) | (hints == 0)).all(1) & (answer > 0).all(1)
        cells = (answer == instances.answer).float().mean(1)
        return {"accuracy": (kept & keeps_rules(answer)).float(), "cells": cells}

    def shown(self, p: Tensor) -> Tensor:
        """The digits ``[batch, cells]`` that p shows, 0 where a cell is empty."""
        return p.long()

    def answer_of(self, x: Tensor, p: Tensor) -> Tensor:
        """Grids that keep the rules, and else the puzzle as it was: a wrong grid is no answer."""
        grids = self.decode(x)
        return grids.where(keeps_rules(grids)[:, None], self.shown(p).to(grids))

    def remarks(self, answer: Tensor, p: Tensor) -> list[str]:
        """What there is to say of answers to puzzles p: solved, one of several solutions, or why there is none."""
        clash = clashing_hints(rule_qubo(self.size), p)
        return [
            said or _said(puzzle, solved)
            for puzzle, solved, said in zip(p.long().tolist(), keeps_rules(answer).tolist(), clash, strict=True)
        ]

    @classmethod
    def preset(cls, name: str, options: Mapping[str, Any]) -> Mapping[str, Any]:
        if name != "best":
            return super().preset(name, options)
        if options.get("method", "quant") != "quant":  # these see the hints, and say each cell by itself
            return {**_BEST, "network": "mlp", "hidden": 256, "epochs": 20, "learning_rate": 1e-3, "standardise": True}
        return {
            **_BEST,
            **({"instances": 2000, "epochs": 5, "learning_rate": 0.05} if options.get("size") == 4 else {}),
        }


#: Chosen on generated validation puzzles. One A for all puzzles, whose largest couplings are then made hard.
_BEST: Mapping[str, Any] = {
    "network": "shared",
    "topology": "dense",
    "loss": "group-pseudo",
    "beta": 1.0,
    "instances": 6000,
    "batch_size": 100,
    "epochs": 2,
    "learning_rate": 0.02,
    "standardise": False,
    "weight_mlp": 0.0,
    "validation": 5,
}


def on_cpu(generator: Generator) -> Generator:
    """The generator, or one on the CPU that it decides: grids are made there."""
    if generator.device.type == "cpu":
        return generator
    return stream(int(torch.randint(2**62, (1,), generator=generator, device=generator.device)), "sudoku")


def _said(puzzle: list[int], solved: bool, clashes: tuple[int, ...] | None = None) -> str:
    """An answer to a puzzle in words: how many solutions there are, or why none was found."""
    count = count_solutions(puzzle, COUNTED if solved else 1, clashes)
    if not solved:
        why = "it has a solution, which takes more sweeps, or other rules" if count else "it has no solution"
        return f"not solved: {why}"
    if count == 1:
        return "solved"
    return f"solved, one of {f'at least {count}' if count == COUNTED else count} solutions"


class SudokuAnswers(NamedTuple):
    """What a solver found for puzzles."""

    grids: Tensor  # [batch, cells]: solved, or the puzzle as it was where no solution was found
    solved: Tensor  # [batch], bool
    said: list[str]  # one line each: "solved", "solved, one of 3 solutions", or why not


def solve_puzzles(A: SparseQubo, puzzles: Tensor, solver: Solver | None = None) -> SudokuAnswers:
    """Solve puzzles ``[batch, cells]`` under rules A, a batch of one whose energies are 0 where no rule is broken.

    Hints are clamped and cells are groups. Hints that break the rules by themselves, and puzzles for which the solver
    finds no grid of energy 0, are given back with a line that says so. Solutions are counted by backtracking.

    Args:
        A: the rules, :func:`rule_qubo` or learned and hardened ones.
        puzzles: digits, 0 for empty cells.
        solver: by default parallel tempering of up to 200,000 sweeps that ends where no rule is broken.

    >>> solve_puzzles(rule_qubo(4), torch.tensor([[1, 1] + 14 * [0]])).said
    ['hints contradict each other: digit 1 in cells 0 and 1']
    """
    size, said, clashes = math.isqrt(puzzles.shape[-1]), clashing_hints(A, puzzles), clashes_of(A)
    grids, solved = puzzles.clone().long(), torch.zeros(len(puzzles), dtype=torch.bool)
    tried = torch.tensor([row for row, clash in enumerate(said) if not clash], dtype=torch.int64)
    if len(tried):
        rules = A.with_values(A.linear.expand(len(tried), -1), A.quadratic.expand(len(tried), -1))
        solver = solver or ParallelTempering(sweeps=200_000, target="bound", seed=0)
        found = solve(rules, solver, 1, clamp=hint_clamp(puzzles[tried]), groups=rule_groups(size))
        good = (found.energies[:, 0] == 0).cpu()
        solved[tried[good]] = True
        grids[tried[good]] = grids_of(found.states[:, 0].cpu())[good]
    for row in tried.tolist():
        said[row] = _said(puzzles[row].tolist(), bool(solved[row]), clashes)
    return SudokuAnswers(grids, solved, said)
