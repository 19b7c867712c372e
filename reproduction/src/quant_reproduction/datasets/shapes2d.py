"""The 2D Shape Structure dataset (Carlier et al., 2016): 1256 closed outlines of 70 classes.

Read from the compact ``shapes2d_outlines.npz``, or from the original ``NAME.json`` files.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from quant_reproduction.datasets import fetch
from quant_reproduction.datasets.files import cached_data, data_folder, load_npz, note_file
from qubolearn.errors import QubolearnError

URL = "https://2dshapesstructure.github.io/data/ShapesJSON.zip"
REMEDY = 'download it: python -c "from quant_reproduction.datasets.shapes2d import download; download()"'
COMPACT = "shapes2d_outlines.npz"
MAX_COORDINATE = 1e6  # areas stay finite in float32
NO_CLASS = "unlabelled"  # as stored
#: Three shapes whose file names do not contain their class.
OTHER_CLASSES = {"image3a": "artificial", "image3b": "artificial", "image4": "artificial"}


@dataclass(frozen=True)
class Outlines:
    """Closed polygons, clockwise if the y axis points up."""

    points: tuple[np.ndarray[Any, Any], ...]  # [m_i, 2] float32 each
    names: tuple[str, ...]
    classes: tuple[str, ...]  # NO_CLASS if the dataset has none for it


@cached_data(2)
def load_outlines() -> Outlines:
    """Load the dataset from ``$QUBOLEARN_DATA/shapes2d``."""
    folder = data_folder("shapes2d", REMEDY)
    compact = folder / COMPACT
    return read_compact(compact) if compact.exists() else read_original(folder)


def download(url: str = URL, sha256: str | None = None) -> Path:
    """Download the original archive and check that it can be read."""
    folder = fetch(url, "shapes2d", sha256)
    read_original(folder)
    return folder


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


def read_original(path: Path) -> Outlines:
    """Read the files ``NAME.json`` below a folder, sorted by name."""
    files = {file.stem: file for file in path.rglob("[!.]*.json") if "__MACOSX" not in file.parts}
    if not files:
        raise QubolearnError(f"no {COMPACT} or NAME.json files in {path}; {REMEDY}")
    note_file(path)
    shapes = {name: _outline(file.read_bytes(), str(file)) for name, file in files.items()}
    names = sorted(shapes)
    return Outlines(tuple(shapes[name] for name in names), tuple(names), tuple(map(_class_of, names)))


def _outline(text: bytes, what: str) -> np.ndarray[Any, Any]:
    """Convert ``{"points": [{"x": ..., "y": ...}, ...], ...}`` to ``[m, 2]``."""
    try:
        points = np.array([[float(point["x"]), float(point["y"])] for point in json.loads(text)["points"]])
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
        raise QubolearnError(f'{what}: expected {{"points": [{{"x": 0.1, "y": 0.2}}, ...]}}') from error
    if len(points) < 3 or not (np.abs(points) < MAX_COORDINATE).all():
        raise QubolearnError(f"{what}: expected 3 or more points below {MAX_COORDINATE:g}, got {len(points)}")
    points = points[(points != np.roll(points, 1, axis=0)).any(1)]  # no repeats
    if len(points) < 3:
        raise QubolearnError(f"{what}: expected 3 or more distinct points, got {len(points)}")
    x, y = points.T
    signed_area = x @ np.roll(y, -1) - y @ np.roll(x, -1)
    clockwise: np.ndarray[Any, Any] = points[::-1] if signed_area > 0 else points
    return clockwise.astype(np.float32)


def _class_of(name: str) -> str:
    """Return "cellular phone" for ``cellular_phone-12``."""
    numbered = re.fullmatch(r"(.+)-\d+", name)
    return numbered[1].replace("_", " ") if numbered else OTHER_CLASSES.get(name, NO_CLASS)
