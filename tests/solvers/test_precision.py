"""Answers do not depend on A's dtype."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from qubolearn.errors import NonFiniteError, QubolearnError
from qubolearn.qubo import FREE, Groups, SparseQubo, all_states, energies
from qubolearn.solvers import ExhaustiveSearch, make_solver, solve

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def lowest(A: Tensor, clamp: Tensor, groups: Groups) -> Tensor:
    """Return energies by brute force over allowed states."""
    x = all_states(A.shape[2], dtype=torch.float64)
    fits = ((clamp[:, None] == FREE) | (clamp[:, None] == x)).all(-1) & groups.allowed(x)
    return energies(A.double(), x.expand(len(A), -1, -1)).masked_fill(~fits, torch.inf).amin(1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("grouped", [False, True])
def test_clamped_search_is_exact_in_every_dtype(dtype: torch.dtype, grouped: bool) -> None:
    g = torch.Generator().manual_seed(1)
    A = torch.randn(1500, 10, 10, generator=g).to(dtype)
    shown, bits = torch.rand(1500, 10, generator=g) < 0.5, torch.randint(0, 2, (1500, 10), generator=g)
    clamp = torch.where(shown, bits, FREE)
    groups = Groups([[0, 1, 2], [5, 6]]) if grouped else Groups(())
    clamp[:, [0, 1, 2, 5, 6]] = FREE if grouped else clamp[:, [0, 1, 2, 5, 6]]
    found = solve(A, ExhaustiveSearch(), 1, clamp=clamp, groups=groups).energies[:, 0]
    torch.testing.assert_close(found, lowest(A, clamp, groups), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES[:3])
@pytest.mark.parametrize(
    "solver", ["exhaustive", "annealing:seed=0", "tempering:sweeps=100,seed=0", "neal:seed=0"]
)
def test_entries_near_the_limit_of_a_small_dtype_are_solved(dtype: torch.dtype, solver: str) -> None:
    size = torch.finfo(dtype).max * 0.9
    A = torch.full((1, 6, 6), -size, dtype=dtype)
    clamp = torch.full((1, 6), FREE)
    clamp[0, 4] = 1
    for groups in (Groups(()), Groups([[0, 1, 2]])):
        found = solve(A, make_solver(solver), 1, clamp=clamp, groups=groups).energies[:, 0]
        torch.testing.assert_close(found, lowest(A, clamp, groups))


def overflowing(n: int = 70) -> Tensor:
    """Return A whose pair 0, 1 costs more than float32 holds."""
    A = -0.9 * torch.eye(n)[None]
    A[0, 0, 1] = A[0, 1, 0] = 2e38
    return A


@pytest.mark.parametrize("solver", ["annealing:seed=0", "tempering:sweeps=200,seed=0", "auto"])
@pytest.mark.parametrize("clamp", [None, {3: 1}])
def test_couplings_beyond_float32_are_added_in_float64(solver: str, clamp: dict[int, int] | None) -> None:
    """The sparse annealer once added A_ij and A_ji in float32."""
    A = overflowing()
    found = solve(A, make_solver(solver), 1, clamp=clamp)
    torch.testing.assert_close(found.energies, torch.tensor([[-69 * 0.9]], dtype=torch.float64))


@pytest.mark.parametrize("size", [1e3, 1e6, 1e20, 2e38])
@pytest.mark.parametrize(
    "solver", ["annealing:reads=400,sweeps=50,seed=0", "tempering:reads=400,sweeps=4000,seed=0"]
)
@pytest.mark.parametrize("n", [20, 70])
def test_samples_next_to_a_large_penalty_have_their_temperature(solver: str, size: float, n: int) -> None:
    """The annealer once drew coin flips, tempering beyond 1e5."""
    A = overflowing(n).clamp(max=size)
    sampler: Any = make_solver(solver)
    if size == 2e38 and solver.startswith("tempering"):
        with pytest.raises(QubolearnError, match=r"beta=5\.0"):
            sampler.sample(A, 5.0)
        return
    reads = sampler.sample(A, 5.0)[0]
    assert not bool((reads[:, 0] * reads[:, 1]).any())
    torch.testing.assert_close(reads[:, 2:].mean(), torch.tensor(4.5).sigmoid(), atol=6e-3, rtol=0)


def test_sums_that_overflow_are_named() -> None:
    with pytest.raises(NonFiniteError, match="float32"):
        SparseQubo.from_dense(overflowing())


@pytest.mark.parametrize(
    "solver", ["exhaustive", "annealing:seed=0", "tempering:sweeps=10,seed=0", "neal", "quantum"]
)
@pytest.mark.parametrize("clamp", [None, {0: 1}])
def test_energies_beyond_float64_are_rejected_with_the_limit(
    solver: str, clamp: dict[int, int] | None
) -> None:
    A = torch.full((1, 6, 6), -1.5e308, dtype=torch.float64)
    for form in (A, SparseQubo.from_dense(A.triu())):
        with pytest.raises(NonFiniteError, match=r"1.5e\+308"):
            solve(form, make_solver(solver), 1, clamp=clamp)
