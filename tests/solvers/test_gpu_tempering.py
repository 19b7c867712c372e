"""Parallel tempering on an NVIDIA GPU, where there is one."""

from __future__ import annotations

import pytest
import torch

from qubolearn.problems.sudoku import grids_of, hint_clamp, rule_groups, rule_qubo
from qubolearn.qubo import Groups, SparseQubo
from qubolearn.solvers import ExhaustiveSearch, solve
from qubolearn.solvers.tempering import ParallelTempering, on_gpu

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")

BATCH = 70


def grid(size: int) -> torch.Tensor:
    """A full grid ``[size * size]`` that keeps all rules."""
    box = round(size**0.5)
    row, column = torch.arange(size)[:, None], torch.arange(size)
    return ((row % box * box + row // box + column) % size + 1).flatten()


@pytest.mark.parametrize(("size", "hints"), [(4, 4), (9, 30)])
def test_sudoku_is_solved_with_hints_kept(size: int, hints: int) -> None:
    generator = torch.Generator().manual_seed(size)
    shown = torch.rand(BATCH, size**2, generator=generator).argsort(1) < hints
    puzzles = torch.where(shown, grid(size), 0)
    A, groups = rule_qubo(size, BATCH).to("cuda"), rule_groups(size)
    assert on_gpu(A, groups, 16)
    solver = ParallelTempering(sweeps=20_000, target=0.0, seed=0)
    found = solve(A, solver, 1, clamp=hint_clamp(puzzles), groups=groups)
    states = found.states[:, 0].cpu()
    assert (found.energies == 0).all()
    assert groups.allowed(states).all()
    assert ((grids_of(states) == puzzles) | (puzzles == 0)).all()


@pytest.mark.parametrize("kind", ["plain", "groups", "sparse"])
def test_the_lowest_states_are_found(kind: str) -> None:
    A = torch.randn(BATCH, 12, 12, generator=torch.Generator().manual_seed(0))
    clamp = torch.where(torch.rand(BATCH, 12, generator=torch.Generator().manual_seed(1)) < 0.2, 1, -1)
    groups = Groups([[0, 1, 2, 3, 4], [7, 9, 10]]) if kind == "groups" else Groups(())
    clamp = clamp if kind == "plain" else torch.full_like(clamp, -1)
    given = SparseQubo.from_dense(A) if kind == "sparse" else A
    there = solve(given.to("cuda"), ParallelTempering(sweeps=600, seed=0), 2, clamp=clamp, groups=groups)
    exact = solve(A, ExhaustiveSearch(), 2, clamp=clamp, groups=groups)
    assert torch.allclose(there.energies.cpu(), exact.energies)
    assert there.states.is_cuda
    assert (there.info["sweeps"] >= 600).all()
