"""W of two annotated images: appearance on the diagonal, geometry of edges off it, and the search for their weights.

Geometry follows Torresani, Kolmogorov, Rother (ECCV 2008): edge i -> j of one image fits edge a -> b of the other
where they point the same way and are about equally long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from qubolearn.paper.baselines.direct import assignment_energies
from qubolearn.problems.encodings import all_permutations

if TYPE_CHECKING:
    from qubolearn.paper.problems.willow import Willow

__all__ = ["Choice", "choose_weights", "combined_weights", "direction_and_length"]


def combined_weights(
    similarity: Tensor, direction: Tensor, length: Tensor, tau: float, eta: float, divide: int = 1
) -> Tensor:
    """W = -(τ·diag(similarity) + (1-τ)·(η·direction + (1-η)·length) / divide), to be minimised over permutations.

    similarity ``[batch, k, k]``, direction and length ``[batch, k², k²]`` -> W ``[batch, k², k²]``. Geometry sums
    over k(k-1) edges where appearance sums over k nodes; dividing it by k keeps τ comparable between different k.
    """
    geometry = eta * direction + (1 - eta) * length
    return -(tau * torch.diag_embed(similarity.flatten(1)) + (1 - tau) * geometry / divide)


def direction_and_length(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """How well edges of points x fit edges of points y, both ``[batch, k, 2]`` -> two ``[batch, k², k²]`` in 0 ... 1.

    exp(-d² / 2σ²) at [(i, a), (j, b)] for i != j and a != b, else 0; d is the angle between the edges i -> j and
    a -> b, or the difference of their lengths, each divided by the mean length in its image; σ² is the mean of d²
    within the instance.
    """
    angle_x, length_x = _edges(x)
    angle_y, length_y = _edges(y)
    angle = angle_x[:, :, None, :, None] - angle_y[:, None, :, None, :]  # [batch, i, a, j, b]
    angle = torch.remainder(angle + torch.pi, 2 * torch.pi) - torch.pi
    length = length_x[:, :, None, :, None] - length_y[:, None, :, None, :]
    return _gaussian(angle), _gaussian(length)


def _edges(x: Tensor) -> tuple[Tensor, Tensor]:
    """Direction and length, divided by the mean length, of the edges i -> j of points ``[batch, k, 2]``."""
    k = x.shape[1]
    edge = x[:, None, :] - x[:, :, None]
    length = edge.norm(dim=-1)
    mean = length.sum((1, 2), keepdim=True) / (k * (k - 1))
    return torch.atan2(edge[..., 1], edge[..., 0]), length / mean.clamp_min(1e-12)


def _gaussian(d: Tensor) -> Tensor:
    """exp(-d² / 2σ²) of differences ``[batch, i, a, j, b]`` -> ``[batch, k², k²]``, zero where no two edges meet."""
    k = d.shape[1]
    apart = 1 - torch.eye(k, device=d.device, dtype=d.dtype)
    edges = apart[:, None, :, None] * apart[None, :, None, :]  # i != j and a != b
    squared = d.square() * edges
    variance = squared.sum((1, 2, 3, 4), keepdim=True) / edges.sum()
    return ((-squared / (2 * variance).clamp_min(1e-12)).exp() * edges).reshape(-1, k * k, k * k)


@dataclass(frozen=True)
class Choice:
    """One setting of the weights, and how often Direct is right with it on training images."""

    layer: str
    tau: float
    eta: float
    accuracy: float


def choose_weights(
    problems: Sequence[Willow],
    taus: Sequence[float],
    etas: Sequence[float],
    count: int = 20_000,
    seed: int = 0,
) -> list[Choice]:
    """Direct's accuracy on ``count`` pairs of training images for each problem's layer, tau and eta, best first.

    Energies are linear in the weights, so every permutation's three energies are computed once per layer.
    """
    choices = []
    for problem in problems:
        pairs = problem.sample_pairs(count, torch.Generator().manual_seed(seed), "train")
        similarity, x, y = problem.observations(pairs)
        terms = (torch.diag_embed(similarity.flatten(1)), *direction_and_length(x, y))
        permutations = all_permutations(problem.k)
        appearance, direction, length = (assignment_energies(term, permutations) for term in terms)
        right = (pairs.P[:, None] == permutations).all(-1)  # [count, k!]
        for tau in taus:
            for eta in etas:
                score = tau * appearance + (1 - tau) * (eta * direction + (1 - eta) * length) / problem.k
                hits = right.gather(1, score.argmax(1, keepdim=True))
                choices.append(Choice(problem.layer, tau, eta, float(hits.float().mean())))
    return sorted(choices, key=lambda choice: -choice.accuracy)
