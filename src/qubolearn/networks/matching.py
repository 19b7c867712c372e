"""A permutation-aware network for graph matching: p = vec(W) -> the entries of A.

W[(i, a), (j, b)] compares edge (i, j) of one graph with edge (a, b) of the other, and renaming nodes only renames
i, j or a, b. So one small network is shared by all pairs: it scores each candidate match (i, a) by the best partner b
that every other node j finds under it, and writes the couplings of bits from those scores.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from qubolearn.chips.topologies import Topology
from qubolearn.errors import QubolearnError
from qubolearn.problems.contract import Problem
from qubolearn.problems.encodings import bits_per_entry

__all__ = ["MatchingBody"]

EDGE_FEATURES = 16


class MatchingBody(nn.Module):
    """Standardised p ``[batch, k⁴]`` -> entries of A on the topology ``[batch, entries]`` and hidden features.

    A body of :class:`qubolearn.QuboNetwork` for graph matching: renaming the nodes of a graph only renames bits.

    Args:
        problem: one with a field k whose p is vec(W) and whose answer is a permutation, such as RandGraph.
        topology: which entries exist.
        hidden: the width of the small networks that all pairs share.

    Any other problem is refused.

    >>> from qubolearn import make_problem, topology
    >>> problem, pattern = make_problem("randgraph", k=4), topology("chimera", 8)
    >>> outputs, features = MatchingBody(problem, pattern, hidden=16)(torch.zeros(2, problem.input_size))
    >>> outputs.shape[1] == pattern.size
    True
    """

    entry: Tensor

    def __init__(self, problem: Problem, topology: Topology, hidden: int) -> None:
        super().__init__()
        k = getattr(problem, "k", 0)
        if problem.input_size != k**4 or not k or problem.bits != k * bits_per_entry(k):
            raise QubolearnError(
                f"network 'matching' takes p = vec(W) of k**4 entries, not {problem}; use --network mlp"
            )
        b = bits_per_entry(k)
        self.k, self.b = k, b
        self.edge = nn.Linear(1, EDGE_FEATURES)
        self.candidate = nn.Sequential(
            nn.Linear(EDGE_FEATURES + 1, hidden), nn.ReLU(), nn.Linear(hidden, EDGE_FEATURES)
        )
        self.node = nn.Linear(k * EDGE_FEATURES, hidden)
        self.bias = nn.Linear(hidden, b)
        self.left, self.right = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden, bias=False)
        self.coupling = nn.Linear(hidden, b * b)
        rows, columns = topology.entries
        self.register_buffer("entry", rows * problem.bits + columns, persistent=False)

    def forward(self, p: Tensor) -> tuple[Tensor, list[Tensor]]:
        batch, k, b = len(p), self.k, self.b
        W = p.reshape(batch, k, k, k, k, 1)  # i, a, j, b
        partners = self.best_partners(W).mean(3)  # over all j: [batch, i, a, features]
        own = (
            W.diagonal(dim1=1, dim2=3).diagonal(dim1=1, dim2=2).permute(0, 2, 3, 1)
        )  # W[(i, a), (i, a)], [batch, i, a, 1]
        scores = self.candidate(torch.cat([partners, own], -1))
        nodes = torch.relu(self.node(scores.flatten(2)))  # [batch, i, hidden]: whom node i is likely to match
        pairs = torch.relu(self.left(nodes)[:, :, None] + self.right(nodes)[:, None])  # [batch, i, j, hidden]
        A = self.coupling(pairs).reshape(batch, k, k, b, b).transpose(2, 3).reshape(batch, k * b, k * b)
        A = A + torch.diag_embed(self.bias(nodes).flatten(1))
        return A.flatten(1).index_select(1, self.entry), [nodes.flatten(1)]

    def best_partners(self, W: Tensor) -> Tensor:
        """max over b of relu(edge(W)): ``[batch, i, a, j, b, 1] -> [batch, i, a, j, features]``.

        Each feature is monotone in W, so its maximum is at the largest or the smallest W: k times less work.
        """
        weight, bias = self.edge.weight[:, 0], self.edge.bias
        return torch.relu(W.amax(4) * weight.clamp_min(0) + W.amin(4) * weight.clamp_max(0) + bias)
