"""PopulationAnnealing against exhaustive search."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from qubolearn import ExhaustiveSearch, Groups, SparseQubo, energies, solve
from qubolearn.kernels import kernel_threads
from qubolearn.solvers import PopulationAnnealing
from qubolearn.solvers.forms import SparseForm
from qubolearn.solvers.population import _common_unit, _in_units
from qubolearn.testing import check_solver

QUICK = PopulationAnnealing(sweeps=400, seed=0)


def sparse(batch: int, n: int, degree: int, kind: str, seed: int = 0) -> SparseQubo:
    """Return QUBOs on one random graph with values of a kind."""
    rng = np.random.default_rng(seed)
    pairs = np.sort(rng.integers(0, n, (2, n * degree // 2)), 0)
    edges = np.unique(pairs[:, pairs[0] < pairs[1]], axis=1)
    most = {"tied": 1, "large": 20_000}.get(kind, 5)
    linear, quadratic = (rng.integers(-most, most + 1, (batch, k)).astype(float) for k in (n, edges.shape[1]))
    if kind == "fractional":
        linear, quadratic = linear + rng.normal(size=linear.shape), quadratic * np.pi
    if kind == "decimal":
        linear, quadratic = linear / 10, quadratic / 10
    return SparseQubo(torch.from_numpy(linear), torch.from_numpy(edges), torch.from_numpy(quadratic))


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("degree", [2, 4, 12])
@pytest.mark.parametrize("kind", ["integer", "tied", "decimal", "large", "fractional"])
def test_lowest_states_of_small_qubos(kind: str, degree: int, count: int) -> None:
    A = sparse(6, 16, degree, kind)
    found = QUICK(A, count)
    torch.testing.assert_close(found.energies[:, 0], ExhaustiveSearch()(A, 1).energies[:, 0])
    torch.testing.assert_close(energies(A, found.states), found.energies)
    torch.testing.assert_close(QUICK(A.dense(), count).energies, found.energies)
    assert bool((found.info["eliminated"] == 0).all()) or count == 1  # others do not survive


def test_a_solver_that_keeps_the_contract() -> None:
    check_solver(PopulationAnnealing(sweeps=200))


def test_rings_and_trees_are_solved_exactly() -> None:
    n = 10_000
    ring = torch.stack([torch.arange(n - 1), torch.arange(1, n)])
    A = SparseQubo(torch.zeros(1, n).double(), ring, torch.ones(1, n - 1).double())
    A = A.with_values(A.linear - 1, 2 * A.quadratic)
    found = solve(A, QUICK, 1, clamp={0: 1, n - 1: 1})
    assert found.info["source"] == "exhaustive"
    assert found.energies.item() == -n // 2


def test_what_is_eliminated_does_not_change_the_best_energy() -> None:
    A = sparse(1, 400, 4, "integer")
    whole, parts = QUICK(A, 2), QUICK(A, 1)
    assert whole.info["eliminated"].item() == 0 < parts.info["eliminated"].item() < 400
    assert parts.energies.item() <= whole.energies[0, 0].item()


def test_seeds_fix_results_for_any_number_of_threads() -> None:
    A = sparse(3, 300, 8, "integer")
    found = []
    for threads in (1, 2, 5):
        with kernel_threads(threads):
            found.append(PopulationAnnealing(sweeps=150, reads=200, seed=3)(A, 2).states)
    assert all(torch.equal(found[0], each) for each in found)
    alone = PopulationAnnealing(sweeps=150, reads=200, seed=3)(A[:1], 2).states
    assert torch.equal(alone, found[0][:1])  # instance i depends on (seed, i) alone
    assert not torch.equal(found[0], PopulationAnnealing(sweeps=150, reads=200, seed=4)(A, 2).states)


@pytest.mark.parametrize("count", [1, 2])
def test_a_target_ends_the_search(count: int) -> None:
    A = sparse(1, 300, 6, "integer")
    best = PopulationAnnealing(sweeps=2000, seed=0)(A, 1).energies.item()
    found = PopulationAnnealing(sweeps=50_000, seed=1, target=best)(A, count)
    assert found.energies[0, 0].item() <= best
    assert found.info["sweeps"].item() < 40_000


def test_seconds_end_the_search() -> None:
    found = PopulationAnnealing(sweeps=1, seed=0, seconds=0.2)(sparse(2, 300, 6, "fractional"), 1)
    assert 100 < found.info["sweeps"].min() < 10**6


@pytest.mark.parametrize("kind", ["integer", "fractional"])
def test_clamps_and_groups(kind: str) -> None:
    A, groups = sparse(20, 16, 5, kind), Groups.consecutive(4, 4)
    for given in ({"clamp": {0: 1, 7: 0}}, {"groups": groups}, {"clamp": {0: 1}, "groups": groups}):
        found, exact = (solve(A, solver, 2, **given) for solver in (QUICK, ExhaustiveSearch()))
        torch.testing.assert_close(found.energies, exact.energies)


def test_no_read_needs_a_coupling() -> None:
    for A in (torch.zeros(2, 5, 5), -torch.eye(5)[None], torch.eye(1)[None]):
        assert QUICK(A, 1).energies.flatten().tolist() == [float(A[0].clamp(max=0).sum())] * len(A)
        assert len(QUICK(A, 2).energies[0]) == 2


@pytest.mark.parametrize(
    ("values", "unit"),
    [
        ([2, -6, 0, 4], 2.0),
        ([0.3, 0.5], 0.1),
        ([0.75, 1e3], 0.25),
        ([0, 0], 1.0),
        ([1, 1e5], None),
        ([1, 2**0.5], None),
    ],
)
def test_common_units(values: list[float], unit: float | None) -> None:
    assert _common_unit(np.array(values, float)) == (unit if unit is None else pytest.approx(unit))


def test_widths_hold_every_field() -> None:
    edges = torch.stack([torch.zeros(60, dtype=torch.int64), torch.arange(1, 61)])
    for size, width in ((2, 1), (3, 2), (700, 4)):
        A = SparseQubo(torch.ones(1, 61).double(), edges, torch.full((1, 60), float(size)).double())
        assert _in_units(SparseForm.make(A))[1].tolist() == [width]
