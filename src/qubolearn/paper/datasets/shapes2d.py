"""The 2D Shape Structure dataset (Carlier et al., 2016): 1256 closed outlines of 70 classes.

Read from the compact ``shapes2d_outlines.npz``, from the original ``ShapesJSON.zip``, or from a folder of the
original ``NAME.json`` files.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from qubolearn.errors import QubolearnError
from qubolearn.paper.datasets.archives import fetch, packed_files
from qubolearn.problems.data import cached_data, data_folder, load_npz

__all__ = ["Outlines", "download", "load_outlines", "read_compact", "read_original"]

URL = "https://2dshapesstructure.github.io/data/ShapesJSON.zip"
REMEDY = 'fetch it: python -c "from qubolearn.paper.datasets.shapes2d import download; download()"'
COMPACT, ARCHIVE = "shapes2d_outlines.npz", "ShapesJSON.zip"
MAX_ARCHIVE = 50 * 2**20  # bytes; the archive has 1.8 MB
MAX_JSON = 2**20  # bytes of one shape; they have about 10 kB
MAX_COORDINATE = 1e6  # areas stay finite in float32
#: Three shapes whose file names do not say their class.
NAMED_OTHERWISE = {"image3a": "artificial", "image3b": "artificial", "image4": "artificial"}


@dataclass(frozen=True)
class Outlines:
    """Closed polygons, clockwise where the y axis points up, without repeated points."""

    points: tuple[np.ndarray[Any, Any], ...]  # [m_i, 2] float32 each
    names: tuple[str, ...]
    classes: tuple[str, ...]  # "unlabelled" where the dataset names no class


def load_outlines() -> Outlines:
    """The dataset below ``$QUBOLEARN_DATA/shapes2d``, in whichever form lies there."""
    return _load(data_folder("shapes2d", REMEDY))


@cached_data(2)
def _load(folder: Path) -> Outlines:
    if (folder / COMPACT).exists():
        return read_compact(folder / COMPACT)
    return read_original(folder / ARCHIVE if (folder / ARCHIVE).exists() else folder)


def download(url: str = URL, sha256: str | None = None) -> Path:
    """Fetch the original archive into ``$QUBOLEARN_DATA/shapes2d`` and check that all its shapes can be read."""
    return fetch(url, f"shapes2d/{ARCHIVE}", MAX_ARCHIVE, read_original, sha256)[0]


def read_compact(path: Path) -> Outlines:
    """The compact form: all outlines in one array, cut at ``offsets``."""
    wanted = {"points": ("f", 2), "offsets": ("iu", 1), "names": ("U", 1), "classes": ("U", 1)}
    points, offsets, names, classes = load_npz(path, wanted).values()
    cuts = offsets.astype(np.int64)
    right = len(cuts) == len(names) + 1 == len(classes) + 1 and points.shape[1] == 2
    if not (right and cuts[0] == 0 and cuts[-1] == len(points) and (np.diff(cuts) >= 3).all()):
        raise QubolearnError(f"{path}: offsets do not cut points into {len(names)} outlines of at least 3 points")
    outlines = np.split(points.astype(np.float32), cuts[1:-1])
    return Outlines(tuple(outlines), tuple(names.tolist()), tuple(classes.tolist()))


def read_original(path: Path) -> Outlines:
    """The original files: ``ShapesJSON.zip`` or a folder with ``NAME.json``, in order of their names."""
    with packed_files(path, ".json", MAX_JSON) as files:
        shapes = {name.stem: _outline(read(), f"{path}: {name.name}") for name, read in files.items()}
    if not shapes:
        raise QubolearnError(f"no shapes in {path}; want {COMPACT}, {ARCHIVE} or NAME.json files, or {REMEDY}")
    names = sorted(shapes)
    return Outlines(tuple(shapes[name] for name in names), tuple(names), tuple(map(_class_of, names)))


def _outline(text: bytes, what: str) -> np.ndarray[Any, Any]:
    """``{"points": [{"x": ..., "y": ...}, ...], ...}`` -> ``[m, 2]``; triangulations are left unread."""
    try:
        points = np.array([[float(point["x"]), float(point["y"])] for point in json.loads(text)["points"]])
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
        raise QubolearnError(f'{what} is not {{"points": [{{"x": 0.1, "y": 0.2}}, ...]}}') from error
    if len(points) < 3 or not (np.abs(points) < MAX_COORDINATE).all():
        raise QubolearnError(f"{what} has {len(points)} points; want at least 3, coordinates below {MAX_COORDINATE:g}")
    points = points[(points != np.roll(points, 1, axis=0)).any(1)]  # repeats, and the end that is the start again
    if len(points) < 3:
        raise QubolearnError(f"{what} has {len(points)} different points; want at least 3")
    x, y = points.T
    signed_area = x @ np.roll(y, -1) - y @ np.roll(x, -1)
    clockwise: np.ndarray[Any, Any] = points[::-1] if signed_area > 0 else points
    return clockwise.astype(np.float32)


def _class_of(name: str) -> str:
    """``cellular_phone-12`` -> ``cellular phone``."""
    numbered = re.fullmatch(r"(.+)-\d+", name)
    return numbered[1].replace("_", " ") if numbered else NAMED_OTHERWISE.get(name, "unlabelled")
