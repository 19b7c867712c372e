"""The choice of ``auto``."""

from __future__ import annotations

import math
import time

import pytest
import torch

from qubolearn import (
    AutoSolver,
    ExhaustiveSearch,
    Groups,
    QubolearnError,
    SimulatedAnnealing,
    SparseQubo,
    solve,
)
from qubolearn.qubo import LinearConstraint
from qubolearn.solvers import auto_solver
from qubolearn.solvers.auto import CHOICES
from qubolearn.solvers.contract import NothingFoundError, SearchResult, search_for
from qubolearn.solvers.tempering import ParallelTempering


def test_every_size_has_a_choice_and_sizes_rise() -> None:
    for grouped in (False, True):
        limits = [c.bits for c in CHOICES if c.groups == grouped and c.neighbors == math.inf]
        assert limits == sorted(limits)
        assert limits[-1] == math.inf


def test_the_number_of_allowed_states_decides() -> None:
    assert isinstance(auto_solver(24), ExhaustiveSearch)
    assert isinstance(auto_solver(25), SimulatedAnnealing)
    assert isinstance(auto_solver(28, groups=Groups.consecutive(7, 4)), ExhaustiveSearch)  # 2**14 states
    assert isinstance(auto_solver(32, groups=Groups.consecutive(8, 4)), ParallelTempering)
    assert auto_solver(2000, seed=7).seed == 7  # type: ignore[attr-defined]


def test_the_instance_with_the_most_free_bits_decides() -> None:
    clamp = torch.zeros(2, 100, dtype=torch.int8)
    clamp[:, :20] = -1
    assert isinstance(auto_solver(100, clamp=clamp), ExhaustiveSearch)
    clamp[1, :40] = -1
    assert isinstance(auto_solver(100, clamp=clamp), SimulatedAnnealing)


def test_sparse_qubos_are_searched_by_a_population() -> None:
    ring = torch.stack([torch.arange(299), torch.arange(1, 300)])
    A = SparseQubo(torch.ones(1, 300), ring, -torch.ones(1, 299))
    for given, name in ((A, "Population"), (A.dense(), "Population"), (torch.ones(1, 300, 300), "Simulated")):
        for found in (AutoSolver()(given, 1), solve(given, AutoSolver(), 1, clamp={0: 0})):
            assert name in found.info["choice"]
            assert "300 bits" in found.info["choice"]
    assert "Exhaustive" in AutoSolver()(torch.ones(1, 5, 5), 1).info["choice"]
    assert "Tempering" in solve(A, AutoSolver(), 1, groups=Groups.consecutive(100, 3)).info["choice"]


def test_fractional_couplings_count_twice() -> None:
    A = torch.zeros(1, 200, 200)
    A[0, :75, 75:150] = 1.0  # 56 neighbors on average
    assert "Population" in AutoSolver()(A, 1).info["choice"]
    assert "Simulated" in AutoSolver()(A / 3, 1).info["choice"]


def test_clamps_of_a_large_qubo_leave_one_that_is_searched() -> None:
    generator = torch.Generator().manual_seed(0)
    A = torch.randn(3, 60, 60, generator=generator)
    clamp = torch.randint(0, 2, (3, 60), generator=generator).to(torch.int8)
    clamp[:, 10:22] = -1
    found = solve(A, AutoSolver(), 2, clamp=clamp)
    assert found.info["source"] == "exhaustive"
    want = solve(A, ExhaustiveSearch(), 2, clamp=clamp)
    torch.testing.assert_close(found.energies, want.energies)


def test_groups_are_never_broken_and_the_lowest_state_is_found() -> None:
    # a ring of 24 nodes in 4 colors; node 0 has color 1
    i = torch.arange(24)
    ends = torch.stack([torch.minimum(i, (i + 1) % 24), torch.maximum(i, (i + 1) % 24)])
    edges = (4 * ends[:, :, None] + torch.arange(4)).reshape(2, -1)
    A = SparseQubo(torch.zeros(1, 96), edges, torch.ones(1, edges.shape[1]))
    groups = Groups.consecutive(24, 4)
    found = solve(A, AutoSolver(), 1, groups=groups, clamp={1: 1})
    assert found.energies.item() == 0
    assert bool(groups.allowed(found.states).all())
    assert found.states[0, 0, 1] == 1


def test_seconds_replace_sweeps() -> None:
    generator = torch.Generator().manual_seed(0)
    A, groups = torch.randn(1, 200, 200, generator=generator), Groups.consecutive(50, 4)
    limits = [LinearConstraint([1] * 200, 40)]
    for given in ({}, {"clamp": {0: 0}}, {"groups": groups}, {"constraints": limits}):
        began = time.perf_counter()
        long = solve(A, AutoSolver(seconds=0.4), 1, **given)
        assert 0.1 < time.perf_counter() - began < 20
        assert long.energies.item() <= 0.99 * solve(A, AutoSolver(seconds=1e-3), 1, **given).energies.item()
    with pytest.raises(QubolearnError, match="-1"):
        AutoSolver(seconds=-1.0)


def test_searches_for_some_seconds_repeat_until_something_is_found() -> None:
    def search(sweeps: int) -> SearchResult:
        if sweeps < enough:
            raise NothingFoundError(f"{sweeps} sweeps")
        return SearchResult(torch.zeros(1, 1, 3), {"sweeps": sweeps})

    enough = 10_000
    assert search_for(0.01, search).info["sweeps"] >= enough
    enough = 10**30
    with pytest.raises(NothingFoundError):
        search_for(0.01, search)
