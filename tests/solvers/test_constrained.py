"""Clamps and groups through every solver."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.qubo import FREE, Groups, SparseQubo, all_states, energies
from qubolearn.solvers import ExhaustiveSearch, QuboSolver, log_partition, make_solver, pair_marginals, solve
from qubolearn.solvers.annealing import SimulatedAnnealing
from qubolearn.solvers.contract import SearchResult
from qubolearn.solvers.tempering import ParallelTempering


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random_groups(n: int, seed: int) -> Groups:
    bits = torch.randperm(n, generator=generator(seed)).tolist()
    members = []
    while len(bits) > 2:
        size = int(torch.randint(1, 5, (), generator=generator(seed + 100 * len(bits))))
        members.append(bits[:size])
        bits = bits[size + seed % 2 :]
    return Groups(members)


def random_clamp(batch: int, n: int, groups: Groups, seed: int) -> Tensor:
    """Return a random allowed state with some bits clamped."""
    g = generator(seed)
    x = torch.randint(0, 2, (batch, n), generator=g)
    for group in groups.members:
        chosen = torch.randint(len(group), (batch,), generator=g)
        x[:, list(group)] = torch.nn.functional.one_hot(chosen, len(group))
    shown = torch.rand(batch, n, generator=g) < torch.rand(batch, 1, generator=g)
    shown[0] = True
    return torch.where(shown, x, FREE).to(torch.int8)


def qubos(kind: str, batch: int, n: int, seed: int) -> Tensor:
    A = torch.randn(batch, n, n, generator=generator(seed), dtype=torch.float64)
    sparse = A * (torch.rand(batch, n, n, generator=generator(seed + 1)) < 0.25)
    return {"normal": A, "integer": A.round(), "zero": 0 * A, "sparse": sparse}[kind]


def brute_force(A: Tensor, clamp: Tensor, groups: Groups) -> tuple[Tensor, Tensor, Tensor]:
    """Return all states, a mask of allowed ones, and energies."""
    x = all_states(A.shape[2], dtype=torch.float64)
    fits = ((clamp[:, None] == FREE) | (clamp[:, None] == x)).all(-1) & groups.allowed(x)
    return x, fits, energies(A, x.expand(len(A), -1, -1)).masked_fill(~fits, float("inf"))


CASES = [(kind, seed) for kind in ("normal", "integer", "zero", "sparse") for seed in range(10)]


@pytest.mark.parametrize("constraint", ["clamp", "groups", "both"])
@pytest.mark.parametrize(("kind", "seed"), CASES)
def test_exhaustive_search_equals_brute_force(kind: str, seed: int, constraint: str) -> None:
    n, batch = 4 + seed % 6, 32
    A = qubos(kind, batch, n, seed)
    groups = random_groups(n, seed) if constraint != "clamp" else Groups([])
    clamp = random_clamp(batch, n, groups, seed) if constraint != "groups" else torch.full((batch, n), FREE)
    _, fits, energy = brute_force(A, clamp, groups)
    for count in {1, int(fits.sum(1).min())} | ({3} if fits.sum(1).min() >= 3 else set()):
        lowest = energy.sort(1).values[:, :count]
        for form in (A, SparseQubo.from_dense(A), A.float()):
            found = solve(form, ExhaustiveSearch(), count, clamp=clamp, groups=groups)
            torch.testing.assert_close(found.energies, lowest, rtol=1e-6, atol=1e-6)
            assert found.states.dtype == form.dtype
            assert groups.allowed(found.states).all()
            held = clamp[:, None].expand_as(found.states)
            assert (found.states[held != FREE] == held[held != FREE]).all()
            assert all(len(rows.unique(dim=0)) == count for rows in found.states)


@pytest.mark.parametrize(("kind", "seed"), CASES)
def test_log_partition_and_marginals_equal_brute_force(kind: str, seed: int) -> None:
    n, batch, beta = 4 + seed % 6, 16, 0.7
    A = qubos(kind, batch, n, seed).requires_grad_()
    for groups in (Groups([]), random_groups(n, seed)):
        clamp = random_clamp(batch, n, groups, seed)
        x, _, energy = brute_force(A.detach(), clamp, groups)
        p = (-beta * energy).softmax(1)
        right = torch.einsum("bs,si,sj->bij", p, x, x)
        value = log_partition(A, beta, clamp=clamp, groups=groups)
        torch.testing.assert_close(value, (-beta * energy).logsumexp(1))
        torch.testing.assert_close(pair_marginals(A, beta, clamp=clamp, groups=groups), right)
        (grad,) = torch.autograd.grad(value.sum(), A)
        torch.testing.assert_close(grad, -beta * right)


@pytest.mark.parametrize(
    "spec", ["annealing:reads=20,sweeps=100,seed=0", "neal:reads=20,sweeps=100,seed=0", "quantum:seed=0"]
)
@pytest.mark.parametrize("sparse", [False, True])
def test_any_solver_takes_clamps_and_groups(spec: str, sparse: bool) -> None:
    n, batch, groups = 9, 6, Groups([[0, 1, 2], [7, 8], [4]])
    A = qubos("integer", batch, n, 5)
    clamp = torch.full((batch, n), FREE)
    clamp[::2, 1] = 1
    clamp[1::2, 5] = 0
    lowest = brute_force(A, clamp, groups)[2].sort(1).values[:, :2]
    found = solve(SparseQubo.from_dense(A) if sparse else A, make_solver(spec), 2, clamp=clamp, groups=groups)
    torch.testing.assert_close(found.energies, lowest)
    assert len(found.info["success_probability"]) == batch


class AllOnes(QuboSolver):
    """Breaks every group."""

    def search(self, A: Tensor, count: int) -> SearchResult:
        return SearchResult(torch.ones(len(A), 1, A.shape[2]), {})


def test_forbidden_answers_are_repaired() -> None:
    A = qubos("normal", 8, 8, 1)
    groups = Groups([[0, 1, 2], [3, 4, 5]])
    found = solve(A, AllOnes(), 1, groups=groups)
    assert groups.allowed(found.states).all()
    assert solve(A, AllOnes(), 1, clamp={6: 0}).states[:, 0, 6].sum() == 0


@pytest.mark.parametrize("sparse", [False, True])
def test_annealing_with_groups_finds_the_lowest_allowed_state_from_its_reads(sparse: bool) -> None:
    """Moves within groups lead on from minima of single flips."""
    A, groups = qubos("sparse" if sparse else "normal", 32, 24, 0), Groups.consecutive(6, 4)
    given = SparseQubo.from_dense(A) if sparse else A
    right = solve(A, ExhaustiveSearch(), 1, groups=groups)
    found = solve(given, SimulatedAnnealing(reads=20, sweeps=200, seed=0), 1, groups=groups)
    torch.testing.assert_close(found.energies, right.energies)
    assert ((found.info["success_probability"] > 0) & (found.info["success_probability"] <= 1)).all()


def test_nothing_and_everything_clamped() -> None:
    A = qubos("normal", 3, 5, 0)
    free = solve(A, ExhaustiveSearch(), 2)
    for nothing in ({"clamp": {}}, {"groups": Groups([])}):
        assert torch.equal(solve(A, ExhaustiveSearch(), 2, **nothing).states, free.states)  # type: ignore[arg-type]
    clamp = torch.tensor([0, 1, 1, 0, 1])
    known = solve(A, ExhaustiveSearch(), 1, clamp=clamp)
    assert torch.equal(known.states[:, 0], clamp.expand(3, 5).double())
    torch.testing.assert_close(known.energies, energies(A, known.states))
    assert solve(A[:0], ExhaustiveSearch(), 2, clamp={0: 1}).states.shape == (0, 2, 5)


def test_a_sparse_batch_with_many_patterns_of_clamps() -> None:
    i = torch.arange(11)
    edges = torch.cat([torch.stack([i, i + 1]), torch.stack([i[:8], i[:8] + 4])], 1)
    couplings = torch.randint(-2, 3, (20, 19), generator=generator(3)).float()
    A = SparseQubo(torch.randn(20, 12, generator=generator(4)), edges, couplings)
    clamp = torch.full((20, 12), -1)
    clamp[torch.arange(20), torch.arange(20) % 12] = torch.randint(0, 2, (20,), generator=generator(5))
    found = solve(A, SimulatedAnnealing(reads=50, sweeps=200, seed=0), 2, clamp=clamp)
    want = solve(A, ExhaustiveSearch(), 2, clamp=clamp)
    torch.testing.assert_close(found.energies, want.energies)
    assert bool(((clamp[:, None] == -1) | (found.states == clamp[:, None])).all())


ZEROS = torch.zeros(2, 6, 6)
CHIP = SparseQubo(torch.zeros(10, 5640), torch.zeros(2, 0, dtype=torch.int64), torch.zeros(10, 0))
FIVES = torch.zeros(1, 65, 65), Groups.consecutive(13, 5)
MISTAKES: list[tuple[str, Callable[[], object]]] = [
    ("list", lambda: solve(ZEROS, ExhaustiveSearch(), groups=[[0, 1]])),  # type: ignore[arg-type]
    ("list", lambda: log_partition(ZEROS, groups=[[0, 1]])),  # type: ignore[arg-type]
    ("annealing", lambda: solve(ZEROS, "annealing", clamp={0: 1})),  # type: ignore[arg-type]
    ("count=2", lambda: solve(ZEROS, ExhaustiveSearch(), 2, clamp=dict.fromkeys(range(6), 0))),
    ("allow 24", lambda: solve(ZEROS, ExhaustiveSearch(), 25, groups=Groups([[0, 1, 2]]))),
    ("count=0", lambda: solve(ZEROS, ExhaustiveSearch(), 0, clamp={0: 0})),
    ("13 groups", lambda: solve(FIVES[0], ExhaustiveSearch(max_bits=20), 1, groups=FIVES[1])),
    ("28", lambda: log_partition(FIVES[0], groups=FIVES[1])),
    ("1000000000 reads", lambda: SimulatedAnnealing(reads=10**9)(CHIP)),
    ("1000000000 reads", lambda: SimulatedAnnealing(reads=10**9).sample(CHIP)),
    ("1000000000 reads", lambda: ParallelTempering(reads=10**9).sample(CHIP, 1.0)),
    ("1600000000 replicas", lambda: ParallelTempering(replicas=1_600_000_000)(CHIP)),
    ("n=5640", lambda: log_partition(CHIP)),
    ("n=5640", lambda: pair_marginals(CHIP)),
]


@pytest.mark.parametrize(("value", "mistake"), MISTAKES)
def test_mistakes_are_named_before_anything_large_is_made(value: str, mistake: Callable[[], object]) -> None:
    with pytest.raises(QubolearnError, match=value):
        mistake()


def test_clamps_of_numpy_integers_are_taken() -> None:
    assert solve(ZEROS, ExhaustiveSearch(), clamp={np.int64(2): np.uint8(1)}).states[:, :, 2].all()
