"""A network for problems with one bit for each node: one small network shared by all nodes, one by all pairs of nodes.

Renaming nodes only renames the entries of A, whatever the weights are, so what is learned on one pair holds for all.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from qubolearn.chips.topologies import Topology
from qubolearn.errors import QubolearnError
from qubolearn.problems.contract import Problem

__all__ = ["PairwiseBody"]


class PairwiseBody(nn.Module):
    """p ``[batch, m]``, as the problem gives it -> entries of A on the topology ``[batch, entries]``, and features.

    With u_i the features of node i and e_ij those of a pair, h_i = f(u_i, mean over j of f'(u_j)), A_ii is linear in
    h_i and u_i, and A_ij in g(h_i + h_j, h_i h_j, e_ij) and e_ij.

    Args:
        problem: one with a method ``features(p)``: node features ``[batch, n, a]`` of about unit size, and features
            ``[batch, pairs, b]`` of pairs (0, 1), (0, 2) ... or None. It may have a method ``reference(p)``, bits
            ``[batch, n]`` to which A then says the changes.
        topology: which entries exist.
        hidden: the width of the small networks.

    A problem without ``features`` is refused.

    >>> from qubolearn import make_problem, topology
    >>> problem = make_problem("maxcut")
    >>> pattern = topology("dense", problem.bits)
    >>> p = problem.sample(2, torch.Generator().manual_seed(0)).p
    >>> outputs, features = PairwiseBody(problem, pattern, hidden=16)(p)
    >>> outputs.shape[1] == pattern.size
    True
    """

    edges: Tensor  # [2, couplers]
    pair: Tensor  # [couplers]: the place of each coupler among all pairs

    def __init__(self, problem: Problem, topology: Topology, hidden: int) -> None:
        super().__init__()
        features = getattr(problem, "features", None)
        if features is None:
            raise QubolearnError(f"network 'pairwise' needs features(p), which {problem} lacks; use --network mlp")
        self.features = features
        self.reference = getattr(problem, "reference", None)
        nodes, pairs = features(torch.zeros(1, problem.input_size))
        own, shared = nodes.shape[-1], 0 if pairs is None else pairs.shape[-1]
        self.message = nn.Sequential(nn.Linear(own, hidden), nn.ReLU(), nn.Linear(hidden, hidden))
        self.node = nn.Sequential(nn.Linear(own + hidden, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.bias = nn.Linear(hidden + own, 1)
        self.pairs = nn.Sequential(nn.Linear(2 * hidden + shared, hidden), nn.ReLU())
        self.coupling = nn.Linear(hidden + shared, 1)
        n = topology.n
        rows, columns = topology.entries
        i, j = torch.minimum(rows, columns)[n:], torch.maximum(rows, columns)[n:]
        self.register_buffer("edges", torch.stack([i, j]), persistent=False)
        self.register_buffer("pair", i * (2 * n - i - 1) // 2 + j - i - 1, persistent=False)

    def forward(self, p: Tensor) -> tuple[Tensor, list[Tensor]]:
        u, e = self.features(p)
        context = self.message(u).mean(1, keepdim=True).expand(-1, u.shape[1], -1)
        h = self.node(torch.cat([u, context], -1))  # [batch, n, hidden]
        outputs = [self.bias(torch.cat([h, u], -1))[..., 0]]  # laws are often linear in the features themselves
        if self.edges.shape[1]:
            left, right = h.index_select(1, self.edges[0]), h.index_select(1, self.edges[1])
            own = [] if e is None else [e.index_select(1, self.pair)]
            pairs = self.pairs(torch.cat([left + right, left * right, *own], -1))
            outputs.append(self.coupling(torch.cat([pairs, *own], -1))[..., 0])
        return torch.cat(outputs, 1), [h.flatten(1)]
