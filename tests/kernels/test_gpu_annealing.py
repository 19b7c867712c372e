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
from qubolearn.kernels.annealing_torch import generators
from qubolearn.qubo import all_states

READS, BETA, SCHEDULE = 4096, 1.5, torch.tensor([[1.5, 1.0, 9.0]])
seeds = generators(np.array([5], np.uint32), READS)

def deviation(bits, energy):
    "Chi-squared over its degrees of freedom, of bits [reads, k] against exp(-beta energy) of all their states."
    k = bits.shape[1]
    p = torch.softmax(-BETA * energy.double(), 0)
    codes = (bits.long() << torch.arange(k)).sum(1)
    order = (all_states(k).long() << torch.arange(k)).sum(1)
    seen = torch.bincount(codes, minlength=2**k)[order] / len(bits)
    return float(((seen - p) ** 2 / p).sum() * len(bits)) / (2**k - 1)
"""

# 8 coupled bits over both words of 40; the others are free.
DENSE = """
from qubolearn.kernels import dense_annealing_triton as kernel

kernel.READS_PER_PROGRAM = READS
n, coupled = 40, torch.tensor([0, 5, 17, 20, 31, 32, 33, 39])
S = torch.randn(1, n, n, generator=torch.Generator().manual_seed(0)) / 2
S = S + S.mT
keep = torch.zeros(n, dtype=torch.bool)
keep[coupled] = True
S = S * (keep[:, None] & keep)
reads = kernel.anneal(S, SCHEDULE, 12, seeds)[0]
x, part = all_states(8), S[0][coupled][:, coupled]
energy = x @ part.diagonal() + torch.einsum("si,ij,sj->s", x, part.triu(1), x)
assert deviation(reads[:, coupled], energy) < 1.4
assert abs(reads[:, ~keep].float().mean() - 0.5) < 0.01
assert (reads[:, ~keep].float().mean(0) - 0.5).abs().max() < 0.05
"""

SPARSE = """
from qubolearn.kernels import sparse_annealing_triton as kernel

kernel.MANY_READS, kernel.ROWS = READS, 2
n = 8
edges = np.array([(i, j) for i in range(n) for j in range(i + 1, n) if (7 * i + 3 * j) % 3 == 0]).T
chosen = kernel.colours(edges, n)
assert (chosen[edges[0]] != chosen[edges[1]]).all()
generator = torch.Generator().manual_seed(0)
linear, quadratic = torch.randn(1, n, generator=generator), torch.randn(1, edges.shape[1], generator=generator)
reads = kernel.anneal(linear, quadratic, edges, SCHEDULE, 16, seeds)[0]
x = all_states(n)
energy = x @ linear[0] + (x[:, edges[0]] * x[:, edges[1]]) @ quadratic[0]
assert deviation(reads, energy) < 1.4
"""


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
@pytest.mark.parametrize("kernel", [DENSE, SPARSE], ids=["dense", "sparse"])
def test_reads_follow_the_boltzmann_distribution(kernel: str) -> None:
    # In a process of its own: Triton decides on import whether to interpret.
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    subprocess.run([sys.executable, "-c", COMMON + kernel], env=environment, check=True, timeout=300)
