"""Matching keypoints of two images: features of keypoints give the linear terms, pairs of edges the couplings.

Bit ``i * k + a`` says that keypoint i of the first image is keypoint a of the second. Keypoints are known by their
features and edges by both ends and the way between them, never by their numbers: renumbering keypoints renumbers the
bits of A and changes nothing else.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from qubolearn.problems.matchings import KeypointPair

__all__ = ["PairMatching"]

GEOMETRY = 5  # of an edge: its vector, its length, its direction


class PairMatching(nn.Module):
    """Keypoints of two images -> A ``[batch, k², k²]``, the same network for both images and any k.

    p is a :class:`~qubolearn.problems.matchings.KeypointPair`, or the same as one tensor (``KeypointPair.flat``).

    A_(ia),(ia) = -s cos(u_i, u_a), where u is a linear embedding of a keypoint's features and position; A_(ia),(jb) =
    -t (g_ij·g_ab + g_ji·g_ba) / 2, where g_ij, of length 1, is a small MLP's output for the edge from i to j, given its
    vector, length and direction, and a few numbers about each end's appearance. s and t are learned. Couplings within a
    row or a column are 0; the solver sees to it that a matching is one-to-one, see
    :class:`qubolearn.solvers.assignment.Assignment`.

    Lengths are in units of the mean distance between an image's keypoints, so scale does not matter.

    Args:
        features: m, the length of a keypoint's features.
        couplings: False leaves them out: *diag*.
        embedding: the length of u.
        appearance: how many numbers about each end of an edge the MLP sees.
        hidden: the width of the MLP.
        edge: the length of g.
        dropout: the share of features that is left out in training, since images are few.

    >>> p = KeypointPair(torch.rand(3, 2, 4, 6), torch.rand(3, 2, 4, 2))
    >>> PairMatching(features=6)(p).shape
    torch.Size([3, 16, 16])
    """

    def __init__(
        self,
        features: int,
        couplings: bool = True,
        embedding: int = 128,
        appearance: int = 32,
        hidden: int = 128,
        edge: int = 64,
        dropout: float = 0.3,
    ) -> None:
        super().__init__()
        self.features = features
        self.dropout = nn.Dropout(dropout)
        self.node = nn.Linear(features + 2, embedding)
        self.node_scale = nn.Parameter(torch.tensor(10.0))
        self.couplings_wanted = couplings
        if couplings:
            self.appearance = nn.Linear(features, appearance)
            self.edge = nn.Sequential(nn.Linear(GEOMETRY + 2 * appearance, hidden), nn.SiLU(), nn.Linear(hidden, edge))
            self.edge_scale = nn.Parameter(torch.tensor(1.0))

    def forward(self, p: KeypointPair | Tensor) -> Tensor:
        if isinstance(p, Tensor):
            p = KeypointPair.from_flat(p, self.features)
        batch, _, k, _ = p.features.shape
        # one draw for all keypoints of an instance: both images lose the same features, at a twentieth of the cost
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
        """g ``[batch, 2, i, j, edge]``, zero where i = j."""
        k = p.points.shape[2]
        vector = p.points[:, :, None] - p.points[:, :, :, None]  # from i to j
        length = vector.norm(dim=-1, keepdim=True)
        mean = length.sum((2, 3), keepdim=True) / max(1, k * (k - 1))
        vector, length = vector / mean.clamp_min(1e-9), length / mean.clamp_min(1e-9)
        ends = math.sqrt(self.appearance.out_features) * normalize(self.appearance(p.features), dim=-1)
        ends_i, ends_j = ends[:, :, :, None].expand(-1, -1, -1, k, -1), ends[:, :, None].expand(-1, -1, k, -1, -1)
        g = self.edge(torch.cat([vector, length, vector / (length + 1e-3), ends_i, ends_j], -1))
        return normalize(g, dim=-1) * (1 - torch.eye(k, device=g.device, dtype=g.dtype))[:, :, None]


def _placed(points: Tensor) -> Tensor:
    """Points ``[..., k, 2]`` about their centre, in units of their mean distance from it."""
    points = points - points.mean(-2, keepdim=True)
    distance: Tensor = points.norm(dim=-1, keepdim=True).mean(-2, keepdim=True)
    return points / distance.clamp_min(1e-9)
