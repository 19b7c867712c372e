"""Readers of the published datasets; ``manifest.json`` has their sources."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist

from quant_reproduction.datasets.files import data_root
from qubolearn.errors import QubolearnError


def fetch(url: str, dataset: str, sha256: str | None = None) -> Path:
    """Download and unpack an archive, and return its folder ``original``."""
    import pooch

    folder, name = data_root() / dataset, url.rpartition("/")[2]
    unpack = pooch.Unzip if name.endswith(".zip") else pooch.Untar
    try:
        pooch.retrieve(url, sha256, name, folder, processor=unpack(extract_dir="original"))
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise QubolearnError(f"cannot download {url}: {error}") from error
    return folder / "original"


Array = np.ndarray[Any, Any]

#: Maximum rms distance of aligned copies, relative to their radius. Of the 1226
#: labeled outlines of the 2D Shape Structure dataset, 242 are near-copies.
SAME_OUTLINE = 0.03
SAMPLES = 256  # points along an outline, evenly spaced
#: Maximum rms difference of copies' distributions of distances. In ModelNet10
#: toilet_0358, a test mesh, and toilet_0031 have 0.0003; half of all pairs over 0.03.
SAME_CLOUD = 0.002
#: Distances reach about 6; the last bin counts those over 4.
BINS, BINS_PER_UNIT = 33, 8.0


def outlines_alike(outlines: Sequence[Array]) -> Array:
    """Return which outlines, closed polygons ``[m_i, 2]`` of one orientation, are copies: ``[N, N]``.

    Points are resampled evenly as complex numbers z, centered and of rms 1. Over all rotations and
    starts k the smallest rms distance is √(2 - 2 max_k |Σ_j z_j conj(w_{j+k})| / m), a correlation
    by FFT. A mirror image is conj(w) in reverse order.
    """
    z = np.stack([_even(np.asarray(each, float)) for each in outlines])
    F, mirrored = np.fft.fft(z), np.fft.fft(np.conj(z)[:, ::-1])
    alike = np.eye(len(z), dtype=bool)
    for G in (F, mirrored):
        # Σ|F||G| bounds the correlation, and leaves few pairs
        first, second = (np.abs(F) @ np.abs(G).T / SAMPLES**2 > 1 - SAME_OUTLINE**2 / 2).nonzero()
        best = np.abs(np.fft.ifft(F[first] * np.conj(G[second]))).max(1) / SAMPLES
        alike[first, second] |= 2 - 2 * best < SAME_OUTLINE**2
    both: Array = alike | alike.T
    return both


def _even(points: Array) -> Array:
    """Return even points ``[SAMPLES]`` of a polygon ``[m, 2]``, of mean 0 and rms 1."""
    closed = np.vstack([points, points[:1]])
    along = np.concatenate([[0.0], np.linalg.norm(np.diff(closed, axis=0), axis=1).cumsum()])
    steps = np.arange(SAMPLES) * along[-1] / SAMPLES
    z = np.interp(steps, along, closed[:, 0]) + 1j * np.interp(steps, along, closed[:, 1])
    z = z - z.mean()
    size = np.sqrt((np.abs(z) ** 2).mean())
    if not size > 0:
        raise QubolearnError("all points of an outline are equal; drop that outline")
    even: Array = z / size
    return even


def turned_misfit(outline: Array) -> float:
    """Return how far an outline ``[m, 2]`` is from a rotational symmetry: 0 for a circle and a hexagon.

    This is the smallest rms distance, relative to the radius, to the outline rotated by 15, 16, ... 60 degrees.

    >>> round(turned_misfit(np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]])), 2)  # a square
    0.11
    """
    z = _even(np.asarray(outline, float))[::2]
    turns = np.exp(1j * np.deg2rad(np.arange(15, 61)))
    nearest = np.abs((turns[:, None] * z)[:, :, None] - z).min(2)
    return float(np.sqrt((nearest**2).mean(1)).min())


def clouds_alike(clouds: Array) -> Array:
    """Return which clouds ``[N, points, 3]`` have the same distances: ``[N, N]``."""
    centered = clouds.astype(np.float64) - clouds.mean(1, dtype=np.float64, keepdims=True)
    radius = np.sqrt((centered**2).sum(2).mean(1))
    if not (radius > 0).all():
        raise QubolearnError("all points of a cloud are equal; drop that cloud")
    scaled = BINS_PER_UNIT * centered / radius[:, None, None]
    bins = (pdist(cloud).astype(int).clip(max=BINS - 1) for cloud in scaled)
    counts = np.stack([np.bincount(each, minlength=BINS) for each in bins])
    F = counts.cumsum(1) / counts.sum(1, keepdims=True).clip(1)
    squared = ((F[:, None] - F[None]) ** 2).mean(2)
    alike: Array = squared < SAME_CLOUD**2
    return alike
