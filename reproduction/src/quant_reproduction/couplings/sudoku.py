"""Sudoku's rules, learned from solved grids alone.

Rules are learned from the training split of each set, of RRN's puzzles from the validation set.
Recipes were chosen on generated puzzles.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from quant_reproduction.grid.models import device, time_of, trained
from quant_reproduction.problems.sudoku_sets import SetName, SudokuSet, load_set
from quant_reproduction.problems.visual_sudoku import VisualSudoku, most_probable_grid
from qubolearn.data.contract import Instances
from qubolearn.networks import SharedQubo
from qubolearn.problems.sudoku import Sudoku, bits_of, clashes_of, learn_rules, rule_qubo, rules_found
from qubolearn.problems.sudoku_grids import exact_solutions, keeps_rules
from qubolearn.qubo import Qubo, SparseQubo, energies
from qubolearn.random import stream
from qubolearn.recipes import preset
from qubolearn.solvers import solve
from qubolearn.solvers.tempering import ParallelTempering

#: The most sweeps of a puzzle; one of 17 hints takes 7,000 on average.
SWEEPS = 1_000_000
DIAG_EPOCHS = 5


def solved_puzzles(seed: int, set: SetName, method: str, quick: bool = False) -> dict[str, Any]:
    """Learn on the training split, and solve the test puzzles."""
    problem, test = _puzzles(set, seed, quick)
    if method != "quant":
        return _without_couplings(problem, method, test, seed, quick)
    more = {"validation": 1} if quick else {}
    learned = learn_rules(seed, problem=type(problem), **asdict(problem), **more)
    _tempered(problem, learned.network, test.rows(slice(0, 64)), 1, seed)  # compiles
    began = time.perf_counter()
    right, sweeps = _tempered(problem, learned.network, test, SWEEPS, seed)
    seconds = time.perf_counter() - began
    gap = dict(zip(("highest_other", "lowest_rule"), learned.hard.gaps[0], strict=True))
    numbers = {"sweeps": sweeps.double().mean().item(), "most_sweeps": int(sweeps.max())}
    numbers |= {"learning_seconds": learned.seconds, "solve_seconds": seconds}
    rules = {**rules_found(learned.hard.A, problem.size), **gap}
    return {**time_of(learned.seconds), "quant": {**_scores(right, test), **numbers}, "rules": rules}


def by_search(seed: int, set: SetName, quick: bool = False) -> dict[str, Any]:
    """Solve all puzzles by exact search with the true rules."""
    problem, test = _puzzles(set, seed, quick)
    return {"search": _scores(problem.score(_searched(test.p.long(), None), test)["accuracy"], test)}


def _searched(puzzles: Tensor, A: SparseQubo | None) -> Tensor:
    """Return a solution of each puzzle, or zeros."""
    owners, solved = exact_solutions(puzzles, 1, A)
    grids = torch.zeros_like(puzzles)
    grids[owners.flip(0)] = solved.flip(0)
    return grids


def _puzzles(set: SetName, seed: int, quick: bool) -> tuple[Sudoku, Instances]:
    """Return a problem and its test puzzles; a few small ones if quick."""
    if quick:
        problem = Sudoku(size=4)
        return problem, problem.sample(20, stream(seed, "test"), "test")
    puzzles, solutions = load_set(set)["test"]
    return SudokuSet(set=set), Instances(puzzles.float(), bits_of(solutions).float(), solutions)


def _scores(right: Tensor, test: Instances) -> dict[str, Any]:
    """Return the share of solved puzzles, and of those with 17 hints."""
    hardest = (test.p > 0).sum(1) == 17
    more = {"accuracy_17": right[hardest].double().mean().item()} if bool(hardest.any()) else {}
    return _share(right) | more


@torch.no_grad()
def _tempered(
    problem: Sudoku, network: SharedQubo, test: Instances, sweeps: int, seed: int
) -> tuple[Tensor, Tensor]:
    """Return whether each puzzle is solved, and its sweeps."""
    A = network.to(device()).eval()(test.p.to(device()))
    solver = ParallelTempering(sweeps=sweeps, target="bound", seed=seed)
    found = solve(A, solver, 1, clamp=problem.clamp(test.p), groups=problem.groups)
    answers = problem.decode(found.states[:, 0].cpu())
    return problem.score(answers, test)["accuracy"], found.info["sweeps"].cpu()


def _without_couplings(
    problem: Sudoku, method: str, test: Instances, seed: int, quick: bool
) -> dict[str, Any]:
    """Score a network that predicts each cell separately."""
    options = {**asdict(problem), "epochs": 1 if quick else DIAG_EPOCHS}
    _, recipe = preset("best", type(problem), method=method, seed=seed, validation=1, **options)
    network, seconds = trained(problem, recipe)
    network = network.cpu().eval()
    with torch.no_grad():
        linear = torch.cat([_linear(network(part)) for part in test.p.split(1024)])
    answers = linear.reshape(len(test.p), problem.size**2, problem.size).argmin(2) + 1
    answers = torch.where(test.p > 0, test.p.long(), answers)
    return {**time_of(seconds), method: _scores(problem.score(answers, test)["accuracy"], test)}


def _linear(A: Qubo) -> Tensor:
    return A.linear if isinstance(A, SparseQubo) else A.diagonal(dim1=1, dim2=2)


VISUAL_SWEEPS = 10_000
#: Puzzles whose most probable grid is also found exactly.
CHECKED = 100


def read_puzzles(seed: int, quick: bool = False) -> dict[str, Any]:
    """Score quant, biases alone, reading first, and the true rules."""
    problem = VisualSudoku(size=4) if quick else VisualSudoku(set="satnet", reader="mnist")
    options = {"size": problem.size, "set": problem.set, "reader": problem.reader}
    learned = learn_rules(seed, problem="visual-sudoku", validation=1, **options)
    test = problem.sample(20 if quick else 1000, stream(seed, "test"), "test")
    with torch.no_grad():
        A = learned.network.to(device()).eval()(test.p.to(device()))
    solver = ParallelTempering(sweeps=2000 if quick else VISUAL_SWEEPS, target="bound", seed=seed)
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
        "above_the_truth": int((lowest > truth + 1e-3).sum()),  # the solver's fault
        **rules_found(learned.hard.A, problem.size),
        **_checked(problem, test, lowest, clashes, 10 if quick else CHECKED),
    }
    rules = rule_qubo(problem.size, len(test.p))  # as strong as the learned ones
    strength = A.quadratic.max() * torch.ones_like(rules.quadratic)
    joint = solve(rules.with_values(test.p, strength.cpu()), solver, 1, groups=problem.groups)
    alone = _searched(problem.shown(test.p).long(), learned.hard.A)  # read, then solved
    by_cell = test.p.reshape(len(test.p), -1, problem.size).argmin(2) + 1  # of an empty cell any digit
    return {
        **time_of(learned.seconds),
        "quant": {**_share(scores["accuracy"]), **numbers},
        "diag": _share(problem.score(by_cell, test)["accuracy"]),
        "joint": _share(problem.score(problem.decode(joint.states[:, 0]), test)["accuracy"]),
        "read": {**_share((alone == test.answer).all(1)), "all_read": scores["read"].mean().item()},
    }


def _share(values: Tensor) -> dict[str, Any]:
    return {"accuracy": values.double().mean().item(), "instances": len(values)}


def _checked(
    problem: VisualSudoku, test: Instances, lowest: Tensor, clashes: Sequence[int], count: int
) -> dict[str, int]:
    """Return how often the solver found the grid of least cost."""
    equal = 0
    for index in range(count):
        costs = test.p[index].reshape(-1, problem.size).tolist()
        best = most_probable_grid([cost if any(cost) else None for cost in costs], clashes)
        equal += int(best is not None and abs(best[0] - lowest[index].item()) < 1e-3)
    return {"checked_exactly": count, "lowest_found": equal}
