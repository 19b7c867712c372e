"""scene: predict which of six labels apply to an image."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from quant_reproduction.datasets.files import cached_data
from quant_reproduction.problems import check_range
from quant_reproduction.problems.structured import Array, Pool, PoolProblem, read_scene
from qubolearn.data.contract import Instances
from qubolearn.random import stream

#: Labels of Boutell et al., in the order of the bits.
LABELS = ("beach", "sunset", "foliage", "field", "mountain", "urban")
#: Images and features of generated data.
GENERATED, FEATURES = 900, 20


@dataclass(frozen=True)
class Scene(PoolProblem):
    """Labels of images: bit i is label i, and all six must be correct."""

    name: ClassVar[str] = "scene"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {  # chosen on held-out images
        "best": {"network": "kernel", "topology": "dense", "beta": 1.0, "learning_rate": 0.2}
        | {"schedule": "cosine", "weight_mlp": 0.0, "standardize": False, "fresh": False}
        | {"epochs": 40, "batch_size": 100, "instances": 1000, "validation": 200}
    }

    source: Literal["data", "generated"] = "data"
    """The dataset in $QUBOLEARN_DATA/structured, or a small generated one."""
    split_seed: int = 0
    """0 is the given split; any other number draws one of the same sizes."""
    held_out: int = 200
    """Training images that are held out for validation."""

    def __post_init__(self) -> None:
        check_range(self, 0, math.inf, "split_seed", "held_out")

    @property
    def input_size(self) -> int:
        return self._pool().p.shape[1]

    @property
    def bits(self) -> int:
        return self._pool().answer.shape[1]

    def _instances(self, rows: Tensor, device: torch.device) -> Instances:
        pool = self._pool()
        x = pool.answer[rows].to(device)
        return Instances(pool.p[rows].to(device), x, x)

    def _pool(self) -> Pool:
        return _load() if self.source == "data" else _generated()


@cached_data(1)
def _load() -> Pool:
    parts = read_scene()
    X = describe(np.concatenate([X for X, _ in parts.values()]).astype(np.float32))
    Y = np.concatenate([Y for _, Y in parts.values()]).astype(np.float32)
    return Pool(torch.from_numpy(X), torch.from_numpy(Y), len(parts["train"][0]))


def describe(X: Array) -> Array:
    """Return sorted values ``[N, 546]``, equal for mirror images, and differences.

    X ``[N, 294]`` has mean and variance of three colors, each of 7 x 7 blocks. Differences are
    between means of neighbors.
    """
    blocks = X.reshape(-1, 6, 7, 7).copy()
    blocks[:, 1::2] **= 0.5
    changes = (abs(np.diff(blocks[:, ::2], axis=axis)) for axis in (3, 2))
    return np.concatenate([np.sort(part, 3).reshape(len(X), -1) for part in (blocks, *changes)], 1)


@cached_data(1)
def _generated() -> Pool:
    """Generate images with one or two labels; features are noisy mixtures."""
    draw = stream(0, "scene")
    first = torch.randint(len(LABELS), (GENERATED,), generator=draw)
    Y = torch.nn.functional.one_hot(first, len(LABELS)).float()
    both = torch.rand(GENERATED, generator=draw) < 0.1
    Y[both, (first[both] + 1) % len(LABELS)] = 1.0
    look = torch.randn(len(LABELS), FEATURES, generator=draw)
    X = Y @ look + 1.8 * torch.randn(GENERATED, FEATURES, generator=draw)
    return Pool(X.sigmoid(), Y, GENERATED // 2)
