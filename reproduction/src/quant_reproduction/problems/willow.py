"""Willow: match keypoints of two real images of one class.

Geometry follows Torresani, Kolmogorov, Rother (ECCV 2008): edge i -> j of one image fits edge
a -> b of the other if they have similar directions and lengths.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from quant_reproduction.datasets import willow as dataset
from quant_reproduction.datasets.files import cached_data, data_folder
from quant_reproduction.datasets.willow import KEYPOINTS, AlexNetLayer, WillowImages
from quant_reproduction.problems import check_range
from qubolearn.data.contract import Instances, PermutationProblem, Problem, Split
from qubolearn.data.encodings import encode_permutation
from qubolearn.errors import QubolearnError, convert
from qubolearn.random import stream

#: Range of each split within a class's images.
SHARES: dict[Split, tuple[float, float]] = {"train": (0.0, 0.6), "validation": (0.6, 0.8), "test": (0.8, 1.0)}


class Pairs(NamedTuple):
    """The keypoints and images of a batch of instances."""

    source: Tensor  # [batch], index of the first image
    target: Tensor  # [batch], another image of the same class
    source_keypoints: Tensor  # [batch, k]: node i's keypoint, 0 ... 9
    target_keypoints: Tensor  # [batch, k]: node a is this keypoint of the second
    P: Tensor  # [batch, k]: node i of the first image is node P(i) of the second


@dataclass(frozen=True)
class Willow(PermutationProblem):
    """Match k of the ten keypoints of two Willow images of one class.

    p = vec(W), W = -(τ·diag(appearance) + (1-τ)·geometry): the right permutation has low energy.
    The bits encode P(1) ... P(k). Copies of one image, and images of one person, are in one split.
    The default layer, tau and eta gave the highest accuracy of direct search on training images.
    """

    name: ClassVar[str] = "willow"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {"tau": 0.81, "eta": 0.98, "per_node": False, "loss": "gap", "standardize": False}
        | {"solver": "annealing:reads=100,sweeps=1000", "epochs": 300},
        "best": {"rotate": 0.3, "jitter": 0.05, "topology": "chimera", "beta": 8.0, "learning_rate": 3e-3}
        | {"epochs": 375, "batch_size": 256, "instances": 10_240},
    }

    k: int = 4
    """Keypoints of each image, 2 to 10."""
    layer: AlexNetLayer = "relu4"
    """AlexNet's layer of the features, relu1 to relu5."""
    tau: float = 0.3
    """Weight of appearance; geometry has 1 - tau."""
    eta: float = 0.6
    """Weight of edge directions within geometry; edge lengths have 1 - eta."""
    per_node: bool = True
    """Divide geometry by k, so that tau is comparable between k; False for the paper's weights."""
    rotate: float = 0.0
    """Training only: rotate the first image by an angle of this standard deviation, in radians."""
    jitter: float = 0.0
    """Training only: noise on keypoints, in units of an image's mean distance between keypoints."""
    split_seed: int = 1
    """Number of the random split of the sources, from 1."""

    def __post_init__(self) -> None:
        convert(self.layer, AlexNetLayer, "layer")
        check_range(self, 1, math.inf, "split_seed")
        check_range(self, 2, KEYPOINTS, "k")
        check_range(self, 0, 1, "tau", "eta")
        check_range(self, 0, 10, "rotate", "jitter")

    def images(self) -> WillowImages:
        """Return the images that indices in :class:`Pairs` refer to."""
        return self._data("cpu").images

    def _data(self, device: object) -> _Data:
        return _load(str(data_folder("willow")), self.layer, self.split_seed, str(device))

    def sample_pairs(self, count: int, generator: Generator, split: Split = "train") -> Pairs:
        """Draw random pairs of images with their keypoints."""
        device = generator.device
        members, sizes = self._data(device).splits[split]
        starts = sizes.cumsum(0) - sizes

        which = (torch.rand(count, generator=generator, device=device) * len(sizes)).long()
        first, second = draw_two(sizes[which], generator)
        order = torch.rand(count, KEYPOINTS, generator=generator, device=device).argsort(1)[:, : self.k]
        P = torch.rand(count, self.k, generator=generator, device=device).argsort(1)
        source, target = members[starts[which] + first], members[starts[which] + second]
        return Pairs(source, target, order, order.gather(1, P.argsort(1)), P)

    def weights(self, pairs: Pairs, noise: Generator | None = None) -> Tensor:
        """Return W ``[batch, k², k²]`` of pairs, with noise on their keypoints if it is given."""
        data = self._data(pairs.P.device)
        x = data.keypoints[pairs.source[:, None], pairs.source_keypoints]
        y = data.keypoints[pairs.target[:, None], pairs.target_keypoints]
        rows = pairs.source[:, None] * KEYPOINTS + pairs.source_keypoints
        columns = pairs.target[:, None] * KEYPOINTS + pairs.target_keypoints
        similarity = data.similarity[rows[:, :, None], columns[:, None, :]]
        if noise is not None and self.rotate:
            x = turned(x, self.rotate * torch.randn(len(x), generator=noise, device=x.device)[:, None])
        if noise is not None and self.jitter:
            x = x + self.jitter * torch.randn(x.shape, generator=noise, device=x.device)
            y = y + self.jitter * torch.randn(y.shape, generator=noise, device=y.device)
        direction, length = direction_and_length(x, y)
        geometry = self.eta * direction + (1 - self.eta) * length
        divide = self.k if self.per_node else 1
        return -(self.tau * torch.diag_embed(similarity.flatten(1)) + (1 - self.tau) * geometry / divide)

    def sample(self, count: int, generator: Generator, split: Split = "train") -> Instances:
        pairs = self.sample_pairs(count, generator, split)
        W = self.weights(pairs, noise=generator if split == "train" else None)
        return Instances(W.flatten(1), encode_permutation(pairs.P), pairs.P)

    @classmethod
    def variant(cls, name: str, options: Mapping[str, Any]) -> type[Problem]:
        """Return the problem with one-hot bits, for ten keypoints."""
        if name == "paper" or options.get("k") != KEYPOINTS:
            return cls
        from quant_reproduction.problems.willow_matching import WillowMatching

        return WillowMatching


def direction_and_length(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return how well edges of points x ``[batch, k, 2]`` fit edges of y: two ``[batch, k², k²]``.

    Entry [(i, a), (j, b)] is exp(-d² / 2σ²) if i != j and a != b, else 0. Here d is the angle between i -> j
    and a -> b, or the difference of their lengths relative to the mean, and σ² is the mean of d².
    """
    angle_x, length_x = _edges(x)
    angle_y, length_y = _edges(y)
    angle = angle_x[:, :, None, :, None] - angle_y[:, None, :, None, :]  # [batch, i, a, j, b]
    angle = torch.remainder(angle + torch.pi, 2 * torch.pi) - torch.pi
    length = length_x[:, :, None, :, None] - length_y[:, None, :, None, :]
    return _gaussian(angle), _gaussian(length)


def _edges(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return direction and relative length of edges of points ``[batch, k, 2]``."""
    k = x.shape[1]
    edge = x[:, None, :] - x[:, :, None]
    length = edge.norm(dim=-1)
    mean = length.sum((1, 2), keepdim=True) / (k * (k - 1))
    return torch.atan2(edge[..., 1], edge[..., 0]), length / mean.clamp_min(1e-12)


def _gaussian(d: Tensor) -> Tensor:
    """Return exp(-d² / 2σ²) ``[batch, k², k²]``, 0 if i = j or a = b."""
    k = d.shape[1]
    apart = 1 - torch.eye(k, device=d.device, dtype=d.dtype)
    edges = apart[:, None, :, None] * apart[None, :, None, :]  # i != j and a != b
    squared = d.square() * edges
    variance = squared.sum((1, 2, 3, 4), keepdim=True) / edges.sum()
    return ((-squared / (2 * variance).clamp_min(1e-12)).exp() * edges).reshape(-1, k * k, k * k)


def draw_two(sizes: Tensor, generator: Generator) -> tuple[Tensor, Tensor]:
    """Draw two different numbers below each of ``sizes`` ``[count]``."""
    units = [torch.rand(len(sizes), generator=generator, device=sizes.device) for _ in range(2)]
    first = (units[0] * sizes).long()
    return first, (first + 1 + (units[1] * (sizes - 1)).long()) % sizes


def turned(x: Tensor, angle: Tensor) -> Tensor:
    """Rotate points ``[..., k, 2]`` by angles ``[..., 1]``."""
    sin, cos = angle.sin(), angle.cos()
    return torch.stack([cos * x[..., 0] - sin * x[..., 1], sin * x[..., 0] + cos * x[..., 1]], -1)


def split_images(
    images: WillowImages, split: Split, number: int, sources: Sequence[int]
) -> dict[str, list[int]]:
    """Return the indices of the split's images by class, for split ``number``.

    Sources are shuffled, and the place of a source's first image decides its side.
    """
    low, high = SHARES[split]
    chosen = {}
    for name in sorted(set(images.classes)):
        groups: dict[int, list[int]] = {}
        for index, each in enumerate(images.classes):
            if each == name:
                groups.setdefault(sources[index], []).append(index)
        order = torch.randperm(len(groups), generator=stream(number, "willow", name)).tolist()
        members = [index for group in order for index in [*groups.values()][group]]
        starts = {source: [sources[index] for index in members].index(source) for source in groups}
        chosen[name] = [index for index in members if low <= starts[sources[index]] / len(members) < high]
        if len(chosen[name]) < 2:
            raise QubolearnError(f"expected at least 2 {split} images of {name}, got {len(chosen[name])}")
    return chosen


class _Data(NamedTuple):
    images: WillowImages
    keypoints: Tensor  # [images, 10, 2], of mean distance 1
    similarity: Tensor  # [images·10, images·10], cosines of features
    splits: dict[Split, tuple[Tensor, Tensor]]  # images by class, and sizes of classes


@cached_data(4)
def _load(folder: str, layer: str, number: int, device: str) -> _Data:
    images = dataset.read_willow(folder)
    sources = dataset.read_sources(images, folder)
    features = F.normalize(dataset.read_features(layer, images, folder).flatten(0, 1), dim=1).to(device)
    distances = torch.cdist(images.keypoints, images.keypoints).sum((1, 2)) / (KEYPOINTS * (KEYPOINTS - 1))
    splits = {}
    for split in SHARES:
        chosen = split_images(images, split, number, sources).values()
        members = torch.tensor([index for group in chosen for index in group], device=device)
        splits[split] = (members, torch.tensor([len(group) for group in chosen], device=device))
    keypoints = (images.keypoints / distances[:, None, None]).to(device)
    return _Data(images, keypoints, features @ features.T, splits)
