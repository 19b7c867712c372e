"""The paper's network: an MLP whose input skips into every other layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from qubolearn.errors import QubolearnError

__all__ = ["MLP"]


class MLP(nn.Module):
    """The paper's network: L layers of width H with ReLU; the input also enters the odd layers between first and last.

    Args:
        inputs: m, the length of p.
        outputs: the number of entries of A, ``topology.size``.
        layers: L; fewer than 2 are refused.
        hidden: H; fewer than 1 are refused.
        dropout: the share of hidden features that is left out in training, and half that share of the inputs.

    It returns outputs ``[batch, outputs]`` and the list of its hidden features.

    >>> body = MLP(inputs=6, outputs=3, layers=5, hidden=4)
    >>> outputs, features = body(torch.zeros(2, 6))
    >>> list(outputs.shape), len(features)
    ([2, 3], 4)
    """

    def __init__(self, inputs: int, outputs: int, layers: int = 5, hidden: int = 78, dropout: float = 0.0) -> None:
        super().__init__()
        if layers < 2 or hidden < 1:
            raise QubolearnError(f"a network of layers={layers}, hidden={hidden}; want layers >= 2, hidden >= 1")
        self.skips = [number % 2 == 1 and 1 < number < layers for number in range(1, layers + 1)]
        self.dropout = nn.ModuleList([nn.Dropout(dropout / 2), nn.Dropout(dropout)] if dropout else [])
        widths = [inputs] + [hidden] * (layers - 1)
        self.linears = nn.ModuleList(
            nn.Linear(width + inputs * skip, hidden if number < layers else outputs)
            for number, (width, skip) in enumerate(zip(widths, self.skips, strict=True), 1)
        )

    def forward(self, p: Tensor) -> tuple[Tensor, list[Tensor]]:
        """p ``[batch, inputs]`` -> outputs ``[batch, outputs]`` and the features of every layer but the last."""
        features: list[Tensor] = []
        p, drop = (self.dropout[0](p), self.dropout[1]) if len(self.dropout) else (p, nn.Identity())
        h = p
        for linear, skip in zip(self.linears[:-1], self.skips[:-1], strict=True):
            h = torch.relu(linear(torch.cat([h, p], -1) if skip else h))
            features.append(h)
            h = drop(h)
        return self.linears[-1](h), features
