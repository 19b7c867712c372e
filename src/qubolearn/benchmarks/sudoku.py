"""Sudoku's rules, learned from solved grids alone: published test sets, diag and pure, and search with the true rules.

Rules are learned from the training split of each set, of RRN's puzzles from the validation set. Recipes were chosen on
generated puzzles. Puzzles are solved on an NVIDIA GPU where there is one, which all of RRN's want.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from qubolearn.benchmarks.chip_view import chip_view
from qubolearn.benchmarks.processes import Planned
from qubolearn.benchmarks.rows import Published, Row, row
from qubolearn.networks import SharedQubo
from qubolearn.networks.shared import Hardened
from qubolearn.problems.contract import Instances
from qubolearn.problems.sudoku import Sudoku, hint_clamp, rule_groups, rule_qubo
from qubolearn.problems.sudoku_grids import solutions
from qubolearn.problems.sudoku_sets import load_set
from qubolearn.qubo import Qubo, SparseQubo, forced, reduced, with_penalties
from qubolearn.randomness import stream
from qubolearn.solvers import solve
from qubolearn.solvers.tempering import ParallelTempering
from qubolearn.training.recipes import preset
from qubolearn.training.train import train

__all__ = ["Learned", "learn_rules", "records", "rows", "rules_found"]

Record = dict[str, Any]
SEEDS = 3
#: The most sweeps that a puzzle may take; one of 17 hints takes 7,000 on average.
SWEEPS = 1_000_000
#: Search with the true rules solves so many puzzles of each number of hints: in Python it is slow for the hard ones.
SEARCHED = 20
DIAG_EPOCHS = 5
RRN: Published = {
    "name": "RRN",
    "value": 96.6,
    "source": "docs/index.md of rasmusbergpalm/recurrent-relational-networks on GitHub, commit 00cfaec, 17 hints",
}
SATNET: Published = {
    "name": "SATNet, which is not given that a cell holds one digit",
    "value": 98.3,
    "source": "SATNet (Wang et al., ICML 2019), as quoted from memory: the paper's table could not be read again here",
}


def place() -> torch.device:
    """Where puzzles are solved."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Learned(NamedTuple):
    """A network that learned the rules of Sudoku, its rounded couplings, and how long that took."""

    network: SharedQubo
    hard: Hardened
    seconds: float


def learn_rules(seed: int = 0, **options: Any) -> Learned:
    """Train the preset ``best`` for Sudoku with other options, on the CPU."""
    began = time.perf_counter()
    network = train(*preset("best", options.pop("problem", "sudoku"), seed=seed, **options))
    assert isinstance(network, SharedQubo)
    hard = network.hardened()
    assert hard is not None
    return Learned(network, hard, time.perf_counter() - began)


def rules_found(learned: SparseQubo, size: int) -> Record:
    """How many couplings are rules, how many rules there are, and how many couplings are none."""
    mine, rules = (set(map(tuple, A.edges.T.tolist())) for A in (learned, rule_qubo(size)))
    return {"rules": len(mine & rules), "of": len(rules), "others": len(mine - rules)}


def planned(quick: bool) -> Planned:
    """:func:`records`, and how many there will be."""
    return Planned(1 if quick else 3 * SEEDS, records(quick))


def records(quick: bool) -> Iterator[Record]:
    """Records of one set and seed each; of RRN's puzzles one for 17 hints and one for all."""
    for seed in range(1 if quick else SEEDS):
        if quick:
            problem = Sudoku(size=4)
            yield from _set_records(problem, problem.sample(20, stream(seed, "test"), "test"), seed, quick)
        for name in () if quick else ("satnet", "rrn"):
            problem = Sudoku(set=name)
            test = load_set(name)["test"]
            bits = torch.nn.functional.one_hot(test.solutions - 1, 9).flatten(1).float()
            yield from _set_records(problem, Instances(test.puzzles.float(), bits, test.solutions), seed, quick)


def _set_records(problem: Sudoku, test: Instances, seed: int, quick: bool) -> Iterator[Record]:
    learned = learn_rules(seed, size=problem.size, set=problem.set, **({"validation": 1} if quick else {}))
    warm = test.rows(slice(0, 64))
    _solved(problem, learned.network, warm, 1, seed)  # compiles
    began = time.perf_counter()
    accuracy, sweeps = _solved(problem, learned.network, test, SWEEPS, seed)
    seconds = time.perf_counter() - began
    others = {method: _without_couplings(problem, method, test, seed, quick) for method in ("diag", "pure")}
    hints = (test.p > 0).sum(1)
    rival = _searched(problem, test, hints) if seed == 0 else None
    gap = dict(zip(("highest_other", "lowest_rule"), learned.hard.gaps[0], strict=True))
    shared: Record = {"seed": seed, "learning_seconds": learned.seconds, **rules_found(learned.hard.A, problem.size)}
    for what in ("17 hints", "all") if problem.set == "rrn" else ("all",):
        mine = hints == 17 if what == "17 hints" else hints >= 0
        record: Record = {
            "problem": f"{problem.set} {problem.size}, {what}",
            "puzzles": int(mine.sum()),
            **shared,
            **gap,
        }
        record |= {"quant": _percent(accuracy[mine]), **{m: _percent(found[mine]) for m, found in others.items()}}
        if rival is not None:
            looked = rival[mine][rival[mine] >= 0]
            record |= {"rival": _percent(looked), "rival_puzzles": len(looked)}
        record |= {"sweeps": sweeps[mine].double().mean().item(), "most_sweeps": int(sweeps[mine].max())}
        yield record | ({"solve_seconds": seconds} if what == "all" else {})


def _percent(values: Tensor) -> float:
    return 100 * values.double().mean().item()


@torch.no_grad()
def _solved(problem: Sudoku, network: SharedQubo, test: Instances, sweeps: int, seed: int) -> tuple[Tensor, Tensor]:
    """Whether each puzzle is solved, and the sweeps that it took."""
    A = network.to(place()).eval()(test.p.to(place()))
    solver = ParallelTempering(sweeps=sweeps, target="bound", seed=seed)
    found = solve(A, solver, 1, clamp=hint_clamp(test.p), groups=rule_groups(problem.size))
    answers = problem.decode(found.states[:, 0].cpu())
    return problem.score(answers, test)["accuracy"], found.info["sweeps"].cpu()


def _without_couplings(problem: Sudoku, method: str, test: Instances, seed: int, quick: bool) -> Tensor:
    """Whether a network that sees the hints and says each cell by itself solves each puzzle."""
    options: Record = {"size": problem.size, "set": problem.set, "epochs": 1 if quick else DIAG_EPOCHS}
    _, recipe = preset("best", "sudoku", method=method, seed=seed, validation=1, **options)
    network = train(problem, recipe, device=place()).cpu().eval()
    with torch.no_grad():
        linear = torch.cat([_linear(network(part)) for part in test.p.split(1024)])
    answers = linear.reshape(len(test.p), problem.size**2, problem.size).argmin(2) + 1
    answers = torch.where(test.p > 0, test.p.long(), answers)
    return problem.score(answers, test)["accuracy"]


def _linear(A: Qubo) -> Tensor:
    return A.linear if isinstance(A, SparseQubo) else A.diagonal(dim1=1, dim2=2)


def _searched(problem: Sudoku, test: Instances, hints: Tensor) -> Tensor:
    """Whether search with the true rules solves a puzzle, -1 where it was not asked."""
    found = torch.full((len(hints),), -1)
    for number in hints.unique().tolist():  # type: ignore[no-untyped-call]
        for index in (hints == number).nonzero()[:SEARCHED, 0].tolist():
            grid = next(solutions(test.p[index].long().tolist()), [0] * problem.input_size)
            found[index] = int(problem.score(torch.tensor([grid]), test.rows(slice(index, index + 1)))["accuracy"])
    return found


def rows(found: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Lines of the table "where couplings pay"."""
    made = []
    names = {
        "satnet 9, all": "Sudoku, SATNet's 1,000 test puzzles",
        "rrn 9, 17 hints": "Sudoku, RRN's puzzles of 17 hints",
    }
    names |= {
        "rrn 9, all": "Sudoku, RRN's 9,000 test puzzles of 17 to 34 hints",
        "generated 4, all": "Sudoku of size 4",
    }
    published = {"satnet 9, all": [SATNET], "rrn 9, 17 hints": [RRN]}
    for key, name in names.items():
        mine = [record for record in found if record["problem"] == key]
        if mine:
            given = f"one digit a cell, hints as clamped bits; {mine[0]['of']} rules are learned from solved grids"
            rival = f"search with the true rules, {mine[0]['rival_puzzles']} puzzles"
            made.append(
                row(
                    name,
                    "puzzles solved, %",
                    given,
                    f"{len(mine)} seeds",
                    mine,
                    rival_name=rival,
                    published=published.get(key, []),
                    chip=_chip(key),
                )
            )
    return made


def on_chip(puzzle: Tensor) -> SparseQubo:
    """What a chip would have to hold of a puzzle ``[cells]``: rules and penalties of the bits that hints leave free."""
    clamp = hint_clamp(puzzle[None])
    A, groups = rule_qubo(math.isqrt(len(puzzle))), rule_groups(math.isqrt(len(puzzle)))
    shown, (i, j) = clamp[0] == 1, A.edges
    clamp[0, torch.cat([j[shown[i]], i[shown[j]]])] = 0  # a rule forbids them beside a hint
    (left,) = reduced(A, forced(clamp, groups), groups)
    penalised, _ = with_penalties(left.A, left.groups)
    assert isinstance(penalised, SparseQubo)
    return penalised


def _chip(key: str) -> dict[str, Any] | None:
    """The view of the first puzzle; of all rules, which no hint makes fewer, in the line of all of RRN's puzzles."""
    if key == "generated 4, all":
        return chip_view(on_chip(torch.zeros(16)))
    if key == "rrn 9, all":
        return chip_view(on_chip(torch.zeros(81)))
    return chip_view(on_chip(load_set("satnet" if key.startswith("satnet") else "rrn")["test"].puzzles[0]))
