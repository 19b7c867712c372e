"""Willow: match keypoints of two real images of one class, by what AlexNet sees there and by where they lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from qubolearn.errors import QubolearnError
from qubolearn.paper.datasets.alexnet import check_layer
from qubolearn.paper.datasets.willow import KEYPOINTS, WillowImages, read_features, read_willow
from qubolearn.paper.datasets.willow_sources import read_sources
from qubolearn.paper.problems.willow_weights import combined_weights, direction_and_length
from qubolearn.problems.contract import Instances, Problem, Split
from qubolearn.problems.data import cached_data, data_folder
from qubolearn.problems.encodings import encode_permutation
from qubolearn.problems.permutations import PermutationProblem
from qubolearn.randomness import stream

__all__ = ["Pairs", "Willow", "split_images"]

#: Shares of each class's images.
SHARES: dict[Split, tuple[float, float]] = {"train": (0.0, 0.6), "validation": (0.6, 0.8), "test": (0.8, 1.0)}


class Pairs(NamedTuple):
    """Which keypoints of which images make up a batch of instances."""

    source: Tensor  # [batch], index of the first image
    target: Tensor  # [batch], index of the second, another one of the same class
    source_keypoints: Tensor  # [batch, k]: node i is this keypoint, 0 ... 9, of the first image
    target_keypoints: Tensor  # [batch, k]: node a is this keypoint of the second
    P: Tensor  # [batch, k]: node i of the first image is node P(i) of the second


@dataclass(frozen=True)
class Willow(PermutationProblem):
    """Match k of the ten keypoints of two Willow images of one class, both in random order.

    p = vec(W), W = -(τ·diag(appearance) + (1-τ)·geometry), so that the right permutation has low energy. The
    solution says P(1) ... P(k) in ceil(log2 k) bits each. Classes are drawn with equal probability. Images are
    disjoint between training, validation and test, and so are their sources: copies of one picture, and pictures of
    one person, are on one side. The defaults of layer, tau and eta were chosen by ``choose_weights`` on training
    images.
    """

    name: ClassVar[str] = "willow"

    k: int = 4
    """Keypoints of each image, 2 to 10."""
    layer: str = "relu4"
    """AlexNet's layer that appearance is compared in, relu1 to relu5."""
    tau: float = 0.3
    """Weight of appearance; 1 - tau is geometry's."""
    eta: float = 0.6
    """Weight of edge directions within geometry; 1 - eta is that of edge lengths."""
    per_node: bool = True
    """Divide geometry by k, so that tau means the same for every k; False adds it as it is (paper)."""
    rotate: float = 0.0
    """Training only: turn the first image by an angle of this standard deviation, in radians."""
    jitter: float = 0.0
    """Training only: noise on keypoints, in units of an image's mean distance between keypoints."""
    split_seed: int = 1
    """Which random split of the sources: 1, 2, ...; 0 is that of older results, by name, with copies on both sides."""

    def __post_init__(self) -> None:
        if self.split_seed < 0:
            raise QubolearnError(f"split_seed={self.split_seed}; want the number of a split, at least 0")
        if not 2 <= self.k <= KEYPOINTS:
            raise QubolearnError(f"k={self.k} keypoints; a Willow image has {KEYPOINTS}, so want 2 to {KEYPOINTS}")
        check_layer(self.layer)
        for name in ("tau", "eta"):
            if not 0 <= getattr(self, name) <= 1:
                raise QubolearnError(f"{name}={getattr(self, name)} is a weight; want 0 to 1")
        for name in ("rotate", "jitter"):
            if not 0 <= getattr(self, name) <= 10:
                raise QubolearnError(f"{name}={getattr(self, name)} is a noise level; want 0 to 10")

    def images(self) -> WillowImages:
        """The annotated images that indices in :class:`Pairs` speak of."""
        return _load(str(data_folder("willow")), self.layer, self.split_seed, "cpu").images

    def sample_pairs(self, count: int, generator: Generator, split: Split = "train") -> Pairs:
        """``count`` random pairs of images with their keypoints, on the generator's device."""
        device = generator.device
        members, sizes = _load(str(data_folder("willow")), self.layer, self.split_seed, str(device)).splits[split]
        starts = sizes.cumsum(0) - sizes

        def draw(below: Tensor) -> Tensor:
            return (torch.rand(count, generator=generator, device=device) * below).long()

        which = draw(torch.tensor(len(sizes), device=device))
        size = sizes[which]
        first = draw(size)
        second = (first + 1 + draw(size - 1)) % size  # any image of the class but the first
        order = torch.rand(count, KEYPOINTS, generator=generator, device=device).argsort(1)[:, : self.k]
        P = torch.rand(count, self.k, generator=generator, device=device).argsort(1)
        source, target = members[starts[which] + first], members[starts[which] + second]
        return Pairs(source, target, order, order.gather(1, P.argsort(1)), P)

    def weights(self, pairs: Pairs, noise: Generator | None = None) -> Tensor:
        """W ``[batch, k², k²]`` of pairs, turned and jittered where a source of noise is given."""
        similarity, x, y = self.observations(pairs, noise)
        direction, length = direction_and_length(x, y)
        return combined_weights(similarity, direction, length, self.tau, self.eta, self.k if self.per_node else 1)

    def observations(self, pairs: Pairs, noise: Generator | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """What W is made of: cosines of appearance ``[batch, k, k]`` and both images' keypoints ``[batch, k, 2]``."""
        data = _load(str(data_folder("willow")), self.layer, self.split_seed, str(pairs.P.device))
        x = data.keypoints[pairs.source[:, None], pairs.source_keypoints]
        y = data.keypoints[pairs.target[:, None], pairs.target_keypoints]
        rows = pairs.source[:, None] * KEYPOINTS + pairs.source_keypoints
        columns = pairs.target[:, None] * KEYPOINTS + pairs.target_keypoints
        similarity = data.similarity[rows[:, :, None], columns[:, None, :]]
        if noise is not None and self.rotate:
            x = _turned(x, self.rotate * torch.randn(len(x), generator=noise, device=x.device))
        if noise is not None and self.jitter:
            x = x + self.jitter * torch.randn(x.shape, generator=noise, device=x.device)
            y = y + self.jitter * torch.randn(y.shape, generator=noise, device=y.device)
        return similarity, x, y

    def sample(self, count: int, generator: Generator, split: Split = "train") -> Instances:
        pairs = self.sample_pairs(count, generator, split)
        W = self.weights(pairs, noise=generator if split == "train" else None)
        return Instances(W.flatten(1), encode_permutation(pairs.P), pairs.P)

    @classmethod
    def variant(cls, name: str, options: Mapping[str, Any]) -> type[Problem]:
        """All ten keypoints are matched in one-hot bits, under the protocol of deep graph matching."""
        if name == "paper" or options.get("k") != KEYPOINTS:
            return cls
        from qubolearn.paper.problems.willow_matching import WillowMatching

        return WillowMatching

    @classmethod
    def preset(cls, name: str, options: Mapping[str, Any]) -> Mapping[str, Any]:
        if name == "paper":
            inputs = {"tau": 0.81, "eta": 0.98, "per_node": False}
            solver = "annealing:reads=100,sweeps=1000"
            return {**inputs, "loss": "gap", "solver": solver, "standardise": False, "epochs": 300}
        training = {"schedule": "cosine", "fresh": True, "weight_mlp": 0.0, "learning_rate": 3e-3, "beta": 8.0}
        size = {"epochs": 375, "batch_size": 256, "instances": 10_240}
        return {"rotate": 0.3, "jitter": 0.05, **training, **size}


def _turned(x: Tensor, angle: Tensor) -> Tensor:
    """Points ``[batch, k, 2]`` turned about the origin by angles ``[batch]``."""
    sin, cos = angle.sin()[:, None], angle.cos()[:, None]
    return torch.stack([cos * x[..., 0] - sin * x[..., 1], sin * x[..., 0] + cos * x[..., 1]], -1)


def split_images(
    images: WillowImages, split: Split, number: int = 0, sources: Sequence[int] = ()
) -> dict[str, list[int]]:
    """Indices of the split's images by class: of split ``number`` of the sources; of 0, by a hash of their names.

    Sources are put in random order, and where a source begins among its class's images decides where all of it goes.
    """
    low, high = SHARES[split]
    chosen = {}
    for name in sorted(set(images.classes)):
        members = [index for index, each in enumerate(images.classes) if each == name]
        if number:
            groups: dict[int, list[int]] = {}
            for index in members:
                groups.setdefault(sources[index], []).append(index)
            order = torch.randperm(len(groups), generator=stream(number, "willow", name)).tolist()
            members = [index for group in order for index in [*groups.values()][group]]
            starts = {source: [sources[index] for index in members].index(source) for source in groups}
            begins = [starts[sources[index]] / len(members) for index in members]
            chosen[name] = [index for index, begin in zip(members, begins, strict=True) if low <= begin < high]
        else:
            members.sort(key=lambda index: sha256(f"{images.classes[index]}/{images.names[index]}".encode()).digest())
            chosen[name] = members[round(low * len(members)) : round(high * len(members))]
        if len(chosen[name]) < 2:
            raise QubolearnError(f"class {name!r} has {len(members)} images, too few to pair within {split}")
    return chosen


class _Data(NamedTuple):
    images: WillowImages
    keypoints: Tensor  # [images, 10, 2], in units of the mean distance between an image's keypoints
    similarity: Tensor  # [images·10, images·10], cosines of the features of all keypoints
    splits: dict[Split, tuple[Tensor, Tensor]]  # the images class after class, and how many each class has


@cached_data(4)
def _load(folder: str, layer: str, number: int, device: str) -> _Data:
    images = read_willow(folder)
    sources = read_sources(images, folder) if number else []
    features = F.normalize(read_features(layer, images, folder).flatten(0, 1), dim=1).to(device)
    distances = torch.cdist(images.keypoints, images.keypoints).sum((1, 2)) / (KEYPOINTS * (KEYPOINTS - 1))
    splits = {}
    for split in SHARES:
        chosen = split_images(images, split, number, sources).values()
        members = torch.tensor([index for group in chosen for index in group], device=device)
        splits[split] = (members, torch.tensor([len(group) for group in chosen], device=device))
    keypoints = (images.keypoints / distances[:, None, None]).to(device)
    return _Data(images, keypoints, features @ features.T, splits)
