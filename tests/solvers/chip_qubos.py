"""QUBOs on the graphs of chips, their lowest energies by brute force, and a token that no text may hold."""

from __future__ import annotations

import torch
from torch import Tensor

from qubolearn.chips.topologies import topology
from qubolearn.qubo import all_states, energies

SECRET = "DEV-0123456789abcdef0123456789abcdef01234567"


def qubos(name: str, n: int, batch: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, n, n, generator=generator) * topology(name, n).mask


def exact(A: Tensor, count: int = 2) -> Tensor:
    """Return the lowest energies ``[batch, count]`` by brute force."""
    states = all_states(A.shape[2], dtype=torch.float64)
    return energies(A.double(), states.expand(len(A), *states.shape)).sort(1).values[:, :count]
