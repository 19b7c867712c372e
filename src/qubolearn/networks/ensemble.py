"""Several networks as one: the mean of their QUBOs, which is one QUBO of the same size."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from qubolearn.errors import QubolearnError
from qubolearn.qubo import Qubo, SparseQubo

__all__ = ["Ensemble"]


class Ensemble(nn.Module):
    """p -> the mean of several networks' QUBOs: energies are averaged, and one QUBO is solved, as for one network.

    Args:
        networks: they take the same p and return QUBOs of the same bits; sparse ones share their graph.

    Raises:
        QubolearnError: where there is no network.

    >>> from qubolearn.networks import SharedQubo
    >>> both = Ensemble([SharedQubo(3), SharedQubo(3)])
    >>> both(torch.zeros(2, 1)).shape
    torch.Size([2, 3, 3])
    """

    def __init__(self, networks: Iterable[nn.Module]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)
        if not len(self.networks):
            raise QubolearnError("an ensemble of no networks; want at least one")

    def forward(self, p: Any) -> Qubo:
        found = [network(p) for network in self.networks]
        if isinstance(found[0], SparseQubo):
            linear, quadratic = (torch.stack([getattr(A, name) for A in found]) for name in ("linear", "quadratic"))
            return found[0].with_values(linear.mean(0), quadratic.mean(0))
        return torch.stack(found).mean(0)
