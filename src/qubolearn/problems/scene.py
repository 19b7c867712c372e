"""scene: which of six labels hold for a picture, where labels mostly exclude each other, and some go together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.problems.contract import Instances, Split
from qubolearn.problems.data import cached_data
from qubolearn.problems.pools import PoolProblem
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

    ``accuracy`` is exact match: all six bits are right. Test pictures that also stand in the training set are taken out
    of the latter. ``held_out`` pictures of the training set, always the same, are for validation.
    """

    name: ClassVar[str] = "scene"

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
        return self._data()[0].shape[1]

    @property
    def bits(self) -> int:
        return self._data()[1].shape[1]

    def _instances(self, rows: Tensor, device: torch.device) -> Instances:
        X, Y, _ = self._data()
        x = Y[rows].to(device)
        return Instances(X[rows].to(device), x, x)

    def _data(self) -> tuple[Tensor, Tensor, int]:
        """All features and labels, those of the given training set first, and how many these are."""
        return _load() if self.source == "data" else _generated()

    def _rows(self, split: Split) -> Tensor:
        X, _, trained = self._data()
        order = torch.arange(len(X))
        if self.split_seed:
            order = torch.randperm(len(X), generator=stream(self.split_seed, "scene"))
        train, test = order[:trained], order[trained:]
        if split == "test":
            return test
        known = {row.tobytes() for row in X[test].numpy()}
        train = train[torch.tensor([row.tobytes() not in known for row in X[train].numpy()])]
        if self.held_out >= len(train):
            raise QubolearnError(f"held_out={self.held_out} leaves none of {len(train)} training pictures to train on")
        train = train[torch.randperm(len(train), generator=stream(self.split_seed, "held out"))]
        return train[: self.held_out] if split == "validation" else train[self.held_out :]

    def picture(self, axis: Any, instances: Instances, answer: Tensor) -> None:
        """Write the labels of one picture on a matplotlib axis: those that hold in bold, wrong ones in red."""
        for place, name in enumerate(LABELS):
            said, true = bool(answer[0, place]), bool(instances.answer[0, place])
            colour = "black" if said and true else "red" if said != true else "0.7"
            text = name + (" (missed)" if true and not said else " (wrong)" if said and not true else "")
            axis.text(0.1, 0.9 - 0.16 * place, text, color=colour, weight="bold" if said else "normal", va="center")

    @classmethod
    def preset(cls, name: str, options: Mapping[str, Any]) -> Mapping[str, Any]:
        return _PRESETS[name]


@cached_data(1)
def _load() -> tuple[Tensor, Tensor, int]:
    parts = read_scene()
    X = np.concatenate([X for X, _ in parts.values()]).astype(np.float32)
    Y = np.concatenate([Y for _, Y in parts.values()]).astype(np.float32)
    return torch.from_numpy(X), torch.from_numpy(Y), len(parts["train"][0])


@cached_data(1)
def _generated() -> tuple[Tensor, Tensor, int]:
    """One label a picture, sometimes a second; features are noisy mixtures of what the labels look like."""
    draw = stream(0, "scene")
    first = torch.randint(len(LABELS), (GENERATED,), generator=draw)
    Y = torch.nn.functional.one_hot(first, len(LABELS)).float()
    both = torch.rand(GENERATED, generator=draw) < 0.1
    Y[both, (first[both] + 1) % len(LABELS)] = 1.0
    look = torch.randn(len(LABELS), FEATURES, generator=draw)
    X = Y @ look + 1.8 * torch.randn(GENERATED, FEATURES, generator=draw)
    return X.sigmoid(), Y, GENERATED // 2


# Chosen on held-out pictures of the given training set.
_PRESETS: Mapping[str, Mapping[str, Any]] = {
    "best": {
        "layers": 2,
        "hidden": 512,
        "dropout": 0.5,
        "topology": "dense",
        "schedule": "cosine",
        "learning_rate": 2e-3,
        "weight_mlp": 0.0,
        "epochs": 120,
        "batch_size": 100,
        "instances": 1000,
        "validation": 200,
    }
}
