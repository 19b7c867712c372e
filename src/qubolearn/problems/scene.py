"""scene: which of six labels hold for a picture, where labels mostly exclude each other, and some go together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.problems.contract import Instances
from qubolearn.problems.data import cached_data
from qubolearn.problems.pools import Pool, PoolProblem
from qubolearn.problems.structured import read_scene
from qubolearn.randomness import stream

__all__ = ["LABELS", "Scene"]

#: As in Boutell et al., in the order of the bits.
LABELS = ("beach", "sunset", "foliage", "field", "mountain", "urban")
#: Pictures and features where data is generated.
GENERATED, FEATURES = 900, 20


@dataclass(frozen=True)
class Scene(PoolProblem):
    """Labels of pictures: p are features ``[294]``, spatial colour moments, bit i says whether label i holds.

    ``accuracy`` is exact match: all six bits are right. Splits are those of
    :class:`qubolearn.problems.pools.PoolProblem`.
    """

    name: ClassVar[str] = "scene"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {  # chosen on held-out pictures of the given training set
        "best": {"layers": 2, "hidden": 512, "dropout": 0.5, "learning_rate": 2e-3, "fresh": False}
        | {"epochs": 120, "batch_size": 100, "instances": 1000, "validation": 200}
    }

    source: Literal["data", "generated"] = "data"
    """The dataset in $QUBOLEARN_DATA/structured, or a small one of the same kind that needs no files."""
    split_seed: int = 0
    """0 is the given split into training and test set; any other number draws one of the same sizes."""
    held_out: int = 200
    """Pictures of the training set that are kept for validation."""

    def __post_init__(self) -> None:
        if self.split_seed < 0 or self.held_out < 0:
            raise QubolearnError(f"split_seed={self.split_seed}, held_out={self.held_out}; want both at least 0")

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

    def picture(self, axis: Any, instances: Instances, answer: Tensor) -> None:
        """Write the labels of one picture on a matplotlib axis: those that hold in bold, wrong ones in red."""
        for place, name in enumerate(LABELS):
            said, true = bool(answer[0, place]), bool(instances.answer[0, place])
            colour = "black" if said and true else "red" if said != true else "0.7"
            text = name + (" (missed)" if true and not said else " (wrong)" if said and not true else "")
            axis.text(0.1, 0.9 - 0.16 * place, text, color=colour, weight="bold" if said else "normal", va="center")


@cached_data(1)
def _load() -> Pool:
    parts = read_scene()
    X = np.concatenate([X for X, _ in parts.values()]).astype(np.float32)
    Y = np.concatenate([Y for _, Y in parts.values()]).astype(np.float32)
    return Pool(torch.from_numpy(X), torch.from_numpy(Y), len(parts["train"][0]))


@cached_data(1)
def _generated() -> Pool:
    """One label a picture, sometimes a second; features are noisy mixtures of what the labels look like."""
    draw = stream(0, "scene")
    first = torch.randint(len(LABELS), (GENERATED,), generator=draw)
    Y = torch.nn.functional.one_hot(first, len(LABELS)).float()
    both = torch.rand(GENERATED, generator=draw) < 0.1
    Y[both, (first[both] + 1) % len(LABELS)] = 1.0
    look = torch.randn(len(LABELS), FEATURES, generator=draw)
    X = Y @ look + 1.8 * torch.randn(GENERATED, FEATURES, generator=draw)
    return Pool(X.sigmoid(), Y, GENERATED // 2)
