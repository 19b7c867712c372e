"""A graph network as a body, on the couplers of a topology."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from qubolearn.chips.topologies import Topology
from qubolearn.errors import check_counts, check_numbers
from qubolearn.networks.saving import Saved


class GraphBody(Saved):
    """Map features of nodes and pairs to the entries of A; bits are nodes.

    With u_i the features of node i and e_ij those of a pair, h_i starts as
    relu(U u_i) and in each round receives the sum of e_ij-weighted messages of its
    neighbors. A_ii is linear in h_i and u_i, and A_ij is e_ij times numbers that
    depend on h_i + h_j and h_i h_j. Pad smaller graphs with zeros, which have no
    couplings, and clamp the bits of padded nodes to 0.

    Args:
        topology: the pairs that may be coupled, such as ``topology("dense", n)``.
        nodes: a, the number of features per node.
        pairs: b, the number of features per pair; 1.0 for a plain edge.
        hidden: the width of the small networks.
        rounds: how often nodes exchange messages.

    Its input is node features ``[batch, n, a]`` and pair features ``[batch, couplers, b]``.

    >>> from qubolearn import QuboNetwork, topology
    >>> body = GraphBody(pattern := topology("dense", 4), nodes=1, pairs=1)
    >>> p = torch.rand(2, 4, 1), body.pairs_of(torch.zeros(2, 4, 4))
    >>> QuboNetwork(body, pattern)(p).shape
    torch.Size([2, 4, 4])
    """

    edges: Tensor  # [2, couplers]

    def __init__(
        self, topology: Topology, nodes: int, pairs: int = 1, hidden: int = 32, rounds: int = 2
    ) -> None:
        super().__init__()
        check_counts(nodes=nodes, pairs=pairs, hidden=hidden)
        check_numbers(zero=True, rounds=rounds)
        self.register_buffer("edges", topology.entries[:, topology.n :], persistent=False)
        self.first = nn.Linear(nodes, hidden)
        self.weigh = nn.ModuleList(nn.Linear(pairs, hidden, bias=False) for _ in range(rounds))
        self.update = nn.ModuleList(nn.Linear(2 * hidden, hidden) for _ in range(rounds))
        self.bias = nn.Linear(hidden + nodes, 1)
        self.coupling = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.ReLU(), nn.Linear(hidden, pairs))

    def forward(self, p: tuple[Tensor, Tensor]) -> Tensor:
        """Return entries ``[batch, n + couplers]``."""
        u, e = p
        i, j = self.edges
        h = torch.relu(self.first(u))
        for weigh, update in zip(self.weigh, self.update, strict=True):
            weights = weigh(e)  # [batch, couplers, hidden]
            received = torch.zeros_like(h).index_add(1, i, weights * h[:, j])
            received = received.index_add(1, j, weights * h[:, i])
            h = h + torch.relu(update(torch.cat([h, received], 2)))
        left, right = h[:, i], h[:, j]
        strength = self.coupling(torch.cat([left + right, left * right], 2))
        return torch.cat([self.bias(torch.cat([h, u], 2))[..., 0], (strength * e).sum(2)], 1)

    def pairs_of(self, matrices: Tensor) -> Tensor:
        """Return pair features of matrices ``[batch, n, n]`` or ``[batch, n, n, b]``."""
        found = matrices[:, self.edges[0], self.edges[1]]
        return found[..., None] if matrices.ndim == 3 else found
