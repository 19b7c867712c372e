"""Annealing of large sparse QUBOs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from dwave.samplers import SimulatedAnnealingSampler

from qubolearn.errors import QubolearnError
from qubolearn.qubo import Qubo, SparseQubo, all_states, as_dense, energies, from_ising, to_bqm
from qubolearn.solvers import ExhaustiveSearch, annealing
from qubolearn.solvers.annealing import SimulatedAnnealing
from qubolearn.solvers.forms import DenseForm, SparseForm


def random_sparse(batch: int, n: int, degree: float, seed: int = 0, integer: bool = False) -> SparseQubo:
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, n, (2, int(degree * n / 2)))
    keys = np.unique(pairs.min(0) * n + pairs.max(0))
    keys = keys[keys // n != keys % n]
    shapes = (batch, n), (batch, keys.size)
    linear, quadratic = (
        rng.integers(-2, 3, shape).astype(float) if integer else rng.normal(size=shape) for shape in shapes
    )
    edges = torch.from_numpy(np.stack([keys // n, keys % n]))
    return SparseQubo(torch.from_numpy(linear), edges, torch.from_numpy(quadratic))


def dense_form(A: Qubo) -> DenseForm:
    return DenseForm(as_dense(A).double())


@pytest.fixture
def sparse_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small QUBOs take the kernels of sparse ones, too."""
    monkeypatch.setattr(annealing, "_on_cpu", SparseForm.make)


@pytest.mark.usefixtures("sparse_kernels")
@pytest.mark.parametrize("integer", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3, 8, 15, 20])
def test_sparse_kernels_find_the_lowest_states(n: int, integer: bool) -> None:
    A = random_sparse(8, n, 4, seed=n, integer=integer)
    found = SimulatedAnnealing(seed=0)(A)
    exact = ExhaustiveSearch()(A)
    torch.testing.assert_close(found.energies[:, 0], exact.energies[:, 0])
    assert torch.isclose(found.energies[:, 1], exact.energies[:, 1]).double().mean() >= 0.8


def reads_of(
    form: SparseForm | DenseForm, n: int, reads: int, beta: float, seed: int = 0, given: bool = False
) -> np.ndarray:
    out = np.zeros((1, reads, n), np.int8)
    betas = np.full((1, 2), beta * form.scale[0])
    form.anneal(betas, 1, 40, np.array([seed], np.uint32), given, out)
    return out[0]


def sparse_in_groups(A: SparseQubo, beta: float) -> np.ndarray:
    form = SparseForm.make(A)
    return np.concatenate([reads_of(form, A.n, 7 + 16 * (k % 5), beta, seed=k) for k in range(500)])


def padded(A: SparseQubo) -> SparseQubo:
    """Return 64 bits more that stay 0: reads are annealed one by one."""
    n = A.n + 64
    linear = torch.cat([A.linear, torch.full((1, 64), 20.0, dtype=torch.float64)], 1)
    edges = torch.cat([A.edges, torch.combinations(torch.arange(A.n, n)).mT], 1)
    zeros = torch.zeros(1, edges.shape[1] - A.edges.shape[1], dtype=torch.float64)
    return SparseQubo(linear, edges, torch.cat([A.quadratic, zeros], 1))


def alone(make: Callable[[Qubo], SparseForm | DenseForm], A: SparseQubo, beta: float) -> np.ndarray:
    form = make(padded(A))
    return np.concatenate([reads_of(form, A.n + 64, 1, beta, seed=k) for k in range(5000)])[:, : A.n]


def dense_in_groups(A: SparseQubo, beta: float) -> np.ndarray:
    return reads_of(dense_form(A), A.n, 20_000, beta)


def dense_given(A: SparseQubo, beta: float) -> np.ndarray:
    return reads_of(dense_form(A), A.n, 20_000, beta, given=True)  # 40 sweeps forget 0


ALONE = [partial(alone, SparseForm.make), partial(alone, dense_form)]


@pytest.mark.parametrize("sample", [sparse_in_groups, dense_in_groups, dense_given, *ALONE])
@pytest.mark.parametrize("n", [1, 3, 6])
def test_reads_at_one_temperature_follow_the_boltzmann_distribution(
    sample: Callable[[SparseQubo, float], np.ndarray], n: int
) -> None:
    A = random_sparse(1, n, 3, seed=n)
    reads = sample(A, 0.7)
    states = all_states(n, dtype=torch.float64)
    expected = torch.softmax(-0.7 * energies(A, states[None])[0], 0).numpy()
    found = np.bincount(reads @ (1 << np.arange(n - 1, -1, -1)), minlength=2**n) / len(reads)
    error = np.sqrt(expected * (1 - expected) / len(reads))
    assert (np.abs(found - expected) < 5 * error + 5e-4).all()  # quantiles of -log(u) come in steps


@pytest.mark.parametrize(
    ("n", "degree", "reads"), [(300, 5, 200), (300, 299, 100), (120, 119, 200), (300, 40, 16)]
)
def test_mean_energy_is_that_of_neal(n: int, degree: float, reads: int) -> None:
    # So few sweeps that reads differ: a wrong rule would show.
    A = random_sparse(1, n, degree, seed=n)
    solver = SimulatedAnnealing(reads=reads, sweeps=50, seed=0)
    run = SimulatedAnnealingSampler().sample(to_bqm(A), num_reads=reads, num_sweeps=50, seed=1)
    theirs = run.record.energy
    for form in (A, as_dense(A)):
        ours = energies(A, solver.sample(form))[0].numpy()
        error = np.hypot(ours.std(), theirs.std()) / np.sqrt(reads)
        assert abs(ours.mean() - theirs.mean()) < 4 * error


@pytest.mark.parametrize("n", [1, 63, 64, 65, 255, 700, 2000])
def test_bits_without_couplings_are_set_by_their_signs(n: int) -> None:
    linear = torch.randn(2, n, generator=torch.Generator().manual_seed(n), dtype=torch.float64)
    A = SparseQubo(linear, torch.zeros(2, 0, dtype=torch.int64), torch.zeros(2, 0, dtype=torch.float64))
    solution = SimulatedAnnealing(reads=3, sweeps=200, seed=0)(A)
    assert torch.equal(solution.states[:, 0], (linear < 0).double())
    torch.testing.assert_close(solution.energies[:, 1] - solution.energies[:, 0], linear.abs().amin(1))


@pytest.mark.parametrize("n", [64, 300, 2000])
def test_qubos_of_zeros(n: int) -> None:
    none = torch.zeros(2, 0, dtype=torch.int64)
    A = SparseQubo(torch.zeros(1, n), none, torch.zeros(1, 0))
    for form in (A, A.dense()):
        solution = SimulatedAnnealing(reads=20, sweeps=10, seed=0)(form, 3)
        assert not solution.energies.any()
        assert len(solution.states[0].unique(dim=0)) == 3


def test_ferromagnets_of_thousands_of_bits() -> None:
    """Random signs of a ring with chords, all satisfiable."""
    n = 2000
    planted = torch.randint(0, 2, (n,), generator=torch.Generator().manual_seed(0)).double()
    i = torch.arange(n).repeat(6)
    j = (i + torch.tensor([1, 2, 3, 37, 331, 700]).repeat_interleave(n)) % n
    edges = torch.stack([torch.minimum(i, j), torch.maximum(i, j)])
    signs = 2 * planted - 1
    J = SparseQubo(torch.zeros(1, n).double(), edges, -(signs[edges[0]] * signs[edges[1]])[None])
    A, offset = from_ising(J, -0.5 * signs[None])
    found = SimulatedAnnealing(reads=20, sweeps=500, seed=0)(A, 1)
    assert found.energies.item() + offset.item() == pytest.approx(-6 * n - 0.5 * n)
    assert torch.equal(found.states[0, 0], planted)


@pytest.mark.parametrize("degree", [4, 99])
def test_reads_begin_at_the_initial_states(degree: float) -> None:
    A = random_sparse(2, 100, degree)
    best = SimulatedAnnealing(reads=20, sweeps=200, seed=0)(A, 1).states
    frozen = SimulatedAnnealing(reads=3, sweeps=10, beta_range=(1e6, 1e6), seed=0)
    assert torch.equal(frozen.sample(A, initial=best.expand(-1, 3, -1)), best.expand(-1, 3, -1))
    with pytest.raises(QubolearnError, match=r"\[2, 1, 100\]"):
        frozen.sample(A, initial=best)
    with pytest.raises(QubolearnError, match="0 and 1"):
        frozen.sample(A, initial=2 * torch.ones(2, 3, 100))


MEMORY = """
import resource, torch
from qubolearn.qubo import SparseQubo
from qubolearn.solvers.annealing import SimulatedAnnealing
from qubolearn.solvers.forms import DenseForm, SparseForm
n, m, batch = 5640, 40484, {batch}
i = torch.arange(m) % n
j = (i + 1 + torch.arange(m) // n) % n
edges = torch.stack([torch.minimum(i, j), torch.maximum(i, j)])
SimulatedAnnealing(reads=2, sweeps=2)(SparseQubo(torch.randn(1, n), edges, torch.randn(1, m)))  # compiles
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
A = SparseQubo(torch.randn(batch, n), edges, torch.randn(batch, m))
SimulatedAnnealing(reads=2, sweeps=2)(A)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


def test_a_batch_of_whole_pegasus_chips_is_solved_in_the_memory_of_its_edges() -> None:
    """Dense, 100 QUBOs of 5,640 bits would take 12,724 MB."""
    script = [sys.executable, "-c", MEMORY.format(batch=100)]
    megabytes = float(subprocess.run(script, capture_output=True, text=True, check=True, timeout=300).stdout)
    assert megabytes < 200  # ten times that, for 1,000, is 2 GB
