"""Simulated annealing: against brute force and neal."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from chip_qubos import exact
from dwave.samplers.sa.sampler import default_beta_range as neal_beta_range

from qubolearn.qubo import SparseQubo, energies, to_bqm
from qubolearn.solvers.annealing import SimulatedAnnealing, default_beta_range
from qubolearn.solvers.dimod_adapter import neal


def random_qubos(batch: int, n: int, seed: int = 0, kind: str = "dense") -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    if kind == "integer":
        return torch.randint(-3, 4, (batch, n, n), generator=generator).double()
    A = torch.randn(batch, n, n, generator=generator, dtype=torch.float64)
    if kind == "sparse":
        A = A * ((torch.rand(n, n, generator=generator) < 0.3) | torch.eye(n, dtype=torch.bool))
    return A


@pytest.mark.parametrize("kind", ["dense", "sparse", "integer"])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 13, 15])
def test_finds_the_lowest_states(n: int, kind: str) -> None:
    A = random_qubos(20 if n < 15 else 8, n, seed=n, kind=kind)
    solution = SimulatedAnnealing(seed=0)(A)
    lowest = exact(A, 2)
    torch.testing.assert_close(solution.energies[:, 0], lowest[:, 0])
    assert torch.isclose(solution.energies[:, 1], lowest[:, 1]).double().mean() >= 0.95
    torch.testing.assert_close(energies(A, solution.states), solution.energies)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_all_states_can_be_requested(n: int) -> None:
    A = torch.cat([random_qubos(2, n), torch.zeros(1, n, n, dtype=torch.float64)])
    found = SimulatedAnnealing(reads=3, sweeps=5, seed=0)(A, 2**n)
    torch.testing.assert_close(found.energies, exact(A, 2**n))


def test_success_probability_is_that_of_neal() -> None:
    # So few sweeps that half the reads fail: a wrong rule would show.
    A = random_qubos(40, 14, seed=9)
    best = exact(A, 1)
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
    for form in (A, SparseQubo.from_dense(A)):
        torch.testing.assert_close(default_beta_range(form), expected)


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
