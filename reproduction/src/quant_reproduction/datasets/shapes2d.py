"""The 2D Shape Structure dataset (Carlier et al., 2016): 1256 closed outlines of 70 classes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from quant_reproduction.datasets.files import cached_data, data_folder, load_npz
from qubolearn.errors import QubolearnError

REMEDY = "docs/data.md has its source"
NO_CLASS = "unlabelled"  # as stored


@dataclass(frozen=True)
class Outlines:
    """Closed polygons, clockwise if the y axis points up."""

    points: tuple[np.ndarray[Any, Any], ...]  # [m_i, 2] float32 each
    names: tuple[str, ...]
    classes: tuple[str, ...]  # NO_CLASS if the dataset has none for it


@cached_data(2)
def load_outlines() -> Outlines:
    """Load the compact file in ``$QUBOLEARN_DATA/shapes2d``."""
    return read_compact(data_folder("shapes2d", REMEDY) / "shapes2d_outlines.npz")


def read_compact(path: Path) -> Outlines:
    """Read all outlines from one array, split at ``offsets``."""
    required = {"points": ("f", 2), "offsets": ("iu", 1), "names": ("U", 1), "classes": ("U", 1)}
    points, offsets, names, classes = load_npz(path, required).values()
    cuts = offsets.astype(np.int64)
    right = len(cuts) == len(names) + 1 == len(classes) + 1 and points.shape[1] == 2
    if not (right and cuts[0] == 0 and cuts[-1] == len(points) and (np.diff(cuts) >= 3).all()):
        raise QubolearnError(f"{path}: offsets do not split points into {len(names)} outlines of 3 or more")
    outlines = np.split(points.astype(np.float32), cuts[1:-1])
    return Outlines(tuple(outlines), tuple(names.tolist()), tuple(classes.tolist()))
