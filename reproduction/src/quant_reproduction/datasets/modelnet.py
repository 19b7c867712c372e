"""ModelNet10 (Wu et al., 2015): points on CAD models of ten classes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from quant_reproduction.datasets.files import cached_data, data_folder, load_npz
from qubolearn.errors import QubolearnError

COMPACT = "modelnet10_subset1000_1024pts.npz"
REMEDY = "docs/data.md has its source"


@dataclass(frozen=True)
class ModelNet:
    """Points on the surfaces of CAD models, in each model's own units."""

    points: np.ndarray[Any, Any]  # [shapes, points, 3] float32
    names: tuple[str, ...]
    classes: tuple[str, ...]
    is_test: np.ndarray[Any, Any]  # [shapes] bool, ModelNet's own split


@cached_data(2)
def load_modelnet() -> ModelNet:
    """Load the compact file in ``$QUBOLEARN_DATA/modelnet10``."""
    return read_compact(data_folder("modelnet10", REMEDY) / COMPACT)


def read_compact(path: Path) -> ModelNet:
    """Read points ``[shapes, points, 3]``, labels, names and ModelNet's split."""
    required = {"points": ("f", 3), "labels": ("iu", 1), "is_test": ("b", 1)}
    required |= {"names": ("U", 1), "class_names": ("U", 1)}
    points, labels, is_test, names, class_names = load_npz(path, required).values()
    same = len(points) == len(labels) == len(is_test) == len(names)
    if not (same and points.shape[2] == 3 and points.shape[1] >= 3):
        sizes = f"{len(names)} names and {len(labels)} labels"
        raise QubolearnError(f"{path}: points {points.shape} do not fit {sizes}")
    if len(labels) and not 0 <= labels.min() <= labels.max() < len(class_names):
        found = f"labels from {labels.min()} to {labels.max()}"
        raise QubolearnError(f"{path}: {found}, but {len(class_names)} classes")
    classes = tuple(class_names[labels].tolist())
    return ModelNet(points.astype(np.float32), tuple(names.tolist()), classes, is_test)
