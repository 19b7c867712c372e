"""Distances within clouds, counted. Imported on first use: numba compiles."""

# mypy: disable-error-code="untyped-decorator"

from __future__ import annotations

from typing import Any

import numpy as np

from qubolearn.solvers.contract import compiled

__all__ = ["count_distances"]


@compiled(error_model="numpy")
def count_distances(clouds: np.ndarray[Any, Any], per_unit: float, counts: np.ndarray[Any, Any]) -> None:
    """Distances between points of each cloud ``[N, points, 3]`` into bins of 1 / per_unit: counts ``[N, bins]``."""
    last = counts.shape[1] - 1
    for c in range(len(clouds)):
        for i in range(clouds.shape[1]):
            for j in range(i):
                dx = clouds[c, i, 0] - clouds[c, j, 0]
                dy = clouds[c, i, 1] - clouds[c, j, 1]
                dz = clouds[c, i, 2] - clouds[c, j, 2]
                counts[c, min(last, int(np.sqrt(dx * dx + dy * dy + dz * dz) * per_unit))] += 1
