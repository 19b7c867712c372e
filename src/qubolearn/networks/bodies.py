"""Bodies of networks that all nodes or pairs of nodes share.

They are equivariant: renaming nodes only renames the entries of A, so what one pair teaches holds for all.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from qubolearn.chips.topologies import Topology
from qubolearn.data.contract import Problem
from qubolearn.data.encodings import bits_per_entry
from qubolearn.errors import QubolearnError

EDGE_FEATURES = 16


class PairwiseBody(nn.Module):
    """Map p ``[batch, m]`` to entries of A and features; one bit per node.

    With u_i the features of node i and e_ij those of a pair, h_i = f(u_i, mean over j of f'(u_j)), A_ii is linear in
    h_i and u_i, and A_ij in g(h_i + h_j, h_i h_j, e_ij) and e_ij.

    Args:
        problem: has ``features(p)``: ``[batch, n, a]`` of nodes, and ``[batch, pairs, b]``
            of pairs (0, 1), (0, 2) ... or None. If it has ``reference(p)``, bits
            ``[batch, n]``, A describes changes to these.
        topology: which entries exist.
        hidden: the width of the small networks.
    """

    edges: Tensor  # [2, couplers]
    pair: Tensor  # [couplers]: the place of each coupler among all pairs

    def __init__(self, problem: Problem, topology: Topology, hidden: int) -> None:
        super().__init__()
        features = getattr(problem, "features", None)
        if features is None:
            raise QubolearnError(f"network 'pairwise' needs features(p), which {problem} lacks; use 'mlp'")
        self.features = features
        self.reference = getattr(problem, "reference", None)
        nodes, pairs = features(torch.zeros(1, problem.input_size))
        own, shared = nodes.shape[-1], 0 if pairs is None else pairs.shape[-1]
        self.message = nn.Sequential(nn.Linear(own, hidden), nn.ReLU(), nn.Linear(hidden, hidden))
        node = nn.Linear(own + hidden, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()
        self.node = nn.Sequential(*node)
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
        outputs = [self.bias(torch.cat([h, u], -1))[..., 0]]  # laws are often linear in the features
        if self.edges.shape[1]:
            left, right = h.index_select(1, self.edges[0]), h.index_select(1, self.edges[1])
            own = [] if e is None else [e.index_select(1, self.pair)]
            pairs = self.pairs(torch.cat([left + right, left * right, *own], -1))
            outputs.append(self.coupling(torch.cat([pairs, *own], -1))[..., 0])
        return torch.cat(outputs, 1), [h.flatten(1)]


class MatchingBody(nn.Module):
    """Map p = vec(W) ``[batch, k⁴]`` of a graph matching to entries of A and features.

    W[(i, a), (j, b)] compares edge (i, j) of one graph with edge (a, b) of the
    other. A small network scores each match (i, a) by the best partner b of every
    other node j; couplings follow from these scores.

    Args:
        problem: has a field k, p = vec(W) and permutations as answers, such as RandGraph.
        topology: which entries exist.
        hidden: the width of the small networks.
    """

    entry: Tensor

    def __init__(self, problem: Problem, topology: Topology, hidden: int) -> None:
        super().__init__()
        k = getattr(problem, "k", 0)
        if problem.input_size != k**4 or not k or problem.bits != k * bits_per_entry(k):
            raise QubolearnError(f"network 'matching' takes p of k**4 entries, not {problem}; use 'mlp'")
        b = bits_per_entry(k)
        self.k, self.b = k, b
        self.edge = nn.Linear(1, EDGE_FEATURES)
        scorer = nn.Linear(EDGE_FEATURES + 1, hidden), nn.ReLU(), nn.Linear(hidden, EDGE_FEATURES)
        self.candidate = nn.Sequential(*scorer)
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
        # W[(i, a), (i, a)], [batch, i, a, 1]
        own = W.diagonal(dim1=1, dim2=3).diagonal(dim1=1, dim2=2).permute(0, 2, 3, 1)
        scores = self.candidate(torch.cat([partners, own], -1))
        nodes = torch.relu(self.node(scores.flatten(2)))  # whom node i is likely to match
        pairs = torch.relu(self.left(nodes)[:, :, None] + self.right(nodes)[:, None])  # [batch, i, j, hidden]
        A = self.coupling(pairs).reshape(batch, k, k, b, b).transpose(2, 3).reshape(batch, k * b, k * b)
        A = A + torch.diag_embed(self.bias(nodes).flatten(1))
        return A.flatten(1).index_select(1, self.entry), [nodes.flatten(1)]

    def best_partners(self, W: Tensor) -> Tensor:
        """Return max over b of relu(edge(W)), ``[batch, i, a, j, features]``.

        Each feature is monotone in W, so only the largest and smallest W count.
        """
        weight, bias = self.edge.weight[:, 0], self.edge.bias
        return torch.relu(W.amax(4) * weight.clamp_min(0) + W.amin(4) * weight.clamp_max(0) + bias)
