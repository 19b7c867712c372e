"""Visual Sudoku: what couplings correct of a reader's mistakes, against reading first and solving then.

Test puzzles are SATNet's, with pictures of test digits that no choice was made on. The most probable grid is also found
exactly for some puzzles, by branch and bound.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from quant_reproduction.grid.trained import device, time_of
from quant_reproduction.problems.visual_sudoku import VisualSudoku, most_probable_grid
from qubolearn.data.contract import Instances
from qubolearn.problems.sudoku import bits_of, clashes_of, learn_rules, rules_found
from qubolearn.problems.sudoku_grids import keeps_rules, solutions
from qubolearn.qubo import energies
from qubolearn.random import stream
from qubolearn.solvers import solve
from qubolearn.solvers.tempering import ParallelTempering

__all__ = ["read_puzzles"]

SWEEPS = 10_000
#: Puzzles whose most probable grid is also found exactly.
CHECKED = 100


def read_puzzles(seed: int, quick: bool = False) -> dict[str, Any]:
    """quant, biases alone, and reading each picture before solving; the seed chooses the pictures as well."""
    problem = VisualSudoku(size=4) if quick else VisualSudoku(set="satnet", reader="mnist")
    options = {"size": problem.size, "set": problem.set, "reader": problem.reader}
    learned = learn_rules(seed, problem="visual-sudoku", validation=1, **options)
    test = problem.sample(20 if quick else 1000, stream(seed, "test"), "test")
    with torch.no_grad():
        A = learned.network.to(device()).eval()(test.p.to(device()))
    solver = ParallelTempering(sweeps=2000 if quick else SWEEPS, target="bound", seed=seed)
    began = time.perf_counter()
    found = solve(A, solver, 1, groups=problem.groups)
    seconds = time.perf_counter() - began
    answers, lowest = problem.decode(found.states[:, 0].cpu()), found.energies[:, 0].cpu()
    scores = problem.score(answers, test)
    clashes = clashes_of(learned.hard.A)
    truth = energies(A.to("cpu"), bits_of(test.answer).float())
    numbers = {
        "solve_seconds": seconds,
        "unsolved": int((~keeps_rules(answers)).sum()),
        "above_the_truth": int((lowest > truth + 1e-3).sum()),  # the solver's fault, not the model's
        **rules_found(learned.hard.A, problem.size),
        **_checked(problem, test, lowest, clashes, 10 if quick else CHECKED),
    }
    by_cell = test.p.reshape(len(test.p), -1, problem.size).argmin(2) + 1  # of an empty cell any digit
    return {
        **time_of(learned.seconds),
        "quant": {**_share(scores["accuracy"]), **numbers},
        "diag": _share(problem.score(by_cell, test)["accuracy"]),
        "read": {**_share(_read_then_solved(problem, test, clashes)), "all_read": scores["read"].mean().item()},
    }


def _share(values: Tensor) -> dict[str, Any]:
    return {"accuracy": values.double().mean().item(), "instances": len(values)}


def _read_then_solved(problem: VisualSudoku, test: Instances, clashes: Sequence[int]) -> Tensor:
    """Return whether the solution of a puzzle whose pictures are read one by one is right under the learned rules."""
    grids = [next(solutions(puzzle, clashes=clashes), None) for puzzle in problem.shown(test.p).tolist()]
    return torch.tensor([grid == answer for grid, answer in zip(grids, test.answer.tolist(), strict=True)])


def _checked(
    problem: VisualSudoku, test: Instances, lowest: Tensor, clashes: Sequence[int], count: int
) -> dict[str, int]:
    """For how many of the first puzzles the solver found the grid of least cost."""
    equal = 0
    for index in range(count):
        costs = test.p[index].reshape(-1, problem.size).tolist()
        best = most_probable_grid([cost if any(cost) else None for cost in costs], clashes)
        equal += int(best is not None and abs(best[0] - lowest[index].item()) < 1e-3)
    return {"checked_exactly": count, "lowest_found": equal}
