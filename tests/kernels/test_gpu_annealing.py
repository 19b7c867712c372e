"""Triton annealing in the interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

COMMON = """
import numpy as np
import torch
from qubolearn.qubo import all_states

READS, BETA, seeds = 4096, 1.5, torch.tensor([5])

def betas(sweeps):
    return torch.full((1, sweeps), BETA)

def deviation(bits, energy):
    "Chi-squared over its degrees of freedom, of bits [reads, k] against exp(-beta energy); rare states count as one."
    k = bits.shape[1]
    p = torch.softmax(-BETA * energy.double(), 0)
    codes = (bits.long() << torch.arange(k)).sum(1)
    order = (all_states(k).long() << torch.arange(k)).sum(1)
    seen = torch.bincount(codes, minlength=2**k)[order] / len(bits)
    rare = p * len(bits) < 2
    p, seen = (torch.cat([v[~rare], v[rare].sum(0, keepdim=True)]) for v in (p, seen))
    return float(((seen - p) ** 2 / p.clamp(min=1e-9)).sum() * len(bits)) / (len(p) - 1)
"""

# 8 coupled bits, within one word, then over both words of 40
DENSE = """
from qubolearn.gpu import dense_annealing_triton as kernel
from qubolearn.solvers.annealing import default_beta_range

kernel.FEW_READS = READS
for n, coupled in ((30, [0, 1, 2, 3, 7, 8, 19, 29]), (40, [0, 5, 17, 20, 31, 32, 33, 39])):
    S = torch.randn(1, n, n, generator=torch.Generator().manual_seed(0)) / 2
    S = S + S.mT
    keep = torch.zeros(n, dtype=torch.bool)
    keep[coupled] = True
    S = S * (keep[:, None] & keep)
    qubos = kernel.DenseQubos.make(S / 2 + torch.diag_embed(S.diagonal(dim1=1, dim2=2)) / 2)
    expected = default_beta_range(S / 2 + torch.diag_embed(S.diagonal(dim1=1, dim2=2)) / 2)
    torch.testing.assert_close(qubos.beta_ranges / qubos.scale[:, None], expected)
    reads = qubos.anneal(betas(12) * qubos.scale, seeds, READS)[0]
    x, part = all_states(8), S[0][coupled][:, coupled]
    energy = x @ part.diagonal() + torch.einsum("si,ij,sj->s", x, part.triu(1), x)
    assert deviation(reads[:, coupled], energy) < 1.5
    assert abs(reads[:, ~keep].float().mean() - 0.5) < 0.01
    assert (reads[:, ~keep].float().mean(0) - 0.5).abs().max() < 0.05
"""

# Integers are summed without rounding.
SHARED = """
from qubolearn.gpu import dense_annealing_triton as kernel

S = torch.randint(-3, 4, (1, 70, 70), generator=torch.Generator().manual_seed(0)).float()
S[0, 0, 0] = 4
qubos, found = kernel.DenseQubos.make(S), []
for kernel.FEW_READS in (32, 64):
    found.append(qubos.anneal(betas(3), seeds, 64, descent=1))
assert torch.equal(*found)
"""

# Couplings with 1, 2 and 4 bytes per read.
SPARSE = """
from qubolearn.gpu import sparse_annealing_triton as kernel

kernel.ROWS, n = 2, 8
edges = np.array([(i, j) for i in range(n) for j in range(i + 1, n) if (7 * i + 3 * j) % 3 == 0]).T
chosen = kernel.colors(edges, n)
assert (chosen[edges[0]] != chosen[edges[1]]).all()
generator = torch.Generator().manual_seed(0)
linear = torch.randn(1, n, generator=generator).double()
normal = torch.randn(1, edges.shape[1], generator=generator).double()
for quadratic, digits in ((normal, 32), (normal.sign() * 0.7, 8), ((normal * 100).round() / 100 + 0.01, 16)):
    if digits == 16:
        quadratic[0, 0] = 0.01
    kernel.WORDS = READS * digits // 32
    qubos = kernel.SparseQubos.make(linear, quadratic, edges)
    assert qubos.digits == digits
    reads = qubos.anneal(betas(16), seeds, READS)[0]
    x = all_states(n).double()
    energy = x @ linear[0] + (x[:, edges[0]] * x[:, edges[1]]) @ quadratic[0]
    assert deviation(reads, energy) < 1.5
"""

# Cold reads stay, hot ones leave, a descent returns.
GIVEN = """
from qubolearn.gpu.dense_annealing_triton import DenseQubos
from qubolearn.gpu.sparse_annealing_triton import SparseQubos

n, i = 40, np.arange(39)
lowest = torch.randint(0, 2, (1, 1, n), generator=torch.Generator().manual_seed(0)).to(torch.int8).repeat(1, 3, 1)
linear, quadratic = 3 - 6 * lowest[:, 0].double(), torch.ones(1, n - 1).double()
A = torch.diag_embed(linear)
A[:, i, i + 1] = quadratic
for qubos in (DenseQubos.make(A), SparseQubos.make(linear, quadratic, np.stack([i, i + 1]))):
    for beta in (50.0, 1e-9):
        reads = qubos.anneal(torch.full((1, 3), beta), seeds, 3, lowest, descent=2)
        assert torch.equal(reads[:, :3], lowest) == (beta > 1)
        assert torch.equal(reads[:, 3:], lowest)
    assert torch.equal(qubos.anneal(torch.full((1, 1), 1e-9), seeds, 3, descent=2)[:, 3:], lowest)
held = DenseQubos.make(A).anneal(torch.full((1, 3), torch.inf), seeds, n, flipped=lowest[:, 0])[0]
assert torch.equal(held, lowest[0, 0] ^ torch.eye(n).to(torch.int8))  # any other flip costs energy
"""

# The solver itself, as on a GPU.
SOLVER = """
from qubolearn.qubo import SparseQubo, energies
from qubolearn.solvers import annealing, population

generator = torch.Generator().manual_seed(2)
i = torch.arange(63)
chain = SparseQubo(torch.randn(2, 64, generator=generator), torch.stack([i, i + 1]), torch.ones(2, 63))
small = torch.randn(2, 6, 6, generator=generator).double()
solver = annealing.SimulatedAnnealing(reads=4, sweeps=2, seed=0)
annealing.available = population.available = lambda device: True
for A in (chain, small):
    found = solver(A, 2)
    assert torch.allclose(energies(A.to(torch.float64), found.states.double()), found.energies)
    given = found.states[:, :1].expand(-1, 4, -1)
    cold = annealing.SimulatedAnnealing(reads=4, sweeps=1, beta_range=(1e6, 1e6), seed=0)
    assert torch.equal(cold.sample(A, initial=given), given.to(A.dtype))
x = all_states(6).double()
lowest = torch.einsum("si,bij,sj->bs", x, small, x).sort(1).values[:, :2]
assert torch.allclose(annealing.SimulatedAnnealing(reads=32, sweeps=5, seed=0)(small, 2).energies, lowest)
hot = annealing.SimulatedAnnealing(reads=100, sweeps=2, seed=0).sample(small, 1e-9)
assert hot.dtype == torch.float64 and abs(hot.mean() - 0.5) < 0.1
"""

# Crossing against components that networkx finds.
CROSSING = """
import networkx
from qubolearn.gpu import sparse_annealing_triton as kernel
from qubolearn.gpu.population_triton import Population
from qubolearn.qubo import SparseQubo, energies

kernel.ROWS, kernel.WORDS, n = 8, 1, 12
edges = torch.tensor(sorted(networkx.convert_node_labels_to_integers(networkx.grid_graph([4, 3])).edges)).T.contiguous()
generator = torch.Generator().manual_seed(0)
normal = torch.randn(1, edges.shape[1] + n, generator=generator).double()
for kind in ("max-cut", "normal"):
    linear, quadratic = normal[:, :n], normal[:, n:]
    if kind == "max-cut":
        quadratic = quadratic.sign()
        linear = -torch.zeros(1, n).double().index_add(1, edges.flatten(), quadratic.repeat(1, 2)) / 2
    A = SparseQubo(linear, edges, quadratic)
    population = Population(A, torch.tensor([3]), 4)
    assert population.qubos.digits == (8 if kind == "max-cut" else 32)
    assert population.mirrors.tolist() == [kind == "max-cut"]
    assert 0 < population.cold < population.hot
    population.parents.copy_(population.X)
    population._sweep(torch.full((1, 2), 1e-9))
    before, other = population.states().clone(), population.qubos.bits(population.X)
    energy = energies(A, before.double())[0]
    population._cross(ties=False)
    for old, new, made, was in zip(before[0], other[0], population.states()[0], energy):
        differ = old != new
        if population.mirrors[0] and 2 * differ.sum() > n:
            differ = ~differ
        graph = networkx.Graph([(i, j) for i, j in edges.T.tolist() if differ[i] and differ[j]])
        graph.add_nodes_from(differ.nonzero()[:, 0].tolist())
        for component in map(list, networkx.connected_components(graph)):
            flipped = old.double()
            flipped[component] = 1 - flipped[component]
            lowers = energies(A, flipped[None, None])[0, 0] < was - 1e-9
            assert ((made[component] != old[component]) == lowers).all()
    population.search(population.sweeps + 60, None)
    reached = population.energies()
    assert torch.allclose(reached, energies(A, population.states().double()))
    assert torch.allclose(reached.amin(1), energies(A, all_states(n).double()[None]).amin(1))
"""


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
@pytest.mark.parametrize(
    "kernel",
    [DENSE, SHARED, SPARSE, GIVEN, SOLVER, CROSSING],
    ids=["dense", "shared", "sparse", "given", "solver", "crossing"],
)
def test_kernels_follow_the_boltzmann_distribution(kernel: str) -> None:
    # In its own process: Triton decides on import whether to interpret.
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    subprocess.run([sys.executable, "-c", COMMON + kernel], env=environment, check=True, timeout=300)
