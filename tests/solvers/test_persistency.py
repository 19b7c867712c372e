"""Bits fixed by roof duality are those of a lowest state."""

from __future__ import annotations

import pytest
import torch

from qubolearn.chips.topologies import topology
from qubolearn.qubo import FREE, SparseQubo, energies
from qubolearn.solvers import ExhaustiveSearch, SimulatedAnnealing, persistency, solve
from qubolearn.solvers.persistency import with_persistent_bits


def sparse_qubos(batch: int, n: int, integer: bool) -> torch.Tensor:
    g = torch.Generator().manual_seed(n)
    A = torch.randn(batch, n, n, generator=g, dtype=torch.float64) * (torch.rand(n, n, generator=g) < 0.06)
    A = A + torch.diag_embed(torch.randn(batch, n, generator=g, dtype=torch.float64))
    return (3 * A).round() if integer else A


def test_some_lowest_state_has_the_fixed_bits() -> None:
    fixed = 0
    for integer in (False, True):
        A = sparse_qubos(12, 26, integer)
        clamp = torch.full((12, 26), FREE, dtype=torch.int8)
        clamp[::2, 0] = 1
        right = solve(A, ExhaustiveSearch(), 2, clamp=clamp).energies[:, :1]  # count=2 fixes nothing
        for form in (A, SparseQubo.from_dense(A)):
            held = with_persistent_bits(form, clamp)
            assert (held[clamp != FREE] == clamp[clamp != FREE]).all()
            fixed += int((held != clamp).sum())
            found = solve(form, ExhaustiveSearch(), 1, clamp=clamp)
            torch.testing.assert_close(found.energies, right)
            torch.testing.assert_close(energies(A, found.states), right)
    assert fixed > 500


def test_nobody_looks_where_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(persistency, "_roof_duality", lambda A: pytest.fail("looked"))
    edges = topology("pegasus", 40).entries[:, 40:]
    g = torch.Generator().manual_seed(0)
    A = SparseQubo(torch.randn(2, 40, generator=g), edges, torch.randn(2, edges.shape[1], generator=g))
    assert edges.shape[1] > persistency.MOST_COUPLINGS * 40
    for form in (A, A.dense()):
        solve(form, SimulatedAnnealing(reads=2, sweeps=2, seed=0), 1, clamp={3: 1})
