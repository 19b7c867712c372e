"""Visual Sudoku: what couplings correct of a reader's mistakes, against reading first and solving then.

Test puzzles are SATNet's, with pictures of test digits that no choice was made on. The most probable grid is also found
exactly for some puzzles, by branch and bound.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from qubolearn.benchmarks.processes import Planned
from qubolearn.benchmarks.rows import Published, Row, row
from qubolearn.benchmarks.sudoku import SEEDS, Record, learn_rules, place, rules_found
from qubolearn.problems.contract import Instances
from qubolearn.problems.sudoku import bits_of, clashes_of
from qubolearn.problems.sudoku_grids import keeps_rules, solutions
from qubolearn.problems.visual_sudoku import VisualSudoku, most_probable_grid
from qubolearn.qubo import energies
from qubolearn.randomness import stream
from qubolearn.solvers import solve
from qubolearn.solvers.tempering import ParallelTempering

__all__ = ["records", "rows"]

SWEEPS = 10_000
#: Puzzles whose most probable grid is also found exactly.
CHECKED = 100
SATNET: Published = {
    "name": "SATNet",
    "value": 63.2,
    "source": "SATNet (Wang et al., ICML 2019), as quoted from memory: the paper's table could not be read again here",
}


def planned(quick: bool) -> Planned:
    """:func:`records`, and how many there will be."""
    return Planned(1 if quick else SEEDS, records(quick))


def records(quick: bool) -> Iterator[Record]:
    """One record for each seed, which chooses the pictures as well."""
    problem = VisualSudoku(size=4) if quick else VisualSudoku(set="satnet", reader="mnist")
    for seed in range(1 if quick else SEEDS):
        options = {"size": problem.size, "set": problem.set, "reader": problem.reader}
        learned = learn_rules(seed, problem="visual-sudoku", validation=1, **options)
        test = problem.sample(20 if quick else 1000, stream(seed, "test"), "test")
        with torch.no_grad():
            A = learned.network.to(place()).eval()(test.p.to(place()))
        solver = ParallelTempering(sweeps=2000 if quick else SWEEPS, target="bound", seed=seed)
        began = time.perf_counter()
        found = solve(A, solver, 1, groups=problem.groups)
        seconds = time.perf_counter() - began
        states, lowest = found.states[:, 0].cpu(), found.energies[:, 0].cpu()
        scores = problem.score(problem.decode(states), test)
        clashes = clashes_of(learned.hard.A)
        record: Record = {"problem": f"visual {problem.set} {problem.size}", "seed": seed, "puzzles": len(test.p)}
        record |= {"quant": _percent(scores["accuracy"]), "diag": _percent(_by_cell(problem, test))}
        record |= {
            "rival": _percent(_read_then_solved(problem, test, clashes)),
            "all_read_right": _percent(scores["read"]),
        }
        record |= {"rules": rules_found(learned.hard.A, problem.size)["rules"], "learning_seconds": learned.seconds}
        record |= {"solve_seconds": seconds, "unsolved": int((~keeps_rules(problem.decode(states))).sum())}
        truth = energies(A.to("cpu"), bits_of(test.answer).float())
        record["above_the_truth"] = int((lowest > truth + 1e-3).sum())  # the solver's fault, not the model's
        yield record | (_checked(problem, test, lowest, clashes, quick) if seed == 0 else {})


def _percent(values: Tensor) -> float:
    return 100 * values.double().mean().item()


def _by_cell(problem: VisualSudoku, test: Instances) -> Tensor:
    """Whether biases alone are right: the most probable digit of every cell, of an empty one any."""
    answers = test.p.reshape(len(test.p), -1, problem.size).argmin(2) + 1
    return problem.score(answers, test)["accuracy"]


def _read_then_solved(problem: VisualSudoku, test: Instances, clashes: Sequence[int]) -> Tensor:
    """Whether a puzzle whose pictures are read one by one has the right grid as a solution under the learned rules."""
    grids = [next(solutions(puzzle, clashes=clashes), None) for puzzle in problem.shown(test.p).tolist()]
    return torch.tensor([grid == answer for grid, answer in zip(grids, test.answer.tolist(), strict=True)])


def _checked(problem: VisualSudoku, test: Instances, lowest: Tensor, clashes: Sequence[int], quick: bool) -> Record:
    """For how many of the first puzzles the solver found the grid of least cost."""
    count = 10 if quick else CHECKED
    equal = 0
    for index in range(count):
        costs = test.p[index].reshape(-1, problem.size).tolist()
        best = most_probable_grid([cost if any(cost) else None for cost in costs], clashes)
        equal += int(best is not None and abs(best[0] - lowest[index].item()) < 1e-3)
    return {"checked_exactly": count, "lowest_found": equal}


def rows(found: Sequence[Mapping[str, Any]]) -> list[Row]:
    """A line of the table "where couplings pay"."""
    real = found[0]["problem"].startswith("visual satnet")
    name = "visual Sudoku, SATNet's 1,000 test puzzles" if real else "visual Sudoku of size 4"
    given = "probabilities of a reader for each picture; one digit a cell; the rules are learned from solved grids"
    rival = "reading each picture, then solving"
    published = [SATNET] if real else []
    seeds = f"{len(found)} seeds of pictures and training"
    return [row(name, "grids all right, %", given, seeds, found, rival_name=rival, published=published)]
