"""p -> A: the paper's MLP, and what turns its outputs into the allowed entries of a QUBO."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from qubolearn.chips.topologies import Topology
from qubolearn.errors import QubolearnError
from qubolearn.networks import Method, NetworkName
from qubolearn.networks.matching import MatchingBody
from qubolearn.problems.contract import Problem

__all__ = ["MLP", "Couplings", "QuboNetwork", "Standardise", "build_network"]


class Standardise(nn.Module):
    """(p - mean) / std, fitted on training data and stored with the model. ``[batch, m] -> [batch, m]``"""

    mean: Tensor
    scale: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("scale", torch.ones(size))

    def fit(self, p: Tensor) -> None:
        """Take mean and standard deviation from p ``[instances, m]``; entries that never vary are only shifted."""
        self.mean.copy_(p.mean(0))
        std = p.std(0, correction=0)
        self.scale.copy_(torch.where(std > 1e-6 * p.abs().mean(0).clamp_min(1e-6), 1 / std, 1.0))

    def forward(self, p: Tensor) -> Tensor:
        return (p - self.mean) * self.scale


class MLP(nn.Module):
    """The paper's network: L layers, H hidden, ReLU, the input concatenated into odd layers but the first and last."""

    def __init__(self, inputs: int, outputs: int, layers: int, hidden: int) -> None:
        super().__init__()
        if layers < 2 or hidden < 1:
            raise QubolearnError(f"a network of layers={layers}, hidden={hidden}; want layers >= 2, hidden >= 1")
        self.skips = [number % 2 == 1 and 1 < number < layers for number in range(1, layers + 1)]
        widths = [inputs] + [hidden] * (layers - 1)
        self.linears = nn.ModuleList(
            nn.Linear(width + inputs * skip, hidden if number < layers else outputs)
            for number, (width, skip) in enumerate(zip(widths, self.skips, strict=True), 1)
        )

    def forward(self, p: Tensor) -> tuple[Tensor, list[Tensor]]:
        """p ``[batch, inputs]`` -> outputs ``[batch, outputs]`` and the features of every layer but the last."""
        features: list[Tensor] = []
        h = p
        for linear, skip in zip(self.linears[:-1], self.skips[:-1], strict=True):
            h = torch.relu(linear(torch.cat([h, p], -1) if skip else h))
            features.append(h)
        return self.linears[-1](h), features


class Couplings(NamedTuple):
    """What a network says of an instance."""

    A: Tensor  # [batch, n, n], symmetric
    features: list[Tensor]  # outputs of the hidden layers, [batch, hidden] each


class QuboNetwork(nn.Module):
    """Standardised p ``[batch, m]`` -> symmetric A ``[batch, n, n]`` with entries only where the topology has them.

    quant and diag end in sin, so that entries stay in [-1, 1], the range of an annealer's couplers. *pure*
    regresses scores of the bits without a last activation; as a QUBO that is A = -diag(scores), whose minimiser
    is scores > 0, so that all methods are evaluated through the same pipeline.
    """

    column: Tensor  # [n * n]: which of the entries stands there

    def __init__(self, body: nn.Module, input_size: int, topology: Topology, method: Method = "quant") -> None:
        super().__init__()
        self.standardise = Standardise(input_size)
        self.body = body
        self.method = method
        self.n = topology.n
        rows, columns = topology.entries
        column = torch.full((topology.n, topology.n), len(rows))  # entries that do not exist read a zero column
        column[rows, columns] = column[columns, rows] = torch.arange(len(rows))
        self.register_buffer("column", column.flatten(), persistent=False)

    def couplings(self, p: Tensor) -> Couplings:
        """A and the hidden features that L_mlp needs."""
        outputs, features = self.body(self.standardise(p))
        return Couplings(self.assemble(self.entries(outputs)), features)

    def entries(self, outputs: Tensor) -> Tensor:
        """The last activation: what the body says ``[batch, entries]`` -> the entries of A that exist."""
        return -outputs if self.method == "pure" else torch.sin(outputs)

    def assemble(self, entries: Tensor) -> Tensor:
        """Entries ``[batch, entries]`` -> A ``[batch, n, n]``, symmetric."""
        return nn.functional.pad(entries, (0, 1)).index_select(1, self.column).reshape(-1, self.n, self.n)

    def forward(self, p: Tensor) -> Tensor:
        return self.couplings(p).A


def build_network(
    name: NetworkName, problem: Problem, topology: Topology, method: Method, layers: int, hidden: int
) -> QuboNetwork:
    """The untrained network of a name for a problem on a topology (the diagonal one for *diag* and *pure*)."""
    body: nn.Module
    if name == "matching":
        body = MatchingBody(problem, topology, hidden)
    else:
        body = MLP(problem.input_size, topology.entries.shape[1], layers, hidden)
    return QuboNetwork(body, problem.input_size, topology, method)
