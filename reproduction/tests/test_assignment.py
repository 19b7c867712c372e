"""Permutations as answers."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch
from scipy.optimize import linear_sum_assignment

from quant_reproduction.problems.willow_matching import Assignment, column_weights
from qubolearn import ExhaustiveSearch, QubolearnError, energies
from qubolearn.qubo import Groups, all_states
from qubolearn.solvers.tempering import ParallelTempering


def permutation_states(k: int) -> torch.Tensor:
    return torch.stack([torch.eye(k)[list(P)].flatten() for P in permutations(range(k))])


@pytest.mark.parametrize("solver", [ExhaustiveSearch(), ParallelTempering(sweeps=200, seed=0)])
@pytest.mark.parametrize("kind", ["normal", "integer", "zero", "all want one column"])
def test_the_answer_is_the_lowest_permutation(solver: object, kind: str) -> None:
    generator = torch.Generator().manual_seed(1)
    A = torch.randn(5, 9, 9, generator=generator)
    if kind == "integer":
        A = A.round()
    elif kind == "zero":
        A = torch.zeros_like(A)
    elif kind != "normal":
        A[:, [0, 3, 6], [0, 3, 6]] -= 50
    found = Assignment(solver)(A, 1)  # type: ignore[arg-type]
    every = permutation_states(3)
    assert (found.states[:, 0].reshape(5, 3, 3).sum(1) == 1).all()
    torch.testing.assert_close(
        found.energies[:, 0], energies(A.double(), every.double().expand(5, -1, -1)).amin(1)
    )


def test_weights_make_every_other_state_dearer_than_its_repair() -> None:
    A = torch.randn(20, 9, 9, generator=torch.Generator().manual_seed(2))
    column = torch.arange(9) % 3
    pairs = ((column[:, None] == column) & ~torch.eye(9, dtype=torch.bool)).float()
    guarded = A + 0.5 * column_weights(A)[:, None, None] * pairs
    states = all_states(9)
    rows = states[Groups.consecutive(3, 3).allowed(states)]
    lowest = rows[energies(guarded, rows.expand(20, -1, -1)).argmin(1)]
    assert (lowest.reshape(20, 3, 3).sum(1) == 1).all()


def test_ten_by_ten_without_couplings_is_the_hungarian_algorithm() -> None:
    scores = torch.randn(10, 10, 10, generator=torch.Generator().manual_seed(3))
    found = Assignment(ParallelTempering(sweeps=500, seed=0))(torch.diag_embed(scores.flatten(1)), 1)
    wanted = [float(each[linear_sum_assignment(each)].sum()) for each in scores.numpy()]
    assert found.energies[:, 0].tolist() == pytest.approx(wanted, abs=1e-4)


def test_a_seed_reaches_the_solver_and_wrong_sizes_are_rejected() -> None:
    assert Assignment(ParallelTempering()).with_seed(7).solver == ParallelTempering(seed=7)
    with pytest.raises(QubolearnError, match="n=8"):
        Assignment(ExhaustiveSearch())(torch.zeros(1, 8, 8))
