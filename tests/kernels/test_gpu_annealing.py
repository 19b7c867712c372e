"""The Triton kernels that anneal, in Triton's interpreter: reads at one temperature against all states."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

COMMON = """
import numpy as np
import torch
from qubolearn.gpu.annealing import generators
from qubolearn.qubo import all_states

READS, BETA, SCHEDULE = 4096, 1.5, torch.tensor([[1.5, 1.0, 9.0]])
seeds = generators(np.array([5], np.uint32), READS)

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

# 8 coupled bits, first within one word and then over both words of 40; the others are free.
DENSE = """
from qubolearn.gpu import dense_annealing_triton as kernel

kernel.FEW_READS = READS
for n, coupled in ((30, [0, 1, 2, 3, 7, 8, 19, 29]), (40, [0, 5, 17, 20, 31, 32, 33, 39])):
    S = torch.randn(1, n, n, generator=torch.Generator().manual_seed(0)) / 2
    S = S + S.mT
    keep = torch.zeros(n, dtype=torch.bool)
    keep[coupled] = True
    S = S * (keep[:, None] & keep)
    reads = kernel.anneal(S, SCHEDULE, 12, seeds)[0]
    x, part = all_states(8), S[0][coupled][:, coupled]
    energy = x @ part.diagonal() + torch.einsum("si,ij,sj->s", x, part.triu(1), x)
    assert deviation(reads[:, coupled], energy) < 1.5
    assert abs(reads[:, ~keep].float().mean() - 0.5) < 0.01
    assert (reads[:, ~keep].float().mean(0) - 0.5).abs().max() < 0.05
"""

# Integers are summed without rounding, so reads do not depend on how many share a program.
SHARED = """
from qubolearn.gpu import dense_annealing_triton as kernel

S = torch.randint(-3, 4, (1, 70, 70), generator=torch.Generator().manual_seed(0)).float()
S, few = S + S.mT, generators(np.array([5], np.uint32), 64)
found = []
for kernel.FEW_READS in (32, 64):
    found.append(kernel.anneal(S, SCHEDULE, 3, few))
assert torch.equal(*found)
"""

SPARSE = """
from qubolearn.gpu import sparse_annealing_triton as kernel

kernel.READS, kernel.ROWS = READS, 2
n = 8
edges = np.array([(i, j) for i in range(n) for j in range(i + 1, n) if (7 * i + 3 * j) % 3 == 0]).T
chosen = kernel.colors(edges, n)
assert (chosen[edges[0]] != chosen[edges[1]]).all()
generator = torch.Generator().manual_seed(0)
linear, quadratic = torch.randn(1, n, generator=generator), torch.randn(1, edges.shape[1], generator=generator)
reads = kernel.anneal(linear, quadratic, edges, SCHEDULE, 16, seeds)[0]
x = all_states(n)
energy = x @ linear[0] + (x[:, edges[0]] * x[:, edges[1]]) @ quadratic[0]
assert deviation(reads, energy) < 1.5
"""

# Cold reads stay where they begin, at the lowest state, and reads without a temperature leave it.
GIVEN = """
from qubolearn.gpu import dense_annealing_triton as dense, sparse_annealing_triton as sparse

n, few = 40, generators(np.array([5], np.uint32), 3)
i = np.arange(n - 1)
edges = np.stack([i, i + 1])
lowest = torch.randint(0, 2, (1, 3, n), generator=torch.Generator().manual_seed(0)).to(torch.int8)
lowest[:] = lowest[:, :1]
linear, quadratic = 3 - 6 * lowest[:, 0].float(), torch.ones(1, n - 1)
S = torch.diag_embed(linear)
S[:, i, i + 1] = S[:, i + 1, i] = quadratic
cold, hot = torch.tensor([[50.0, 1.0, 50.0]]), torch.tensor([[1e-9, 1.0, 1e-9]])
for schedule in (cold, hot):
    for reads in (
        dense.anneal(S, schedule, 3, few, lowest), sparse.anneal(linear, quadratic, edges, schedule, 3, few, lowest)
    ):
        assert torch.equal(reads, lowest) == (schedule is cold)
"""

# The solver itself, as on a GPU: dense and sparse, from given states and at a temperature.
SOLVER = """
from qubolearn.qubo import SparseQubo, energies
from qubolearn.solvers import annealing

annealing.available = lambda device: True
generator = torch.Generator().manual_seed(2)
i = torch.arange(63)
chain = SparseQubo(torch.randn(2, 64, generator=generator), torch.stack([i, i + 1]), torch.ones(2, 63))
small = torch.randn(2, 6, 6, generator=generator).double()
solver = annealing.SimulatedAnnealing(reads=4, sweeps=2, seed=0)
for A in (chain, small):
    found = solver(A, 2)
    assert torch.allclose(energies(A.to(torch.float64), found.states.double()), found.energies)
    given = found.states[:, :1].expand(-1, 4, -1)
    cold = annealing.SimulatedAnnealing(reads=4, sweeps=1, beta_range=(1e6, 1e6), seed=0)
    assert torch.equal(cold.sample(A, initial=given), given.to(A.dtype))
x = all_states(6).double()
lowest = torch.einsum("si,bij,sj->bs", x, small, x).sort(1).values[:, :2]
assert torch.allclose(solver(small, 2).energies, lowest)
hot = annealing.SimulatedAnnealing(reads=100, sweeps=2, seed=0).sample(small, 1e-9)
assert hot.dtype == torch.float64 and abs(hot.mean() - 0.5) < 0.1
"""


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
@pytest.mark.parametrize(
    "kernel",
    [DENSE, SHARED, SPARSE, GIVEN, SOLVER],
    ids=["dense", "shared", "sparse", "given", "solver"],
)
def test_kernels_follow_the_boltzmann_distribution(kernel: str) -> None:
    # In its own process: Triton decides on import whether to interpret.
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    subprocess.run([sys.executable, "-c", COMMON + kernel], env=environment, check=True, timeout=300)
