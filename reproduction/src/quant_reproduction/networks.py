"""Network bodies, the entry points ``qubolearn.networks``."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, one_hot, pad

from quant_reproduction.problems.willow_matching import KeypointPair
from qubolearn import Problem, topology
from qubolearn.errors import QubolearnError
from qubolearn.networks import HEADS
from qubolearn.recipes import Recipe

GEOMETRY = 5  # numbers of an edge: its vector, its length, its direction
EMBEDDING, ENDS, EDGE = 128, 32, 64  # of u, of each end's features, and of g


def grid(problem: Problem, recipe: Recipe) -> nn.Module:
    """Return the untrained network that labels the cells of a grid."""
    rows, columns, symbols, labels = _attribute(problem, "grid")
    own = recipe.topology == "own"
    pattern = _attribute(problem, "topology")() if own else topology(recipe.topology, problem.bits)
    body = GridBody(rows, columns, symbols, labels, recipe.head == "coupled", recipe.hidden)
    return HEADS[recipe.head](body, pattern, bound=True)


def keypoints(problem: Problem, recipe: Recipe) -> nn.Module:
    """Return the network that matches the keypoints of two images."""
    features, coupled = _attribute(problem, "features"), recipe.head == "coupled"
    return PairMatching(features, coupled, recipe.hidden, recipe.dropout)


def kernel(problem: Problem, recipe: Recipe) -> nn.Module:
    """Return an untrained network, linear in the kernel of p with all training inputs."""
    pattern = topology(recipe.topology, problem.bits)
    return HEADS[recipe.head](KernelBody(_attribute(problem, "whole")("train").p, pattern.size), pattern)


def _attribute(problem: Problem, name: str) -> Any:
    found = getattr(problem, name, None)
    if found is None:
        raise QubolearnError(f"the network needs a problem with {name!r}, got {problem}; choose another")
    return found


class Ensemble(nn.Module):
    """The mean of several networks' QUBOs ``[batch, n, n]``."""

    def __init__(self, networks: Iterable[nn.Module]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)

    def forward(self, p: Any) -> Tensor:
        return torch.stack([network(p) for network in self.networks]).mean(0)


class KernelBody(nn.Module):
    """Map p to outputs linear in exp(-|p - c|₁ / m), centers c, median distance m.

    The root of the centers' own kernel whitens these features, so that few steps suffice.
    """

    centers: Tensor
    width: Tensor
    root: Tensor

    def __init__(self, centers: Tensor, outputs: int) -> None:
        super().__init__()
        self.register_buffer("centers", centers)
        self.register_buffer("width", torch.cdist(centers, centers, 1).median())
        values, vectors = torch.linalg.eigh(self.kernel(centers).double())
        self.register_buffer("root", ((vectors * values.clamp_min(1e-6).rsqrt()) @ vectors.T).float())
        self.linear = nn.Linear(len(centers), outputs)
        nn.init.zeros_(self.linear.weight)

    def kernel(self, p: Tensor) -> Tensor:
        return torch.exp(-torch.cdist(p, self.centers, 1) / self.width)

    def forward(self, p: Tensor) -> Tensor:
        found: Tensor = self.linear(self.kernel(p) @ self.root)
        return found


class GridBody(nn.Module):
    """Labels on grids: maps p ``[batch, rows * columns]`` to entries of A ``[batch, entries]``.

    The window u of a cell has the symbols of the 3 x 3 cells around it. A small network of u gives
    the linear terms of the cell's labels; one of (u, u') the couplings with its right neighbor,
    another those below. Entries of padding are 0. Their order is that of ``grid_pattern``.
    """

    exists: Tensor  # [couplers]: existing pairs (cell, label, neighbor, its label)

    def __init__(
        self, rows: int, columns: int, symbols: int, labels: int, couplings: bool = True, hidden: int = 64
    ) -> None:
        super().__init__()
        self.rows, self.columns, self.symbols, self.labels = rows, columns, symbols, labels
        window = 9 * symbols
        self.own = nn.Sequential(nn.Linear(window, hidden), nn.ReLU(), nn.Linear(hidden, labels))
        ways = 2 if couplings else 0  # right, below
        self.pairs = nn.ModuleList(
            nn.Sequential(nn.Linear(2 * window, hidden), nn.ReLU(), nn.Linear(hidden, labels**2))
            for _ in range(ways)
        )
        cell = torch.arange(rows * columns)
        there = torch.stack([cell % columns + 1 < columns, cell + columns < rows * columns], 1)  # [cells, 2]
        there = there[:, None, :, None].expand(-1, labels, -1, labels).flatten()
        self.register_buffer("exists", there.nonzero()[:, 0], persistent=False)

    def forward(self, p: Tensor) -> Tensor:
        inside = (p > 0).to(p.dtype)
        u = self.windows(p)
        outputs = [(self.own(u) * inside[:, :, None]).flatten(1)]
        if len(self.pairs):
            beyond = self.columns  # padding after the last cell
            u, inside = pad(u, (0, 0, 0, beyond)), pad(inside, (0, beyond))
            cells = p.shape[1]
            found = []
            for step, network in zip((1, self.columns), self.pairs, strict=True):
                both = network(torch.cat([u[:, :cells], u[:, step : cells + step]], -1))
                both = both * (inside[:, :cells] * inside[:, step : cells + step])[:, :, None]
                found.append(both.unflatten(-1, (self.labels, self.labels)))
            pairs = torch.stack(found, 3)  # [batch, cell, label, way, label]
            outputs.append(pairs.flatten(1).index_select(1, self.exists))
        return torch.cat(outputs, 1)

    def windows(self, p: Tensor) -> Tensor:
        """Return symbols of 3 x 3 cells: ``[batch, cells, 9 * symbols]``."""
        codes = p.reshape(-1, self.rows, self.columns).long()
        if codes.numel() and not 0 <= int(codes.min()) <= int(codes.max()) <= self.symbols:
            wrong = int(codes.max()) if int(codes.max()) > self.symbols else int(codes.min())
            raise QubolearnError(f"expected symbols 0 to {self.symbols} in p, got {wrong}")
        return symbols_around(codes, self.symbols, 3)


def symbols_around(codes: Tensor, symbols: int, width: int) -> Tensor:
    """Return one-hot symbols of the windows around cells: ``[batch, cells, width² * symbols]``."""
    rows, columns, half = *codes.shape[1:], width // 2
    seen = pad(one_hot(codes, symbols + 1)[..., 1:].float(), (0, 0, half, half, half, half))
    around = [seen[:, i : i + rows, j : j + columns] for i in range(width) for j in range(width)]
    return torch.cat(around, -1).flatten(1, 2)


class PairMatching(nn.Module):
    """Matching of keypoints: maps a :class:`KeypointPair` to A ``[batch, k², k²]`` for any k.

    A_(ia),(ia) = -s cos(u_i, u_a), where u is a linear embedding of features and position. A_(ia),(jb) =
    -t (g_ij·g_ab + g_ji·g_ba) / 2, where g_ij, of norm 1, is the output of a small MLP for the edge i -> j,
    given its vector, length and direction, and a few features of each end. s and t are learned.
    Lengths are relative to the mean distance between an image's keypoints. In training a share ``dropout``
    of the features is dropped, the same ones for all keypoints of a pair.
    """

    def __init__(
        self, features: int, couplings: bool = True, hidden: int = 128, dropout: float = 0.5
    ) -> None:
        super().__init__()
        self.features = features
        self.dropout = nn.Dropout(dropout)
        self.node = nn.Linear(features + 2, EMBEDDING)
        self.node_scale = nn.Parameter(torch.tensor(10.0))
        self.couplings_wanted = couplings
        if couplings:
            self.appearance = nn.Linear(features, ENDS)
            size = GEOMETRY + 2 * ENDS
            self.edge = nn.Sequential(nn.Linear(size, hidden), nn.SiLU(), nn.Linear(hidden, EDGE))
            self.edge_scale = nn.Parameter(torch.tensor(1.0))

    def forward(self, p: KeypointPair | Tensor) -> Tensor:
        if isinstance(p, Tensor):
            p = KeypointPair.from_flat(p, self.features)
        batch, _, k, _ = p.features.shape
        # both images lose the same features
        p = KeypointPair(p.features * self.dropout(torch.ones_like(p.features[:, :1, :1])), p.points)
        u = normalize(self.node(torch.cat([p.features, _placed(p.points)], -1)), dim=-1)
        A = torch.diag_embed((-self.node_scale * u[:, 0] @ u[:, 1].mT).flatten(1))
        if not self.couplings_wanted:
            return A
        g = self.edges(p)  # [batch, 2, k, k, edge]
        same = (g[:, 0].flatten(1, 2) @ g[:, 1].flatten(1, 2).mT).reshape(batch, k, k, k, k)  # i, j, a, b
        same = same.permute(0, 1, 3, 2, 4).reshape(batch, k * k, k * k)  # ia, jb
        return A - 0.5 * self.edge_scale * (same + same.mT)

    def edges(self, p: KeypointPair) -> Tensor:
        """Return g ``[batch, 2, i, j, edge]``, zero if i = j."""
        k = p.points.shape[2]
        vector = p.points[:, :, None] - p.points[:, :, :, None]  # from i to j
        length = vector.norm(dim=-1, keepdim=True)
        mean = length.sum((2, 3), keepdim=True) / max(1, k * (k - 1))
        vector, length = vector / mean.clamp_min(1e-9), length / mean.clamp_min(1e-9)
        ends = math.sqrt(self.appearance.out_features) * normalize(self.appearance(p.features), dim=-1)
        ends_i = ends[:, :, :, None].expand(-1, -1, -1, k, -1)
        ends_j = ends_i.transpose(2, 3)
        g = self.edge(torch.cat([vector, length, vector / (length + 1e-3), ends_i, ends_j], -1))
        return normalize(g, dim=-1) * (1 - torch.eye(k, device=g.device, dtype=g.dtype))[:, :, None]


def _placed(points: Tensor) -> Tensor:
    points = points - points.mean(-2, keepdim=True)
    distance: Tensor = points.norm(dim=-1, keepdim=True).mean(-2, keepdim=True)
    return points / distance.clamp_min(1e-9)
