"""The rules of Sudoku: energies count broken rules, and tempering solves puzzles."""

from __future__ import annotations

import pytest
import torch

from qubolearn.errors import QubolearnError
from qubolearn.problems.sudoku import grids_of, hint_clamp, rule_groups, rule_qubo
from qubolearn.qubo import energies
from qubolearn.solvers import ExhaustiveSearch, solve
from qubolearn.solvers.tempering import ParallelTempering


def some_grid(size: int) -> torch.Tensor:
    """The usual shifted grid, ``[size * size]``."""
    box = int(size**0.5)
    return torch.tensor([(box * (r % box) + r // box + c) % size + 1 for r in range(size) for c in range(size)])


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


def test_of_nine_there_are_7290_pairs() -> None:
    assert rule_qubo(9).edges.shape == (2, 7290)


def puzzles(size: int, batch: int, hints: int) -> torch.Tensor:
    """The shifted grid with its digits renamed, of which some cells are shown."""
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


def test_small_puzzles_exactly() -> None:
    given = puzzles(4, 5, 8)
    found = solve(rule_qubo(4, 5), ExhaustiveSearch(), 1, clamp=hint_clamp(given), groups=rule_groups(4))
    assert found.energies.tolist() == [[0.0]] * 5


def test_bad_puzzles_are_refused() -> None:
    for call, said in (
        (lambda: rule_qubo(6), "size 6"),
        (lambda: hint_clamp(torch.zeros(1, 15)), "size 15"),
        (lambda: hint_clamp(torch.full((1, 16), 5)), "digits from 5 to 5"),
        (lambda: hint_clamp(torch.zeros(16)), "want \\[batch"),
        (lambda: grids_of(torch.zeros(100)), "size 0"),
    ):
        with pytest.raises(QubolearnError, match=said):
            call()
