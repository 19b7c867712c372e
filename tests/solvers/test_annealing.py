"""Simulated annealing: against brute force, the Boltzmann distribution and neal."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from dwave.samplers.sa.sampler import default_beta_range as neal_beta_range
from hypothesis import given, settings
from hypothesis import strategies as st

from qubolearn.errors import QubolearnError
from qubolearn.gpu import annealing as annealing_gpu
from qubolearn.qubo import all_states, energies, to_bqm
from qubolearn.solvers import annealing
from qubolearn.solvers.annealing import SimulatedAnnealing, default_beta_range
from qubolearn.solvers.contract import instance_seeds
from qubolearn.solvers.dimod_adapter import neal
from qubolearn.solvers.exhaustive import ExhaustiveSearch
from qubolearn.solvers.forms import DenseForm


def random_qubos(batch: int, n: int, seed: int = 0, kind: str = "dense") -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    if kind == "integer":
        return torch.randint(-3, 4, (batch, n, n), generator=generator).double()
    A = torch.randn(batch, n, n, generator=generator, dtype=torch.float64)
    if kind == "sparse":
        A = A * ((torch.rand(n, n, generator=generator) < 0.3) | torch.eye(n, dtype=torch.bool))
    return A


def all_energies(A: torch.Tensor) -> torch.Tensor:
    """[batch, 2**n]"""
    return energies(A, all_states(A.shape[-1], dtype=torch.float64).expand(len(A), -1, -1))


def brute_force(A: torch.Tensor, count: int) -> torch.Tensor:
    return all_energies(A.double()).sort(dim=1).values[:, :count]


@pytest.mark.parametrize("kind", ["dense", "sparse", "integer"])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 13, 15])
def test_finds_the_lowest_states(n: int, kind: str) -> None:
    A = random_qubos(20 if n < 15 else 8, n, seed=n, kind=kind)
    solution = SimulatedAnnealing(seed=0)(A)
    exact = brute_force(A, 2)
    torch.testing.assert_close(solution.energies[:, 0], exact[:, 0])
    assert torch.isclose(solution.energies[:, 1], exact[:, 1]).double().mean() >= 0.95
    torch.testing.assert_close(energies(A, solution.states), solution.energies)


def test_ends_where_states_are_tied() -> None:
    """Max-cut on 32 nodes: roundings of tied energies once made two states improve on each other for ever."""
    rng = np.random.default_rng(6)
    edges = {(min(u, v), max(u, v)) for u, v in zip(*rng.integers(0, 32, (2, 64)).tolist(), strict=True) if u != v}
    A = torch.zeros(1, 32, 32)
    for a, b in edges:
        A[0, a, b] = 2
        A[0, a, a] -= 1
        A[0, b, b] -= 1
    in_child = ThreadPoolExecutor(1).submit(SimulatedAnnealing(seed=0), A, 1)  # a hang would be this thread's alone
    assert in_child.result(timeout=60).energies.item() == ExhaustiveSearch()(A, 1).energies.item()


@pytest.mark.parametrize(("n", "batch"), [(8, 300), (15, 25)])
def test_second_best_state_is_found_on_random_qubos(n: int, batch: int) -> None:
    A = random_qubos(batch, n, seed=3)
    torch.testing.assert_close(SimulatedAnnealing(seed=1)(A).energies, brute_force(A, 2))


@pytest.mark.parametrize("n", [1, 2, 5])
def test_all_states_can_be_asked_for(n: int) -> None:
    A = torch.cat([random_qubos(2, n), torch.zeros(1, n, n, dtype=torch.float64)])
    torch.testing.assert_close(SimulatedAnnealing(reads=3, sweeps=5, seed=0)(A, 2**n).energies, brute_force(A, 2**n))


def test_large_n_beats_or_equals_neal() -> None:
    A = random_qubos(3, 70, seed=5)  # states of more than 64 bits are told apart by hashes
    ours = SimulatedAnnealing(seed=0, sweeps=300)(A, 4)
    theirs = neal(reads=50, sweeps=300, seed=0)(A, 1)
    assert (ours.energies[:, :1] <= theirs.energies + 1e-9).all()
    assert all(len(states.unique(dim=0)) == 4 for states in ours.states)


def boltzmann(A: torch.Tensor, beta: float) -> torch.Tensor:
    return torch.softmax(-beta * all_energies(A), dim=1)


def frequencies(states: torch.Tensor) -> torch.Tensor:
    n = states.shape[-1]
    codes = (states.long() << torch.arange(n - 1, -1, -1)).sum(-1)  # the order of all_states
    return torch.stack([torch.bincount(row, minlength=2**n) / len(row) for row in codes])


@pytest.mark.parametrize("n", [3, 6])
def test_reads_at_one_temperature_follow_the_boltzmann_distribution(n: int) -> None:
    A, reads = random_qubos(3, n, seed=n), 20_000
    solver = SimulatedAnnealing(reads=reads, sweeps=40, beta_range=(0.7, 0.7), seed=2)
    expected, found = boltzmann(A, 0.7), frequencies(solver.sample(A))
    error = (expected * (1 - expected) / reads).sqrt()
    assert ((found - expected).abs() < 5 * error + 5e-4).all()  # 5e-4: quantiles of -log(u) come in steps


def test_success_probability_is_that_of_neal() -> None:
    # So few sweeps that about half the reads fail: a wrong schedule or acceptance rule would show.
    A = random_qubos(40, 14, seed=9)
    best = brute_force(A, 1)
    reads = SimulatedAnnealing(sweeps=12, seed=0).sample(A).double()
    ours = (energies(A, reads) <= best + 1e-9).double().mean()
    parameters = {"num_reads": 100, "num_sweeps": 12}
    runs = [neal().sampler.sample(to_bqm(a), seed=i, **parameters).record.energy for i, a in enumerate(A)]
    theirs = (torch.from_numpy(np.array(runs)) <= best + 1e-9).double().mean()
    assert 0.2 < theirs < 0.8
    assert abs(ours - theirs) < 0.03


@pytest.mark.parametrize("kind", ["dense", "sparse", "integer"])
def test_beta_range_is_that_of_neal(kind: str) -> None:
    A = random_qubos(10, 7, seed=1, kind=kind)
    expected = torch.tensor([neal_beta_range(to_bqm(a)) for a in A], dtype=torch.float64)
    torch.testing.assert_close(default_beta_range(A), expected)
    S, scale = annealing._scaled(A)  # the way of other devices
    torch.testing.assert_close(annealing._beta_range(S) / scale[:, None], expected)


def test_beta_range_of_qubos_without_any_bias() -> None:
    assert default_beta_range(torch.zeros(1, 3, 3)).tolist() == [[0.1, 1.0]]


def test_the_seed_decides_whatever_the_threads_and_the_rest_of_the_batch() -> None:
    A = random_qubos(9, 20)
    solver = SimulatedAnnealing(reads=40, sweeps=5, seed=4)
    threads = torch.get_num_threads()
    samples = []
    try:
        for count in (1, 2, 5):
            torch.set_num_threads(count)
            samples.append(solver.sample(A))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(samples[0], other) for other in samples[1:])
    assert torch.equal(solver.sample(A[:4]), samples[0][:4])
    assert not torch.equal(SimulatedAnnealing(reads=40, sweeps=5, seed=5).sample(A), samples[0])
    unseeded = SimulatedAnnealing(reads=40, sweeps=5)
    assert not torch.equal(unseeded.sample(A), unseeded.sample(A))


def test_equal_qubos_of_a_batch_and_all_reads_draw_independently() -> None:
    A = random_qubos(1, 40).expand(3, 40, 40)
    reads = SimulatedAnnealing(reads=600, sweeps=1, beta_range=(1e-6, 1e-6), seed=0).sample(A)
    assert len(reads.reshape(-1, 40).unique(dim=0)) == 1800
    assert abs(reads.mean() - 0.5) < 0.01


def test_the_scale_of_the_energies_does_not_matter() -> None:
    A = random_qubos(4, 11)
    solver = SimulatedAnnealing(reads=20, sweeps=10, seed=0)
    for scale in (2.0**-200, 2.0**200):
        assert torch.equal(solver.sample(A * scale), solver.sample(A))


def test_entries_near_the_largest_float() -> None:
    A = torch.full((1, 5, 5), 1e308, dtype=torch.float64)
    assert SimulatedAnnealing(reads=20, sweeps=50, seed=0).sample(-A).eq(1).all()


def test_an_empty_batch_has_no_reads() -> None:
    assert SimulatedAnnealing().sample(torch.zeros(0, 3, 3)).shape == (0, 100, 3)


def test_beta_range_is_in_units_of_the_energies() -> None:
    A = random_qubos(2, 9)
    warm = SimulatedAnnealing(reads=50, sweeps=20, beta_range=(0.5, 2.0), seed=0)
    hot = SimulatedAnnealing(reads=50, sweeps=20, beta_range=(0.0625, 0.25), seed=0)
    assert torch.equal(warm.sample(A), hot.sample(8 * A))


def test_info_reports_the_share_of_reads_at_the_best_energy() -> None:
    A = random_qubos(5, 14, seed=9)
    solver = SimulatedAnnealing(sweeps=12, seed=0)
    reads = energies(A, solver.sample(A).double())
    share = (reads <= reads.min(1, keepdim=True).values + 1e-9).double().mean(1)
    info = solver(A).info
    torch.testing.assert_close(info["success_probability"], share)
    assert (info["reads"], info["sweeps"], info["source"]) == (100, 12, "simulated")


def test_generators_of_reads_differ() -> None:
    states = annealing_gpu.generators(instance_seeds(0, 50), 200)
    assert len(states.unique()) == 10_000
    assert states.min() >= 1
    assert states.max() < 2**32


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 7), st.integers(0, 10**6), st.integers(1, 10))
def test_refinement_is_exact_when_the_reads_hold_all_local_minima(n: int, seed: int, count: int) -> None:
    A = random_qubos(1, n, seed=seed)
    states = all_states(n, dtype=torch.float64)
    E = all_energies(A)[0]
    neighbours = torch.arange(2**n)[:, None] ^ (1 << torch.arange(n))
    minima = (E[:, None] < E[neighbours]).all(1)
    reads = states[minima].to(torch.int8)[None].numpy()
    count = min(count, 2**n)
    found, success = DenseForm(A).refine(reads, count)
    torch.testing.assert_close(energies(A, torch.from_numpy(found).double()), E.sort().values[None, :count])
    assert success[0] == pytest.approx(1 / minima.sum().item())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reads": 0}, "reads=0"),
        ({"beta_range": (2.0, 1.0)}, r"beta_range=\(2.0, 1.0\)"),
        ({"beta_range": (1.0, float("inf"))}, "beta_range"),
        ({"sweeps": 2.5}, "sweeps=2.5"),
        ({"seed": -3}, "seed=-3"),
    ],
)
def test_bad_options_are_refused(options, message: str) -> None:
    with pytest.raises(QubolearnError, match=message):
        SimulatedAnnealing(**options)
