"""QUBOs on chips, and a secret token."""

from __future__ import annotations

import torch
from torch import Tensor

from qubolearn.chips.topologies import topology
from qubolearn.qubo import all_states, energies

SECRET = "DEV-0123456789abcdef0123456789abcdef01234567"


def qubos(name: str, n: int, batch: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, n, n, generator=generator) * topology(name, n).mask


def random_qubos(batch: int, n: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, n, n, generator=generator, dtype=torch.float64).to(dtype)


def exact(A: Tensor, count: int = 2) -> Tensor:
    """Return the lowest energies ``[batch, count]`` by brute force."""
    states = all_states(A.shape[2], dtype=torch.float64)
    return energies(A.double(), states.expand(len(A), *states.shape)).sort(1).values[:, :count]
