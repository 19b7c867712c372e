"""Parallel tempering."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from qubolearn.qubo import FREE, Groups, SparseQubo, propagate_clamps
from qubolearn.solvers import ExhaustiveSearch, pair_marginals, solve
from qubolearn.solvers.forms import SparseForm
from qubolearn.solvers.tempering import ParallelTempering
from qubolearn.testing import check_solver

SOLVER = ParallelTempering(sweeps=400, seed=0)


def qubos(kind: str, batch: int, n: int, seed: int = 0) -> Tensor:
    g = torch.Generator().manual_seed(seed)
    A = torch.randn(batch, n, n, generator=g, dtype=torch.float64)
    sparse = A * (torch.rand(n, n, generator=g) < 0.3)
    kinds = {
        "normal": A,
        "integer": (2 * A).round(),
        "zero": 0 * A,
        "sparse": sparse,
        "tiny": 1e-30 * A,
        "huge": 1e30 * A,
    }
    return kinds[kind]


def test_keeps_the_contract() -> None:
    check_solver(ParallelTempering(sweeps=300), exact=True)


@pytest.mark.parametrize("kind", ["normal", "integer", "zero", "sparse", "tiny", "huge"])
@pytest.mark.parametrize("n", [1, 2, 13, 17])
def test_finds_the_lowest_states(kind: str, n: int) -> None:
    A = qubos(kind, 12, n)
    count = min(4, 2**n)
    right = ExhaustiveSearch()(A, count).energies
    for form in (A, SparseQubo.from_dense(A)):
        found = SOLVER(form, count)
        torch.testing.assert_close(found.energies, right, rtol=1e-9, atol=1e-9 * float(A.abs().max()))


@pytest.mark.parametrize("kind", ["normal", "integer", "sparse", "zero"])
@pytest.mark.parametrize("count", [1, 3])
def test_finds_the_lowest_allowed_states(kind: str, count: int) -> None:
    A, groups = qubos(kind, 16, 14), Groups([[9, 0, 3], [1, 2], [5], [4, 6, 7, 8]])
    clamp = torch.full((16, 14), FREE, dtype=torch.int8)
    clamp[::2, 3] = 1
    clamp[::3, 11] = 0
    right = solve(A, ExhaustiveSearch(), count, clamp=clamp, groups=groups).energies
    for form in (A, SparseQubo.from_dense(A)):
        found = solve(form, SOLVER, count, clamp=clamp, groups=groups)
        torch.testing.assert_close(found.energies, right)
        assert groups.allowed(found.states).all()
        held = clamp[:, None].expand_as(found.states)
        assert (found.states[held != FREE] == held[held != FREE]).all()


@pytest.mark.parametrize("count", [1, 2])
def test_a_target_ends_the_search(count: int) -> None:
    A = qubos("normal", 8, 18)
    best = ExhaustiveSearch()(A, 1).energies.max().item()
    found = ParallelTempering(sweeps=100_000, target=best, seed=0)(A, count)
    assert (found.energies[:, 0] <= best).all()
    assert (found.info["sweeps"] < 5000).all()


@pytest.mark.parametrize("kind", ["normal", "integer"])
@pytest.mark.parametrize("off", [-1e-3, -1e9])
def test_a_target_that_cannot_be_met_does_no_harm(kind: str, off: float) -> None:
    """The target rules out bits of the lowest state; a second run finds it."""
    A, groups = qubos(kind, 24, 12), Groups.consecutive(3, 3)
    right = solve(A, ExhaustiveSearch(), 1, groups=groups).energies
    for row in range(24):
        solver = replace(SOLVER, target=right[row].item() + off)
        found = solve(A[row : row + 1], solver, 1, groups=groups)
        torch.testing.assert_close(found.energies, right[row : row + 1])


@pytest.mark.parametrize("kind", ["normal", "integer", "sparse", "zero"])
def test_the_bound_is_below_all_allowed_states_and_ends_the_search_where_one_meets_it(kind: str) -> None:
    A, groups = qubos(kind, 16, 14), Groups([[9, 0, 3], [1, 2], [5], [4, 6, 7, 8]])
    clamp = torch.full((16, 14), FREE, dtype=torch.int8)
    clamp[::2, 3] = 1
    clamp[::3, 11], clamp[1::3, 11] = 0, 1
    right = solve(A, ExhaustiveSearch(), 1, clamp=clamp, groups=groups).energies
    form, held = SparseForm.make(A, groups), propagate_clamps(clamp, groups)
    assert (torch.from_numpy(form.lower_bounds(held.numpy()) * form.scale) <= right[:, 0] + 1e-9).all()
    solver = replace(SOLVER, sweeps=3000, target="bound")
    torch.testing.assert_close(solve(A, solver, 1, clamp=clamp, groups=groups).energies, right)
    alone = torch.diag_embed(A.diagonal(dim1=1, dim2=2))
    assert (solve(alone, solver, 1, clamp=clamp, groups=groups).info["sweeps"] < 400).all()


@pytest.mark.parametrize("beta", [0.3, 1.5])
@pytest.mark.parametrize("constrained", [False, True])
def test_samples_have_the_exact_marginals(beta: float, constrained: bool) -> None:
    A = qubos("normal", 3, 10, 4)
    limits = {"clamp": {9: 1}, "groups": Groups([[0, 1, 2], [4, 5]])} if constrained else {}
    reads = ParallelTempering(sweeps=40_000, reads=10_000, seed=1).sample(A, beta, **limits)
    assert reads.shape == (3, 10_000, 10)
    found = torch.einsum("bri,brj->bij", reads, reads) / reads.shape[1]
    torch.testing.assert_close(found, pair_marginals(A, beta, **limits), rtol=0, atol=0.04)


def test_samples_cross_a_barrier_that_a_single_chain_does_not() -> None:
    """A ridge of e^-25 is between all 0 and all 1."""
    n = 12
    J = torch.full((n, n), -1.0, dtype=torch.float64).triu(1)
    A = 4 * J + torch.diag(-2 * (J.sum(0) + J.sum(1)))
    reads = ParallelTempering(sweeps=20_000, reads=500, seed=0).sample(A[None] / 4, 3.0)[0]
    share = reads.mean(1)
    assert 0.2 < share.mean() < 0.8
    assert ((share < 0.2) | (share > 0.8)).double().mean() > 0.9


def test_the_seed_decides_and_an_instance_does_not_depend_on_the_others() -> None:
    A, solver = qubos("normal", 6, 40), ParallelTempering(sweeps=300, reads=5, seed=3)
    reads = solver.sample(A, 1.0)
    assert torch.equal(solver.sample(A, 1.0), reads)
    assert torch.equal(solver.sample(A[:3], 1.0), reads[:3])
    assert not torch.equal(replace(solver, seed=4).sample(A, 1.0), reads)


def test_chosen_temperatures_exchange_about_equally_often() -> None:
    rates = ParallelTempering(sweeps=4000, seed=0)(qubos("normal", 4, 64), 1).info["exchange_rates"]
    assert rates.min() > 0.3
    assert (rates.amax(1) - rates.amin(1)).max() < 0.5


def test_given_temperatures_are_taken() -> None:
    betas = tuple(np.linspace(0.5, 3, 16).tolist())
    solver = ParallelTempering(sweeps=50, betas=betas, reads=7, seed=0)
    found = solver(3 * qubos("normal", 2, 8), 1).info["betas"]
    torch.testing.assert_close(found, torch.tensor([betas, betas], dtype=torch.float64), rtol=1e-6, atol=0)
    assert solver.sample(qubos("normal", 2, 8)).shape == (2, 7, 8)
