"""User-defined parts for tests of ``fit``."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from qubolearn import Arrays, QuboNetwork, energies, topology
from qubolearn.chips.topologies import Topology
from qubolearn.training.callbacks import Callback

M, N, COUNT = 6, 4, 600
PATTERN: Topology = topology("dense", N)
RNG = np.random.default_rng(0)
P = RNG.normal(size=(COUNT, M))
X = P @ RNG.normal(size=(M, N)) > 0


class Body(nn.Module):
    """Three user-defined layers."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(M, 24), nn.Linear(24, 24), nn.Linear(24, PATTERN.size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, p: Tensor) -> Tensor:
        return self.last(torch.relu(self.second(self.dropout(torch.relu(self.first(p))))))


def own_network(seed: int = 0, **options: Any) -> QuboNetwork:
    torch.manual_seed(seed)
    return QuboNetwork(Body(**options), PATTERN)


def own_loss(A: Tensor, batch: Any) -> Tensor:
    x_star = batch.solver(A.detach(), 1).states[:, 0]
    return (0.3 + energies(A, batch.x_true) - energies(A, x_star)).clamp_min(0)


def weights(network: nn.Module) -> Tensor:
    return nn.utils.parameters_to_vector(network.parameters()).detach()


def adamw(network: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(network.parameters(), 5e-3, weight_decay=1e-3)


class Items(Dataset[Any]):
    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return torch.tensor(P[index], dtype=torch.float32), torch.tensor(X[index])


class Endless(IterableDataset[Any]):
    def __iter__(self) -> Any:
        index = 0
        while True:
            yield torch.tensor(P[index % COUNT], dtype=torch.float32), torch.tensor(X[index % COUNT])
            index += 1


def loader(**options: Any) -> DataLoader[Any]:
    return DataLoader(TensorDataset(torch.tensor(P), torch.tensor(X)), batch_size=50, **options)


DATA: dict[str, Any] = {
    "arrays": lambda: (P, X),
    "tensors": lambda: (torch.tensor(P), torch.tensor(X).to(torch.uint8)),
    "Arrays": lambda: Arrays(P, X, validation=0.1),
    "Dataset": Items,
    "DataLoader": lambda: loader(shuffle=True),
    "lists of batches": lambda: DataLoader(Items(), batch_size=60, drop_last=True),
}


class StopAt(Callback):
    def __init__(self, *steps: int) -> None:
        self.steps = steps

    def on_step(self, training: Any) -> None:
        if training.step in self.steps:
            training.stop(for_good=False)


class Watching(Callback):
    """Record steps, and when validation instances were scored."""

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.scored: list[int] = []

    def on_step(self, training: Any) -> None:
        self.steps.append(training.step)
        if training.scores:
            self.scored.append(training.step)


def three_bits() -> QuboNetwork:
    pattern = topology("dense", 3)
    return QuboNetwork(nn.Linear(M, pattern.size), pattern)
