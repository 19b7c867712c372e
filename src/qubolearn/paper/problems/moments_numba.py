"""Nearest neighbours in small planar clouds, summed up on the fly. Imported on first use: numba compiles."""

# mypy: disable-error-code="untyped-decorator"

from __future__ import annotations

from typing import Any

import numpy as np

from qubolearn.solvers.contract import compiled

__all__ = ["neighbour_sums"]


@compiled(error_model="numpy")
def neighbour_sums(
    y: np.ndarray[Any, Any],
    x: np.ndarray[Any, Any],
    y_counts: np.ndarray[Any, Any],
    x_counts: np.ndarray[Any, Any],
    k: int,
    out: np.ndarray[Any, Any],
) -> None:
    """Means over the pairs of each y with its k nearest x: |x|², |y|², x·y, y×x, x (2), y (2) into out ``[batch, 8]``.

    y, x ``[batch, 2, points]`` float32, of which the first ``counts`` points are real. The neighbours of one point
    bound the distances of the next one, which lies close by on an outline: what remains below the bound is a handful.
    """
    near = np.zeros(k, np.int64)
    nearest = np.zeros(k, np.float32)
    distance = np.zeros(x.shape[2], np.float32)
    candidates = np.zeros(x.shape[2] + 1, np.int64)
    for b in range(y.shape[0]):
        x0, x1 = x[b, 0], x[b, 1]
        total = np.zeros(8)
        for i in range(k):
            near[i] = i
        for j in range(y_counts[b]):
            y0, y1 = y[b, 0, j], y[b, 1, j]
            for i in range(x_counts[b]):
                distance[i] = (x0[i] - y0) * (x0[i] - y0) + (x1[i] - y1) * (x1[i] - y1)
            bound = np.float32(0.0)
            for i in range(k):
                bound = max(bound, distance[near[i]])
            found = 0
            for i in range(x_counts[b]):  # without a branch, which would be mispredicted
                candidates[found] = i
                found += distance[i] <= bound
            nearest[:] = np.inf
            for c in range(found):
                i = candidates[c]
                if distance[i] < nearest[k - 1]:
                    place = k - 1
                    while place > 0 and distance[i] < nearest[place - 1]:
                        nearest[place], near[place] = nearest[place - 1], near[place - 1]
                        place -= 1
                    nearest[place], near[place] = distance[i], i
            for i in range(k):
                u, v = x0[near[i]], x1[near[i]]
                total[0] += u * u + v * v
                total[2] += u * y0 + v * y1
                total[3] += v * y0 - u * y1
                total[4] += u
                total[5] += v
            total[1] += k * (y0 * y0 + y1 * y1)
            total[6] += k * y0
            total[7] += k * y1
        out[b] = total / (k * y_counts[b])
