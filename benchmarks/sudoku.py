"""Tempering of Sudoku's true rules: 729 bits, hints clamped, cells as groups.

Puzzles are the test set of Recurrent Relational Networks, ``$QUBOLEARN_DATA/sudoku/sudoku9.npz``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from benchmarks import Record, threads, timed
from qubolearn import ParallelTempering, solve
from qubolearn.problems.sudoku import hint_clamp, rule_groups, rule_qubo


def puzzles_by_hints() -> Tensor:
    """Return puzzles ``[hints - 17, 500, 81]`` of 17 to 34 hints."""
    path = Path(os.environ["QUBOLEARN_DATA"]) / "sudoku/sudoku9.npz"
    return torch.tensor(np.load(path)["rrn_test_puzzle"])


def one_by_one(quick: bool) -> Iterator[Record]:
    """Measure puzzles of 17 and of 24 hints, one per call, on one thread."""
    puzzles, rules, groups = puzzles_by_hints(), rule_qubo(9), rule_groups(9)
    solver = ParallelTempering(sweeps=1_000_000, target=0.0)
    solve(rules, replace(solver, sweeps=1), 1, clamp=hint_clamp(puzzles[0, :1]), groups=groups)
    for hints in (17, 24):
        seconds, sweeps, solved = [], [], 0
        for number, puzzle in enumerate(puzzles[hints - 17, : 3 if quick else 100]):
            clamp, seeded = hint_clamp(puzzle[None]), replace(solver, seed=number)
            with threads(1):
                taken, found = timed(partial(solve, rules, seeded, 1, clamp=clamp, groups=groups))
            seconds.append(taken)
            sweeps.append(int(found.info["sweeps"]))
            solved += int(found.energies.item() == 0)
        means = {"seconds": float(np.mean(seconds)), "median": float(np.median(seconds)), "longest": max(seconds)}
        yield {"hints": hints, "puzzles": len(seconds), "solved": solved, **means, "sweeps": float(np.mean(sweeps))}
