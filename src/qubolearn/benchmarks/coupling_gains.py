"""What couplings buy: quant beside diag, pure and a classical rival on problems that are generated here.

Seeds fix data, weights and test instances. Nothing was chosen on test instances.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from qubolearn.benchmarks.chip_view import chip_view
from qubolearn.benchmarks.processes import Planned, in_processes
from qubolearn.benchmarks.rows import Row, row
from qubolearn.benchmarks.sudoku import learn_rules, rules_found
from qubolearn.evaluation import evaluate, evaluate_bits
from qubolearn.problems.knapsack import greedy_by_density
from qubolearn.problems.maxcut import local_search
from qubolearn.problems.sudoku import Sudoku, solve_puzzles
from qubolearn.randomness import stream
from qubolearn.training.recipes import preset
from qubolearn.training.train import train

__all__ = ["coupling_gains", "rows"]

#: A training of seconds, for checks that everything runs.
QUICK: dict[str, Any] = {"epochs": 2, "instances": 705, "validation": 50}


def coupling_gains(quick: bool) -> Planned:
    """Records of max-cut with 8 and 16 nodes, knapsack of 10 items and Sudoku, three seeds each; all cores at once."""
    kinds = [kind for kind in TASKS if not (quick and kind == "maxcut 16")]
    wanted = [(kind, seed) for seed in range(1 if quick else 3) for kind in kinds]
    tasks = [(kind, method, seed, quick) for kind, seed in wanted for method in TASKS[kind].methods]

    def records() -> Iterator[dict[str, Any]]:
        found = in_processes(_trained, tasks, 1 if quick else None)
        for kind, seed in wanted:
            record: dict[str, Any] = {"problem": kind, "metric": TASKS[kind].metric, "seed": seed}
            for _ in TASKS[kind].methods:
                record |= next(found)
            yield record

    return Planned(len(wanted), records())


class Task(NamedTuple):
    """What is trained and measured of a problem."""

    name: str
    options: dict[str, Any]
    metric: str
    methods: tuple[str, ...] = ("quant", "diag", "pure", "rival")


TASKS: Mapping[str, Task] = {
    "maxcut 8": Task("maxcut", {"nodes": 8}, "accuracy"),
    "maxcut 16": Task("maxcut", {"nodes": 16}, "accuracy"),
    "knapsack": Task("knapsack", {}, "value_projected"),
    "sudoku 9": Task("sudoku", {}, "solved", ("quant",)),
}


def _trained(task: tuple[str, str, int, bool]) -> dict[str, Any]:
    """The part of a record that one method gives."""
    kind, method, seed, quick = task
    name, options, metric, _ = TASKS[kind]
    if name == "sudoku":
        return _sudoku(seed, quick)
    count, recipe_method = 200 if quick else 2000, "quant" if method == "rival" else method
    problem, recipe = preset("best", name, method=recipe_method, seed=seed, **options, **(QUICK if quick else {}))
    if method == "rival":
        test = problem.sample(count, stream(seed, "test"), "test")
        rival = evaluate_bits(problem, RIVALS[name].bits(problem, test.p), test)
        return {"rival": 100 * rival.metrics[metric], "bits": problem.bits}
    began = time.perf_counter()
    network = train(problem, recipe)
    seconds = time.perf_counter() - began
    found = evaluate(network, problem, instances=count, seed=seed).metrics
    record = {method: 100 * found[metric], f"{method}_seconds": seconds}
    return record | ({f"{method}_feasible": 100 * found["feasible"]} if "feasible" in found else {})


class Rival(NamedTuple):
    """A classical method, which knows what is to be maximised: (problem, p) -> bits."""

    name: str
    bits: Callable[[Any, Tensor], Tensor]


RIVALS: Mapping[str, Rival] = {
    "maxcut": Rival("greedy and local search", local_search),
    "knapsack": Rival("greedy by density", greedy_by_density),
}
#: problem in a record -> in words, what is measured, what is given
ROWS: Mapping[str, tuple[str, str, str]] = {
    "maxcut 8": ("max-cut, 8 nodes", "optimal, %", "edges, degrees; one optimal cut of each graph"),
    "maxcut 16": ("max-cut, 16 nodes", "optimal, %", "edges, degrees; one optimal cut of each graph"),
    "knapsack": ("knapsack, 10 items", "value of the repaired packing, % of the best", "items by density; the repair"),
}


def rows(records: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Lines of the table "where couplings pay"; Sudoku has a benchmark of its own."""
    made = []
    for problem, (name, metric, given) in ROWS.items():
        mine = [record for record in records if record["problem"] == problem]
        if mine:
            rival, bits = RIVALS[problem.split()[0]].name, mine[0]["bits"]
            chip = chip_view(torch.ones(bits, bits))  # presets of these problems learn all couplings
            made.append(row(name, metric, given, f"{len(mine)} seeds", mine, rival_name=rival, chip=chip))
    return made


def _sudoku(seed: int, quick: bool) -> dict[str, Any]:
    """Generated puzzles; published ones are in :mod:`qubolearn.benchmarks.sudoku`."""
    size = 4 if quick else 9
    learned = learn_rules(seed, size=size)
    problem = Sudoku(size=size, hints=6 if quick else 28, unique=True)
    test = problem.sample(10 if quick else 100, stream(seed, "test"), "test")
    answers = solve_puzzles(learned.hard.A, test.p.long())
    record: dict[str, Any] = {"problem": f"sudoku {size}"}
    record |= {"quant": 100 * problem.score(answers.grids, test)["accuracy"].mean().item()}
    record |= {"quant_seconds": learned.seconds, **rules_found(learned.hard.A, size)}
    return record | {"highest_other": learned.hard.gaps[0][0], "lowest_rule": learned.hard.gaps[0][1]}
