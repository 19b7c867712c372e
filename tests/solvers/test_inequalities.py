"""Linear inequalities against brute force."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from qubolearn import (
    AutoSolver,
    ExhaustiveSearch,
    Gap,
    Groups,
    ParallelTempering,
    QubolearnError,
    QuboNetwork,
    SimulatedAnnealing,
    evaluate,
    fit,
    solve,
    topology,
)
from qubolearn.kernels import kernel_threads
from qubolearn.problems.knapsack import Knapsack
from qubolearn.qubo import Inequalities, LinearConstraint, SparseQubo, all_states, energies, to_cqm
from qubolearn.solvers import PopulationAnnealing

POPULATION = PopulationAnnealing(sweeps=200, seed=0)
SOLVERS = [ExhaustiveSearch(), SimulatedAnnealing(reads=20, sweeps=100, seed=0), POPULATION, AutoSolver()]
Family = tuple[torch.Tensor, Groups | None, list[LinearConstraint]]


def knapsack(rng: np.random.Generator, constraints: int = 1) -> Family:
    n = int(rng.integers(6, 13))
    sizes = rng.integers(1, 20, (constraints, n))
    A = -torch.diag(torch.tensor(rng.integers(0, 9, n), dtype=torch.float64))
    return A, None, [LinearConstraint(row, row.sum() // 2) for row in sizes]


def quadratic_knapsack(rng: np.random.Generator) -> Family:
    _, _, constraints = knapsack(rng)
    n = len(np.asarray(constraints[0].coefficients))
    return torch.tensor(rng.integers(-5, 6, (n, n)), dtype=torch.float64), None, constraints


def generalized_assignment(rng: np.random.Generator) -> Family:
    jobs, machines = 4, 3
    sizes = rng.integers(1, 9, (jobs, machines))
    A = torch.diag(torch.tensor(rng.integers(1, 20, jobs * machines), dtype=torch.float64))
    loads = [{j * machines + k: sizes[j, k] for j in range(jobs)} for k in range(machines)]
    limits = [LinearConstraint(load, 10 if k else 1e9) for k, load in enumerate(loads)]
    return A, Groups.consecutive(jobs, machines), limits


def bin_packing(rng: np.random.Generator) -> Family:
    items, bins = 4, 3
    sizes, n = rng.integers(2, 8, items), items * bins + bins
    A = torch.zeros(n, n, dtype=torch.float64)
    A.diagonal()[items * bins :] = 1
    loads = [{i * bins + b: sizes[i] for i in range(items)} for b in range(bins)]
    limits = [LinearConstraint({**load, items * bins + b: -10}, 0) for b, load in enumerate(loads)]
    return A, Groups.consecutive(items, bins), limits


def capacitated_clustering(rng: np.random.Generator) -> Family:
    points, clusters = 5, 2
    distance = torch.tensor(rng.integers(0, 9, (points, points)), dtype=torch.float64).triu(1)
    A = torch.kron(distance, torch.eye(clusters, dtype=torch.float64))
    sizes = rng.integers(1, 5, points)
    loads = [{i * clusters + c: float(sizes[i]) for i in range(points)} for c in range(clusters)]
    limits = [LinearConstraint(load, float(sizes.sum() // 2 + 2)) for load in loads]
    return A, Groups.consecutive(points, clusters), limits


def free_form(rng: np.random.Generator) -> Family:
    n = int(rng.integers(6, 12))
    A = torch.tensor(rng.integers(-4, 5, (n, n)), dtype=torch.float64)
    rows = rng.integers(-3, 6, (2, n)) * (rng.random((2, n)) < 0.7)  # negative and zero coefficients
    groups = Groups([[1, 2], [3, 5, 4]]) if rng.random() < 0.5 else None
    return A, groups, [LinearConstraint(row, 4.5) for row in rows]


FAMILIES = [
    knapsack,
    lambda rng: knapsack(rng, 3),
    quadratic_knapsack,
    generalized_assignment,
    bin_packing,
    capacitated_clustering,
    free_form,
]


def allowed_energies(A: torch.Tensor, groups: Groups | None, limits: list[LinearConstraint]) -> torch.Tensor:
    """Return sorted energies of all allowed states, by loops."""
    x = all_states(len(A)).double()
    allowed = groups.allowed(x) if groups else torch.ones(len(x), dtype=torch.bool)
    for limit in limits:
        given = limit.coefficients
        a = torch.zeros(len(A), dtype=torch.float64)
        for bit, value in given.items() if isinstance(given, dict) else enumerate(np.asarray(given)):
            a[bit] = float(value)
        allowed &= x @ a <= float(limit.bound)
    return torch.einsum("si,ij,sj->s", x, A, x)[allowed].sort().values


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: type(solver).__name__)
def test_lowest_states_agree_with_brute_force(family, solver) -> None:
    for seed in range(12):
        A, groups, limits = family(np.random.default_rng(seed))
        expected = allowed_energies(A, groups, limits)
        for qubo in (A[None], SparseQubo.from_dense(A[None])):
            if len(expected) == 0:
                with pytest.raises(QubolearnError):
                    solve(qubo, solver, 1, groups=groups, constraints=limits)
                continue
            found = solve(qubo, solver, 1, groups=groups, constraints=limits)
            assert found.energies[0, 0] == expected[0]
            assert bool(Inequalities(limits, 1, len(A)).satisfied(found.states).all())


@pytest.mark.parametrize("count", [2, 5])
def test_exact_search_returns_the_lowest_states_in_order(count: int) -> None:
    for seed in range(12):
        A, groups, limits = free_form(np.random.default_rng(seed))
        expected = allowed_energies(A, groups, limits)
        if len(expected) >= count:
            found = solve(A[None], ExhaustiveSearch(), count, groups=groups, constraints=limits)
            assert torch.equal(found.energies[0], expected[:count])
            assert len({tuple(state) for state in found.states[0].tolist()}) == count
            second = solve(A[None], SimulatedAnnealing(seed=0), 2, groups=groups, constraints=limits)
            assert second.energies[0, 0] == expected[0] <= second.energies[0, 1]


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: type(solver).__name__)
def test_clamps_batches_and_constraints_per_instance(solver) -> None:
    rng = np.random.default_rng(0)
    A = torch.tensor(rng.integers(-9, 3, (4, 8, 8)), dtype=torch.float64)
    a, b = rng.integers(1, 9, (4, 8)), rng.integers(8, 20, 4)
    clamp = torch.tensor([[1, -1, -1, -1, 0, -1, -1, -1]]).expand(4, 8)
    found = solve(A, solver, 1, clamp=clamp, constraints=[LinearConstraint(torch.tensor(a), b)])
    x = all_states(8)
    for k in range(4):
        fits = (x[:, 0] == 1) & (x[:, 4] == 0) & (x.double() @ torch.tensor(a[k]).double() <= b[k])
        assert found.energies[k, 0] == energies(A[k : k + 1], x[None, fits].double()).min()


def test_reads_do_not_depend_on_threads() -> None:
    A, groups, limits = generalized_assignment(np.random.default_rng(3))
    for solver in (SimulatedAnnealing(reads=9, seed=4), PopulationAnnealing(reads=192, sweeps=100, seed=4)):
        answers = []
        for threads in (1, 3):
            with kernel_threads(threads):
                answers.append(solve(A[None], solver, 2, groups=groups, constraints=limits).states)
        assert torch.equal(*answers)


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: type(solver).__name__)
def test_second_states_are_found_if_no_single_move_is_allowed(solver) -> None:
    choose = [LinearConstraint([1] * 7, 3), LinearConstraint([-1] * 7, -3)]  # three of seven bits
    A = torch.diag_embed(torch.arange(14.0).reshape(2, 7))
    assert solve(A, solver, 2, constraints=choose).energies.tolist() == [[3, 4], [24, 25]]
    match = [LinearConstraint({place + 3 * k: 1 for k in range(3)}, 1) for place in range(3)]  # a permutation
    found = solve(torch.eye(9)[None], solver, 2, groups=Groups.consecutive(3, 3), constraints=match)
    assert found.energies.tolist() == [[3, 3]]


def test_larger_knapsack_reaches_dynamic_programming() -> None:
    rng = np.random.default_rng(0)
    values, sizes, capacity = rng.integers(10, 100, 60), rng.integers(10, 100, 60), 1500
    best = np.zeros(capacity + 1, int)
    for value, size in zip(values, sizes, strict=True):
        best[size:] = np.maximum(best[size:], best[:-size] + value)
    A = -torch.diag_embed(torch.tensor(values, dtype=torch.float32))[None]
    found = solve(A, SimulatedAnnealing(reads=20, seed=0), 1, constraints=[LinearConstraint(sizes, capacity)])
    assert -found.energies[0, 0] == best[capacity]


@pytest.mark.parametrize(
    ("constraint", "value"),
    [
        (LinearConstraint([1, 2], 1), "[2]"),
        (LinearConstraint([1, float("nan"), 1], 1), "nan"),
        (LinearConstraint({7: 1}, 1), "7"),
        (LinearConstraint([1, 1, 1], float("inf")), "inf"),
        (LinearConstraint([1, 1, 1], [1, 2]), "[2]"),
        (LinearConstraint(["a", 1, 1], 1), "a"),
        (LinearConstraint([1, 1, 1], -1), "-1"),
    ],
)
def test_bad_constraints_raise(constraint: LinearConstraint, value: str) -> None:
    with pytest.raises(QubolearnError) as error:
        solve(torch.eye(3)[None], ExhaustiveSearch(), 1, constraints=[constraint])
    assert value in str(error.value)


def test_what_cannot_be_satisfied_or_solved_raises() -> None:
    A = torch.eye(4)[None]
    both = [LinearConstraint([1] * 4, 1), LinearConstraint([-1] * 4, -2)]  # each one alone is possible
    for solver in SOLVERS:
        with pytest.raises(QubolearnError, match="instance 0"):
            solve(A, solver, 1, constraints=both)
    with pytest.raises(QubolearnError, match="ParallelTempering"):
        solve(A, ParallelTempering(), 1, constraints=both[:1])
    with pytest.raises(QubolearnError, match="LinearConstraint"):
        solve(A, ExhaustiveSearch(), 1, constraints=[([1, 1, 1, 1], 1)])  # type: ignore[list-item]
    with pytest.raises(QubolearnError, match="a list"):
        solve(A, ExhaustiveSearch(), 1, constraints=both[0])  # type: ignore[arg-type]
    with pytest.raises(QubolearnError, match="40"):
        solve(torch.eye(40)[None], ExhaustiveSearch(), 1, constraints=[LinearConstraint(np.ones(40), 3)])


@dataclass(frozen=True)
class Packing(Knapsack):
    def constraints(self, p: torch.Tensor) -> list[LinearConstraint]:
        return [LinearConstraint(p[:, self.items : -1], p[:, -1])]


def test_constraints_of_a_problem_reach_training_and_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    fitting, graph, search = {}, topology("dense", 6), ExhaustiveSearch.search_limited
    called: list[torch.Tensor] = []
    monkeypatch.setattr(
        ExhaustiveSearch, "search_limited", lambda *given: called.append(given[1]) or search(*given)
    )
    for problem in (Packing(items=6), Knapsack(items=6)):
        torch.manual_seed(0)
        network = QuboNetwork(torch.nn.Linear(13, graph.size), graph)
        fit(network, problem, Gap(), epochs=1, steps_per_epoch=3, solver=ExhaustiveSearch(), validation=None)
        if isinstance(problem, Packing):
            assert len(called) >= 3  # steps
        fitting[type(problem)] = evaluate(network, problem).metrics["feasible"]
    assert fitting[Packing] == 1 > fitting[Knapsack]


def test_constrained_model_of_dimod_has_the_same_lowest_state() -> None:
    dimod = pytest.importorskip("dimod")
    A, groups, limits = generalized_assignment(np.random.default_rng(1))
    answers = dimod.ExactCQMSolver().sample_cqm(to_cqm(A, groups, limits))
    lowest = answers.filter(lambda row: row.is_feasible).first.energy
    assert lowest == solve(A[None], ExhaustiveSearch(), 1, groups=groups, constraints=limits).energies[0, 0]
