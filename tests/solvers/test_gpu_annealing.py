"""Annealing on an NVIDIA GPU."""

from __future__ import annotations

from collections.abc import Callable

import networkx
import pytest
import torch

from qubolearn.chips.topologies import chip_graph
from qubolearn.qubo import Groups, SparseQubo, all_states, energies
from qubolearn.solvers import PopulationAnnealing, solve
from qubolearn.solvers.annealing import SimulatedAnnealing, default_beta_range

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")


def dense_qubos(batch: int, n: int) -> torch.Tensor:
    A = torch.randn(batch, n, n, generator=torch.Generator().manual_seed(n)) / n**0.5
    return A + A.mT


def pegasus_qubos(batch: int, m: int) -> SparseQubo:
    graph = networkx.convert_node_labels_to_integers(chip_graph("pegasus", m, coordinates=False))
    edges = torch.tensor(sorted(tuple(sorted(edge)) for edge in graph.edges)).T.contiguous()
    generator = torch.Generator().manual_seed(m)
    signs = torch.randint(0, 2, (batch, edges.shape[1]), generator=generator) * 2.0 - 1
    return SparseQubo(torch.randn(batch, len(graph), generator=generator), edges, signs)


def same_energies(A: torch.Tensor | SparseQubo, **options: float) -> None:
    """Return True if mean energies agree within five standard errors."""
    solver = SimulatedAnnealing(reads=100, sweeps=200, seed=1)
    there = energies(A.to(torch.float64), solver.sample(A.to("cuda"), **options).cpu().double())
    here = energies(A.to(torch.float64), solver.sample(A, **options).double())
    error = (there.var(1) / 100 + here.var(1) / 100).sqrt()
    assert ((there.mean(1) - here.mean(1)).abs() < 5 * error + 1e-9).all()


@pytest.mark.parametrize("n", [63, 64, 200, 1024])
@pytest.mark.parametrize("options", [{}, {"beta": 1.0}])
def test_dense_reads_have_the_energies_of_the_cpus(n: int, options: dict[str, float]) -> None:
    same_energies(dense_qubos(4, n), **options)


@pytest.mark.parametrize("m", [3, 16])
@pytest.mark.parametrize("options", [{}, {"beta": 1.0}])
def test_sparse_reads_have_the_energies_of_the_cpus(m: int, options: dict[str, float]) -> None:
    same_energies(pegasus_qubos(2, m), **options)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_reads_at_one_temperature_follow_the_boltzmann_distribution(kind: str) -> None:
    n, coupled = 80, torch.tensor([0, 5, 31, 32, 33, 63, 64, 79])
    A = torch.zeros(1, n, n)
    A[0, coupled[:, None], coupled] = dense_qubos(1, 8)[0]
    given = SparseQubo.from_dense(A) if kind == "sparse" else A
    reads = (
        SimulatedAnnealing(reads=20_000, sweeps=60, seed=0).sample(given.to("cuda"), 1.5).cpu()[0][:, coupled]
    )
    x = all_states(8)
    p = torch.softmax(-1.5 * energies(A[:, coupled][:, :, coupled].double(), x[None].double())[0], 0)
    power = 2 ** torch.arange(8)
    seen = torch.bincount((reads.long() * power).sum(1), minlength=256)[(x.long() * power).sum(1)] / len(
        reads
    )
    assert ((seen - p) ** 2 / p).sum() * len(reads) < 255 * 1.4


@pytest.mark.parametrize("reads", [1, 17, 130])
def test_any_number_of_reads(reads: int) -> None:
    solver = SimulatedAnnealing(reads=reads, sweeps=10, seed=0)
    for A in (dense_qubos(3, 100), pegasus_qubos(3, 3)):
        first, again = solver.sample(A.to("cuda")), solver.sample(A.to("cuda"))
        assert first.shape == (3, reads, A.shape[2])
        assert torch.equal(first, again)
        assert torch.equal(first[:1], solver.sample(A.to("cuda")[:1]))  # whatever the rest of the batch


@pytest.mark.parametrize(
    "A", [dense_qubos(2, 100), dense_qubos(2, 6), pegasus_qubos(2, 3)], ids=["100", "6", "sparse"]
)
@pytest.mark.parametrize("count", [1, 2])
def test_the_lowest_states_come_back_on_the_gpu(A: torch.Tensor | SparseQubo, count: int) -> None:
    solver = SimulatedAnnealing(reads=100, sweeps=1000, seed=0)
    here = solver(A, count)
    for _ in range(3):  # the second call captures a CUDA graph, the third one replays it
        there = solver(A.to("cuda"), count)
        assert there.states.is_cuda
        assert torch.allclose(there.energies.cpu(), here.energies)
    assert torch.allclose(default_beta_range(A.to("cuda")).cpu(), default_beta_range(A), rtol=1e-4)


@pytest.mark.parametrize("n", [6, 100])
def test_graphs_follow_values_and_seeds(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from qubolearn.gpu import annealing as gpu

    cases = [(dense_qubos(3, n) * scale, seed) for scale in (1.0, -1.0) for seed in (0, 1, 2)]
    found = [SimulatedAnnealing(8, 2, seed=seed)(A.cuda(), 5) for A, seed in cases]
    monkeypatch.setattr(gpu, "_graphs", {})
    for (A, seed), expected in zip(cases, found, strict=True):
        gpu._graphs.clear()
        alone = SimulatedAnnealing(8, 2, seed=seed)(A.cuda(), 5)
        assert torch.equal(alone.states, expected.states)
        torch.testing.assert_close(alone.energies, expected.energies)
        torch.testing.assert_close(energies(A.double(), alone.states.cpu().double()), alone.energies.cpu())
        assert all(len(states.unique(dim=0)) == 5 for states in alone.states)
        assert (alone.energies.diff(dim=1) >= 0).all()


def test_long_work_is_done_in_several_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    from qubolearn.gpu import annealing as gpu_rounds

    solver = SimulatedAnnealing(reads=20, sweeps=30, seed=0)
    given = [dense_qubos(2, 100).cuda(), pegasus_qubos(2, 3).to("cuda")]
    whole = [solver.sample(A) for A in given]
    monkeypatch.setattr(gpu_rounds, "UPDATES", 1)
    for A, expected in zip(given, whole, strict=True):
        assert torch.equal(solver.sample(A), expected)


@pytest.mark.parametrize(
    "make", [lambda: dense_qubos(3, 40), lambda: dense_qubos(3, 200), lambda: pegasus_qubos(3, 4)]
)
def test_cold_reads_begin_at_given_states_and_stay(make: Callable[[], torch.Tensor | SparseQubo]) -> None:
    A = make().to("cuda")
    lowest = SimulatedAnnealing(reads=50, sweeps=500, seed=0)(A, 1).states.expand(-1, 5, -1)
    cold = SimulatedAnnealing(reads=5, sweeps=3, beta_range=(1e6, 1e6), seed=0)
    assert torch.equal(cold.sample(A, initial=lowest), lowest)
    assert not torch.equal(cold.sample(A), lowest)


@pytest.mark.parametrize("count", [1, 2])
def test_the_population_finds_the_lowest_states(count: int) -> None:
    A, solver = pegasus_qubos(2, 4), PopulationAnnealing(sweeps=1000, reads=256, seed=0)
    there = solver(A.to("cuda"), count)
    assert there.states.is_cuda
    torch.testing.assert_close(
        energies(A.to(torch.float64), there.states.cpu().double()), there.energies.cpu()
    )
    torch.testing.assert_close(there.energies[:, 0].cpu(), solver(A, count).energies[:, 0])
    assert torch.equal(solver(A.to("cuda"), count).states, there.states)
    assert torch.equal(solver(A.to("cuda")[:1], count).states, there.states[:1])


@pytest.mark.parametrize(
    "solver", [SimulatedAnnealing(sweeps=500, seed=0), PopulationAnnealing(500, 256, seed=0)]
)
def test_clamps_and_groups_hold(solver: SimulatedAnnealing | PopulationAnnealing) -> None:
    A = pegasus_qubos(1, 3)
    n = A.shape[2]
    found = solve(A.to("cuda"), solver, 2, clamp={n - 1: 1, n - 2: 0}, groups=Groups([range(5)]))
    assert found.states.is_cuda
    assert found.states[..., -2:].tolist() == [[[0, 1]] * 2]
    assert (found.states[..., :5].sum(-1) == 1).all()
    torch.testing.assert_close(
        energies(A.to(torch.float64), found.states.cpu().double()), found.energies.cpu()
    )


def test_the_population_ends_at_its_target_and_in_time() -> None:
    A = pegasus_qubos(1, 4).to("cuda")
    lowest = PopulationAnnealing(sweeps=1000, reads=256, seed=0)(A).energies[0, 0].item()
    found = PopulationAnnealing(sweeps=20_000, reads=256, seed=1, target=lowest)(A)
    assert found.info["sweeps"] < 10_000
    assert found.energies[0, 0] <= lowest + 1e-6
    assert PopulationAnnealing(reads=256, seed=1, seconds=0.5)(A).info["sweeps"] > 100
