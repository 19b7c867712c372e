"""ModelNet10 (Wu et al., 2015): CAD models of ten object classes, as points on their surfaces.

Read from a compact ``.npz`` of sampled points, or from the original OFF meshes, on whose surfaces points are drawn
in proportion to area.
"""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from qubolearn.errors import QubolearnError
from qubolearn.files import write_atomic
from qubolearn.paper.datasets.archives import fetch, packed_files
from qubolearn.paper.datasets.off import read_off, sample_surface
from qubolearn.problems.data import cached_data, data_folder, load_npz

__all__ = ["ModelNet", "download", "load_modelnet", "read_compact", "read_original"]

URL = "https://3dvision.princeton.edu/projects/2014/3DShapeNets/ModelNet10.zip"
REMEDY = 'fetch it (450 MB): python -c "from qubolearn.paper.datasets.modelnet import download; download()"'
COMPACT = "modelnet10_points.npz"
MAX_ARCHIVE = 2**30  # bytes; the archive has 473 MB
MAX_MESH = 2**28  # bytes of one OFF file
PER_CLASS = {"train": 80, "test": 20}  # meshes of each class that are read, in order of their names


@dataclass(frozen=True)
class ModelNet:
    """Points on the surfaces of CAD models, in each model's own units."""

    points: np.ndarray[Any, Any]  # [shapes, points, 3] float32
    names: tuple[str, ...]
    classes: tuple[str, ...]
    is_test: np.ndarray[Any, Any]  # [shapes] bool, ModelNet's own split


def load_modelnet() -> ModelNet:
    """The dataset below ``$QUBOLEARN_DATA/modelnet10``: a compact file, or else ``ModelNet10.zip``."""
    return _load(data_folder("modelnet10", REMEDY))


@cached_data(2)
def _load(folder: Path) -> ModelNet:
    compact = sorted(folder.glob("*.npz"))
    if compact:
        return read_compact(compact[0])
    if (folder / "ModelNet10.zip").exists():
        return read_original(folder / "ModelNet10.zip")
    raise QubolearnError(f"neither an .npz nor ModelNet10.zip in {folder}; {REMEDY}")


def download(url: str = URL, points: int = 1024, sha256: str | None = None) -> Path:
    """Fetch the original archive, draw ``points`` on each mesh and keep both in ``$QUBOLEARN_DATA/modelnet10``."""
    archive, clouds = fetch(
        url, "modelnet10/ModelNet10.zip", MAX_ARCHIVE, lambda path: read_original(path, points), sha256
    )
    class_names, labels = np.unique(np.array(clouds.classes), return_inverse=True)
    packed = io.BytesIO()
    np.savez_compressed(
        packed,
        points=clouds.points,
        labels=labels.astype(np.int8),
        is_test=clouds.is_test,
        names=np.array(clouds.names),
        class_names=class_names,
    )
    compact = archive.with_name(COMPACT)
    write_atomic(compact, packed.getvalue())
    return compact


def read_compact(path: Path) -> ModelNet:
    """The compact form: points ``[shapes, points, 3]`` with labels, names and ModelNet's own split."""
    wanted = {
        "points": ("f", 3),
        "labels": ("iu", 1),
        "is_test": ("b", 1),
        "names": ("U", 1),
        "class_names": ("U", 1),
    }
    points, labels, is_test, names, class_names = load_npz(path, wanted).values()
    same = len(points) == len(labels) == len(is_test) == len(names)
    if not (same and points.shape[2] == 3 and points.shape[1] >= 3):
        raise QubolearnError(f"{path}: points {points.shape} do not fit {len(names)} names and {len(labels)} labels")
    if len(labels) and not 0 <= labels.min() <= labels.max() < len(class_names):
        raise QubolearnError(f"{path}: labels from {labels.min()} to {labels.max()}, but {len(class_names)} classes")
    classes = tuple(class_names[labels].tolist())
    return ModelNet(points.astype(np.float32), tuple(names.tolist()), classes, is_test)


def read_original(path: Path, points: int = 1024, seed: int = 0) -> ModelNet:
    """``ModelNet10.zip``, or the folder that it unpacks to, with ``CLASS/train|test/NAME.off``.

    The first 80 training and 20 test meshes of each class are read; points are drawn from the seed.
    """
    found: list[tuple[str, str, str]] = []  # class, split, name
    clouds = []
    counts: Counter[tuple[str, str]] = Counter()
    with packed_files(path, ".off", MAX_MESH) as files:
        for member, read in files.items():
            group, split, name = ("", "", *member.parts)[-3], ("", *member.parts)[-2], member.stem
            if not group or counts[group, split] >= PER_CLASS.get(split, 0):
                continue
            counts[group, split] += 1
            rng = np.random.default_rng([seed, len(found)])
            clouds.append(sample_surface(read_off(read(), f"{path}: {member}"), points, rng))
            found.append((group, split, name))
    if not found:
        raise QubolearnError(f"no CLASS/train|test/NAME.off in {path}; {REMEDY}")
    classes, splits, names = zip(*found, strict=True)
    return ModelNet(np.stack(clouds).astype(np.float32), names, classes, np.array(splits) == "test")
