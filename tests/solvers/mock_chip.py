"""What the tests of D-Wave's solver share: QUBOs, their lowest energies, and a mock chip that a test can change."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from qubolearn.chips.topologies import topology
from qubolearn.qubo import all_states, energies
from qubolearn.solvers.dwave.solver import DWaveSolver

SECRET = "DEV-0123456789abcdef0123456789abcdef01234567"


def qubos(name: str, n: int, batch: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, n, n, generator=generator) * topology(name, n).mask


def exact(A: Tensor, count: int = 2) -> Tensor:
    """The lowest energies ``[batch, count]`` by brute force."""
    states = all_states(A.shape[2], dtype=torch.float64)
    return energies(A.double(), states.expand(len(A), *states.shape)).sort(1).values[:, :count]


def mock_sampler(**options: Any) -> Any:
    return DWaveSolver.mock(topology="pegasus", size=3, sweeps=50, **options).access.open({}, 1.0).sampler


class Wrapped:
    """A structured sampler that does as the mock does, but for what a test changes."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.calls = inner, 0
        self.properties, self.nodelist, self.edgelist = inner.properties, inner.nodelist, inner.edgelist

    def sample(self, bqm: Any, **parameters: Any) -> Any:
        self.calls += 1
        return self.inner.sample(bqm, **parameters)
