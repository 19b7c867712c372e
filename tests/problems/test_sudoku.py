"""The rules of Sudoku."""

from __future__ import annotations

from operator import eq

import pytest
import torch

from qubolearn import Adam, SharedQubo, fit
from qubolearn.errors import QubolearnError
from qubolearn.losses import GroupPseudoLikelihood
from qubolearn.networks import harden
from qubolearn.problems.sudoku import (
    Sudoku,
    grids_of,
    hint_clamp,
    rule_groups,
    rule_qubo,
    solve_puzzles,
)
from qubolearn.problems.sudoku_grids import (
    all_small_grids,
    count_solutions,
    exact_solutions,
    random_grids,
    random_puzzles,
    rule_clashes,
    solutions,
)
from qubolearn.qubo import SparseQubo, energies
from qubolearn.solvers import solve
from qubolearn.solvers.tempering import ParallelTempering
from qubolearn.testing import check_problem


def some_grid(size: int) -> torch.Tensor:
    """Return the usual shifted grid, ``[size * size]``."""
    box = int(size**0.5)
    return torch.tensor(
        [(box * (r % box) + r // box + c) % size + 1 for r in range(size) for c in range(size)]
    )


def bits_of(grids: torch.Tensor, size: int) -> torch.Tensor:
    return torch.nn.functional.one_hot(grids - 1, size).flatten(-2)


@pytest.mark.parametrize("size", [4, 9])
def test_energies_count_broken_rules(size: int) -> None:
    box = int(size**0.5)
    grids = torch.randint(1, size + 1, (20, size**2), generator=torch.Generator().manual_seed(0))
    grids[0] = some_grid(size)

    def broken(grid: list[int]) -> int:
        place = [(i // size, i % size) for i in range(size**2)]
        return sum(
            grid[i] == grid[j] and (a == c or b == d or (a // box, b // box) == (c // box, d // box))
            for i, (a, b) in enumerate(place)
            for j, (c, d) in enumerate(place)
            if i < j
        )

    found = energies(rule_qubo(size, 20), bits_of(grids, size)).tolist()
    assert found == [broken(grid) for grid in grids.tolist()]
    assert found[0] == 0
    assert torch.equal(grids_of(bits_of(grids, size)), grids)
    assert rule_groups(size).allowed(bits_of(grids, size)).all()


def puzzles(size: int, batch: int, hints: int) -> torch.Tensor:
    """Return puzzles of the shifted grid, its digits renamed."""
    g = torch.Generator().manual_seed(1)
    made = []
    for _ in range(batch):
        names = torch.randperm(size, generator=g) + 1
        shown = torch.randperm(size**2, generator=g) < hints
        made.append(torch.where(shown, names[some_grid(size) - 1], 0))
    return torch.stack(made)


def test_tempering_solves_puzzles() -> None:
    given = puzzles(9, 4, 30)
    solver = ParallelTempering(sweeps=20_000, target=0.0, seed=0)
    found = solve(rule_qubo(9, 4), solver, 1, clamp=hint_clamp(given), groups=rule_groups(9))
    assert found.energies.tolist() == [[0.0]] * 4
    grids = grids_of(found.states[:, 0])
    assert (grids[given > 0] == given[given > 0]).all()


def test_bad_puzzles_are_rejected() -> None:
    for call, message in (
        (lambda: rule_qubo(6), "size 6"),
        (lambda: hint_clamp(torch.full((1, 16), 5)), "puzzle 0 has 5 in cell 0"),
        (lambda: hint_clamp(torch.zeros(16)), "\\[16\\]"),
        (lambda: hint_clamp(torch.full((1, 16), float("nan"))), "puzzle 0 has nan in cell 0"),
        (lambda: grids_of(torch.zeros(100)), "size 0"),
    ):
        with pytest.raises(QubolearnError, match=message):
            call()


@pytest.mark.parametrize("size", [4, 9])
def test_generated_grids_and_puzzles_keep_the_rules(size: int) -> None:
    g = torch.Generator().manual_seed(3)
    grids = random_grids(45, g, size)
    assert energies(rule_qubo(size, 45), bits_of(grids, size)).tolist() == [0] * 45
    assert len(set(map(tuple, grids.tolist()))) > 35
    assert not torch.equal(grids, random_grids(45, g, size))
    made = random_puzzles(grids[:5], size**2 // 2 - 4, g, unique=True)
    assert count_solutions(made).tolist() == [1] * 5
    assert ((made == grids[:5]) | (made == 0)).all()
    shown = (random_puzzles(grids, 7, g) > 0).sum(1)
    assert shown.tolist() == [7] * 45


def test_solutions_are_counted() -> None:
    assert len(all_small_grids()) == 288 == len(set(map(tuple, all_small_grids().tolist())))
    assert count_solutions(torch.zeros(1, 16), most=1000).tolist() == [288]
    contradiction = torch.tensor([5, 5] + 79 * [0])
    assert count_solutions(torch.stack([some_grid(9), contradiction])).tolist() == [1, 0]


@pytest.mark.parametrize("hints", [3, 5, 8])
def test_exact_search_equals_backtracking(hints: int) -> None:
    g = torch.Generator().manual_seed(hints)
    made = random_puzzles(random_grids(30, g, 4), hints, g)
    made[0, :2] = 1  # no solution
    owners, grids = exact_solutions(made, 1000)
    for row, puzzle in enumerate(made.tolist()):
        assert sorted(grids[owners == row].tolist()) == sorted(solutions(puzzle))


@pytest.mark.parametrize("problem", [Sudoku(), Sudoku(size=4, hints=8, unique=True)])
def test_the_problem_keeps_its_contract(problem: Sudoku) -> None:
    instances = problem.sample(12, torch.Generator().manual_seed(0))
    assert problem.score(problem.decode(instances.x_true), instances)["accuracy"].tolist() == [1] * 12
    other = problem.decode(instances.x_true.roll(1, 0))
    assert problem.score(other, instances)["accuracy"].sum() == 0  # breaks the hints
    if problem.size == 9:
        check_problem(problem)


def test_splits_of_small_grids_share_none() -> None:
    problem = Sudoku(size=4, hints=8)
    sets = []
    for split in ("train", "validation", "test"):
        grids = problem.sample(2000, torch.Generator().manual_seed(0), split).answer  # type: ignore[arg-type]
        sets.append(set(map(tuple, grids.tolist())))
    assert [len(some) for some in sets] == [216, 36, 36]
    assert len(set.union(*sets)) == 288


def test_the_rules_of_small_grids_are_learned_and_solve_puzzles_of_other_grids() -> None:
    problem = Sudoku(size=4, hints=6, unique=True)
    data = problem.sample(2000, torch.Generator().manual_seed(0))
    network = SharedQubo(64)
    loss = GroupPseudoLikelihood(rule_groups(4))
    fit(network, (data.p, data.x_true), loss, epochs=5, batch_size=50, optimizer=Adam(0.05), validation=0)
    found = harden(network(data.p[:1])[0])
    learned, rules = found.A, rule_qubo(4)
    assert set(map(tuple, learned.edges.T.tolist())) == set(map(tuple, rules.edges.T.tolist()))
    puzzles = problem.sample(10, torch.Generator().manual_seed(1), "test")
    answers = solve_puzzles(learned, puzzles.p.long())
    assert answers.solved.all()
    assert torch.equal(answers.grids, puzzles.answer)


def test_puzzles_that_cannot_be_solved_are_answered_so() -> None:
    twice, impossible, good = torch.zeros(3, 16, dtype=torch.int64)
    twice[0] = twice[12] = 3
    impossible[:3], impossible[7] = torch.tensor([1, 2, 3]), 4  # cell 3 has no digit left
    good[0] = 1
    solver = ParallelTempering(sweeps=200, target=0.0, seed=0)
    answers = solve_puzzles(rule_qubo(4), torch.stack([twice, impossible, good]), solver)
    assert answers.solved.tolist() == [False, False, True]
    assert answers.remarks[0] == "hints contradict each other: digit 3 in cells 0 and 12"
    assert "no solution" in answers.remarks[1]
    assert torch.equal(answers.grids[:2], torch.stack([twice, impossible]))  # not a wrong grid
    with pytest.raises(QubolearnError, match="size=16"):
        Sudoku(size=16)
    with pytest.raises(QubolearnError, match="hints=82"):
        Sudoku(hints=82)


def test_learned_rules_are_searched_exactly() -> None:
    places = [(row, column, row // 2 * 2 + column // 2) for row in range(4) for column in range(4)]
    near = [[j for j in range(16) if j != i and any(map(eq, places[i], places[j]))] for i in range(16)]
    assert rule_clashes(4) == tuple(sum(1 << 4 * j + d for j in near[i]) for i in range(16) for d in range(4))
    fewer = SparseQubo(torch.zeros(1, 64), rule_qubo(4).edges[:, ::2], torch.ones(1, 112))
    assert count_solutions(torch.zeros(1, 16), 10_000, fewer).item() == 10_000  # the limit: there are more
