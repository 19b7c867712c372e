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
from qubolearn.benchmarks.rows import Row, row
from qubolearn.evaluation import evaluate, evaluate_bits
from qubolearn.losses import GroupPseudoLikelihood
from qubolearn.networks import SharedQubo, harden
from qubolearn.networks.shared import Hardened
from qubolearn.problems.knapsack import greedy_by_density
from qubolearn.problems.maxcut import local_search
from qubolearn.problems.sudoku import Sudoku, rule_groups, rule_qubo, solve_puzzles
from qubolearn.qubo import SparseQubo
from qubolearn.randomness import stream
from qubolearn.training.fit import fit
from qubolearn.training.optimizers import Adam
from qubolearn.training.recipes import preset
from qubolearn.training.train import train

__all__ = ["LearnedRules", "coupling_gains", "learn_sudoku", "rows", "rules_found"]

#: A training of seconds, for checks that everything runs.
QUICK: dict[str, Any] = {"epochs": 2, "instances": 705, "validation": 50}


def coupling_gains(quick: bool) -> Iterator[dict[str, Any]]:
    """Records of max-cut with 8 and 16 nodes, knapsack of 10 items and Sudoku, three seeds each."""
    tasks: list[tuple[str, dict[str, Any], str]] = [("maxcut", {"nodes": 8}, "accuracy")]
    if not quick:
        tasks += [("maxcut", {"nodes": 16}, "accuracy")]
    tasks += [("knapsack", {}, "value_projected")]
    for seed in range(1 if quick else 3):
        for name, options, metric in tasks:
            yield _methods(name, options, metric, seed, quick)
        yield _sudoku(seed, quick)


def _methods(name: str, options: dict[str, Any], metric: str, seed: int, quick: bool) -> dict[str, Any]:
    record: dict[str, Any] = {"problem": " ".join([name, *map(str, options.values())]), "metric": metric, "seed": seed}
    count = 200 if quick else 2000
    for method in ("quant", "diag", "pure"):
        began = time.perf_counter()
        problem, recipe = preset("best", name, method=method, seed=seed, **options, **(QUICK if quick else {}))
        network = train(problem, recipe)
        seconds = time.perf_counter() - began
        found = evaluate(network, problem, instances=count, seed=seed).metrics
        record |= {method: 100 * found[metric], f"{method}_seconds": seconds}
        if "feasible" in found:
            record[f"{method}_feasible"] = 100 * found["feasible"]
        if method == "quant" and seed == 0:
            with torch.no_grad():
                record["chip"] = chip_view(network(problem.sample(1, stream(0, "test"), "test").p))
    test = problem.sample(count, stream(seed, "test"), "test")
    rival = RIVALS[name]
    record["rival"] = 100 * evaluate_bits(problem, rival.bits(problem, test.p), test).metrics[metric]
    return record


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
        rival, chip = RIVALS[problem.split()[0]].name, next((r["chip"] for r in mine if "chip" in r), None)
        if mine:
            made.append(row(name, metric, given, f"{len(mine)} seeds", mine, rival_name=rival, chip=chip))
    return made


class LearnedRules(NamedTuple):
    """The soft couplings of a Sudoku's bits, and the hard ones made of them."""

    soft: torch.Tensor  # [n, n]
    hard: Hardened
    seconds: float


def learn_sudoku(size: int = 9, grids: int = 6000, epochs: int = 2, seed: int = 0) -> LearnedRules:
    """Learn the rules from generated solved grids; that a cell holds one digit is given, as groups."""
    problem = Sudoku(size=size, hints=0)
    data = problem.sample(grids, stream(seed, "train"))
    began, network = time.perf_counter(), SharedQubo(problem.bits)
    loss = GroupPseudoLikelihood(rule_groups(size))
    fit(network, (data.p, data.x_true), loss, epochs=epochs, batch_size=100, optimizer=Adam(0.02), seed=seed)
    soft = network(data.p[:1])[0].detach()
    return LearnedRules(soft, harden(soft), time.perf_counter() - began)


def rules_found(learned: SparseQubo, size: int) -> tuple[int, int, int]:
    """How many couplings are rules, how many rules there are, and how many couplings are none."""
    mine, rules = (set(map(tuple, A.edges.T.tolist())) for A in (learned, rule_qubo(size)))
    return len(mine & rules), len(rules), len(mine - rules)


def _sudoku(seed: int, quick: bool) -> dict[str, Any]:
    size = 4 if quick else 9
    rules = learn_sudoku(size, seed=seed)
    problem = Sudoku(size=size, hints=6 if quick else 28, unique=True)
    test = problem.sample(10 if quick else 100, stream(seed, "test"), "test")
    answers = solve_puzzles(rules.hard.A, test.p.long())
    found, all_rules, others = rules_found(rules.hard.A, size)
    record = {"problem": f"sudoku {size}", "metric": "solved", "seed": seed}
    record |= {"quant": 100 * problem.score(answers.grids, test)["accuracy"].mean().item()}
    record |= {"quant_seconds": rules.seconds, "rules": found, "of": all_rules, "others": others}
    return record | {"highest_other": rules.hard.gaps[0][0], "lowest_rule": rules.hard.gaps[0][1]}
