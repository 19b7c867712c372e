"""Match all ten keypoints of two Willow images, under the protocol of deep graph matching.

Bit ``i * k + a`` of k² bits is 1 if keypoint i of the first image is keypoint a of the second.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Generator, Tensor

from quant_reproduction.datasets import willow as dataset
from quant_reproduction.datasets.files import cached_data, data_folder
from quant_reproduction.datasets.willow import CLASSES, KEYPOINTS, VGG_LAYERS
from quant_reproduction.problems import check_range
from quant_reproduction.problems.willow import draw_two, turned
from qubolearn.data.contract import Instances, Problem, Split
from qubolearn.data.encodings import assignments
from qubolearn.errors import QubolearnError
from qubolearn.qubo import Groups, Qubo, as_dense
from qubolearn.solvers.contract import SearchResult, Solution, Solver, solve
from qubolearn.solvers.tempering import ParallelTempering

FEATURES = 512 * len(VGG_LAYERS)


class KeypointPair(NamedTuple):
    """Keypoints of two images, each in its own order."""

    features: Tensor  # [batch, 2, k, m]
    points: Tensor  # [batch, 2, k, 2]

    def flat(self) -> Tensor:
        """Return both in one tensor ``[batch, 2 * k * (m + 2)]``."""
        return torch.cat([self.features, self.points], -1).flatten(1)

    @classmethod
    def from_flat(cls, p: Tensor, features: int) -> KeypointPair:
        """Return the pair that :meth:`flat` made, with m = ``features``."""
        if p.ndim != 2 or p.shape[1] % (2 * (features + 2)):
            raise QubolearnError(f"expected p [batch, 2 k ({features} + 2)], got {list(p.shape)}")
        parts = p.reshape(len(p), 2, -1, features + 2)
        return cls(parts[..., :features], parts[..., features:])


@dataclass(frozen=True)
class WillowMatching(Problem):
    """Match the ten keypoints of two images of one class.

    p is a :class:`KeypointPair`: frozen VGG16 features and positions. Copies of one image are on one
    side. Classes take turns, so that 500 instances are 100 of each class.
    """

    name: ClassVar[str] = "willow-matching"
    # Chosen on splits that are not reported; see `quant reproduce search-willow10`.
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "best": {"network": "keypoints", "hidden": 128, "loss": "group-pseudo", "beta": 1.0, "masking": 1.0}
        | {"learning_rate": 2e-3, "epochs": 200, "instances": 300, "batch_size": 30, "dropout": 0.8}
    }

    k: int = KEYPOINTS
    """Keypoints of each image: all ten."""
    images: int = 20
    """Training images of each class."""
    validation_images: int = 0
    """Training images of each class that are held out for validation."""
    split_seed: int = 0
    """Number of the random split."""
    rotate: float = 0.2
    """Training only: rotate each image by an angle of this standard deviation, in radians."""
    stretch: float = 0.1
    """Training only: standard deviation of the logarithm of the scale along each axis."""
    jitter: float = 0.05
    """Training only: noise on keypoints, in units of an image's mean distance between keypoints."""

    def __post_init__(self) -> None:
        if self.k != KEYPOINTS:
            raise QubolearnError(f"expected k={KEYPOINTS}, got {self.k}; the problem willow matches fewer")
        check_range(self, 0, self.images - 2, "validation_images")
        check_range(self, 0, 10, "rotate", "stretch", "jitter")

    @property
    def input_size(self) -> int:
        return 2 * KEYPOINTS * (FEATURES + 2)

    @property
    def bits(self) -> int:
        return KEYPOINTS**2

    @property
    def features(self) -> int:
        """Features of a keypoint, for the network ``keypoints``."""
        return FEATURES

    @cached_property
    def groups(self) -> Groups:
        return Groups.consecutive(KEYPOINTS, KEYPOINTS)  # the row of each keypoint

    def default_solver(self) -> Assignment:
        return Assignment(ParallelTempering(sweeps=300, seed=0))

    def available(self, split: Split) -> int | None:
        return 0 if split == "validation" and not self.validation_images else None

    def members(self, split: Split) -> dict[str, list[int]]:
        """Return the images of a split by class, as rows of the dataset."""
        data = _load(str(data_folder("willow")), "cpu")
        trained, tested = dataset.draw_split(data.classes, data.sources, self.images, self.split_seed)
        chosen = {}
        for name in CLASSES:
            known = [image for image in trained if data.classes[image] == name]
            chosen[name] = {
                "train": known[self.validation_images :],
                "validation": known[: self.validation_images],
                "test": [image for image in tested if data.classes[image] == name],
            }[split]
            if len(chosen[name]) < 2:
                raise QubolearnError(f"expected at least 2 {split} images of {name}, got {len(chosen[name])}")
        return chosen

    def sample(self, count: int, generator: Generator, split: Split = "train") -> Instances:
        device = generator.device
        data = _load(str(data_folder("willow")), str(device))
        members = list(self.members(split).values())
        sizes = torch.tensor([len(images) for images in members], device=device)
        rows = [torch.tensor(images, device=device) for images in members]
        table = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        kind = torch.arange(count, device=device) % len(members)
        first, second = draw_two(sizes[kind], generator)
        image = torch.stack([table[kind, first], table[kind, second]], 1)[:, :, None]  # [count, 2, 1]
        order = torch.rand(count, 2, KEYPOINTS, generator=generator, device=device).argsort(2)
        points = data.points[image, order]
        if split == "train":
            points = self._distorted(points, generator)
        P = order[:, 1].argsort(1).gather(1, order[:, 0])  # place in the second image
        return Instances(KeypointPair(data.features[image, order], points).flat(), encode_matching(P), P)

    def _distorted(self, points: Tensor, generator: Generator) -> Tensor:

        def noise(*shape: int) -> Tensor:
            return torch.randn(*points.shape[:2], *shape, generator=generator, device=points.device)

        points = turned(points * (self.stretch * noise(1, 2)).exp(), self.rotate * noise(1))
        return points + self.jitter * noise(KEYPOINTS, 2)

    def decode(self, x: Tensor) -> Tensor:
        return decode_matching(x)

    def project(self, x: Tensor, p: Tensor) -> Tensor:
        return nearest_matching(x)

    def score(self, answer: Tensor, instances: Instances) -> dict[str, Tensor]:
        """Return ``accuracy`` over keypoints, and ``all_right``."""
        right = (answer == instances.answer).float()
        return {"accuracy": right.mean(1), "all_right": right.amin(1)}


def encode_matching(P: Tensor) -> Tensor:
    """Convert permutations ``[batch, k]`` to bits ``[batch, k²]``, float32."""
    return torch.nn.functional.one_hot(P, P.shape[1]).flatten(1).float()


def decode_matching(x: Tensor) -> Tensor:
    """Convert bits ``[batch, k²]`` to ``[batch, k]``; -1 unless a row has one 1."""
    rows = _rows(x)
    return torch.where(rows.sum(2) == 1, rows.argmax(2), -1)


def nearest_matching(x: Tensor) -> Tensor:
    """Return the nearest permutation's bits ``[batch, k²]`` (Hungarian algorithm)."""
    return encode_matching(assignments(-_rows(x))).to(x.device, x.dtype)


def _rows(x: Tensor) -> Tensor:
    k = math.isqrt(x.shape[-1])
    if x.ndim != 2 or k * k != x.shape[1]:
        raise QubolearnError(f"expected x [batch, k²], got {list(x.shape)}")
    return x.reshape(-1, k, k)


class _Data(NamedTuple):
    classes: tuple[str, ...]
    sources: tuple[int, ...]
    features: Tensor  # [images, 10, 1024]
    points: Tensor  # [images, 10, 2], centered, of mean distance 1


@cached_data(4)
def _load(folder: str, device: str) -> _Data:
    images = dataset.read_willow(folder)
    features, sources = dataset.read_vgg_features(images, folder), dataset.read_sources(images, folder)
    points = images.keypoints - images.keypoints.mean(1, keepdim=True)
    distance = torch.cdist(points, points).sum((1, 2), keepdim=True) / (KEYPOINTS * (KEYPOINTS - 1))
    return _Data(images.classes, tuple(sources), features.to(device), (points / distance).to(device))


#: The shares of the bound that are tried.
SHARES = (0.25, 0.5, 1.0)
#: By how much a weight exceeds the bound, as a share of it, and at least.
MARGIN, MIN_MARGIN = 0.01, 1e-3


@dataclass(frozen=True)
class Assignment:
    """A solver whose answer is a permutation: bit ``i * k + a`` is 1 if i is matched with a.

    The bits of each i are a one-hot group, and two ones in a column cost a weight.
    :func:`column_weights` bounds the weight above which the lowest state is a permutation, but the
    ridges are as high. So a quarter of it is tried first: a permutation it leads to is the lowest.
    """

    solver: Solver

    def __call__(self, A: Qubo, count: int = 1) -> Solution:
        dense = as_dense(A.detach())
        k = math.isqrt(dense.shape[-1])
        if k * k != dense.shape[-1]:
            raise QubolearnError(f"a matching of k things has k² bits, but the QUBO has n={dense.shape[-1]}")
        weights = column_weights(dense)
        found = self._solve(dense, SHARES[0] * weights, count)
        states, lowest = found.states, found.energies
        for share in SHARES[1:]:
            wrong = (states[:, 0].reshape(-1, k, k).sum(1) != 1).any(1).nonzero()[:, 0]
            if not len(wrong):
                break
            again = self._solve(dense[wrong], share * weights[wrong], count)
            states = states.index_copy(0, wrong, again.states)
            lowest = lowest.index_copy(0, wrong, again.energies)
        return Solution(states, lowest, {"source": found.info.get("source", "unknown")})

    def search_groups(self, A: Tensor, count: int, groups: Groups) -> SearchResult:
        """Solve with the rows as groups; other groups raise."""
        k = math.isqrt(A.shape[-1])
        if groups != Groups.consecutive(k, k):
            raise QubolearnError(f"Assignment solves with the k rows of k² bits as groups, not with {groups}")
        found = self(A, count)
        return SearchResult(found.states, found.info)

    def _solve(self, A: Tensor, weights: Tensor, count: int) -> Solution:
        """Solve A with weights ``[batch]`` on pairs of ones in a column."""
        k = math.isqrt(A.shape[-1])
        column = torch.arange(k * k, device=A.device) % k
        pairs = (column[:, None] == column).to(A.dtype).fill_diagonal_(0)
        guarded = A + 0.5 * weights[:, None, None] * pairs
        return solve(guarded, self.solver, count, groups=Groups.consecutive(k, k))

    def with_seed(self, seed: int) -> Assignment:
        """Return a copy with this seed, if the solver takes one."""
        with_seed: Any = getattr(self.solver, "with_seed", None)
        return self if with_seed is None else replace(self, solver=with_seed(seed))


def column_weights(A: Tensor) -> Tensor:
    """Return the cost ``[batch]`` of two ones in a column that makes every lowest state a permutation.

    If a column holds two ones, another is empty, and moving one there takes away at least one pair.
    The move changes the energy by no more than max_a high_ia - min_a low_ia, where high and low
    bound what bit ia adds to the energy over all states with one 1 in each of the other rows.
    """
    batch, n, _ = A.shape
    k = math.isqrt(n)
    both = (A + A.mT).reshape(batch, n, k, k)  # bit ia against every row j
    bit = torch.arange(n, device=A.device)
    own = bit // k == bit[:k, None]  # [row j, bit ia]
    linear = A.diagonal(dim1=1, dim2=2)
    high = linear + both.amax(3).masked_fill(own.T, 0.0).sum(2)
    low = linear + both.amin(3).masked_fill(own.T, 0.0).sum(2)
    span = (high.reshape(batch, k, k).amax(2) - low.reshape(batch, k, k).amin(2)).amax(1)
    return span * (1 + MARGIN) + MIN_MARGIN
