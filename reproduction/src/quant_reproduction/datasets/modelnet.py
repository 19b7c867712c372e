"""ModelNet10 (Wu et al., 2015): CAD models of ten object classes, as points on their surfaces.

Read from a compact ``.npz`` of sampled points, or from the original OFF meshes, whose surfaces are sampled uniformly.
"""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from quant_reproduction.datasets import fetch
from quant_reproduction.datasets.files import cached_data, data_folder, load_npz
from qubolearn.errors import QubolearnError
from qubolearn.files import write_atomic

__all__ = [
    "Mesh",
    "ModelNet",
    "download",
    "load_modelnet",
    "read_compact",
    "read_off",
    "read_original",
    "sample_surface",
]

URL = "https://3dvision.princeton.edu/projects/2014/3DShapeNets/ModelNet10.zip"
REMEDY = 'download it (450 MB): python -c "from quant_reproduction.datasets.modelnet import download; download()"'
PER_CLASS = {"train": 80, "test": 20}  # meshes of each class that are read, sorted by name
MAX_COORDINATE = 1e9  # ModelNet's largest is 170,000; squares stay finite in float32


@dataclass(frozen=True)
class ModelNet:
    """Points on the surfaces of CAD models, in each model's own units."""

    points: np.ndarray[Any, Any]  # [shapes, points, 3] float32
    names: tuple[str, ...]
    classes: tuple[str, ...]
    is_test: np.ndarray[Any, Any]  # [shapes] bool, ModelNet's own split


def load_modelnet() -> ModelNet:
    """Load the compact file in ``$QUBOLEARN_DATA/modelnet10``."""
    return _load(data_folder("modelnet10", REMEDY))


@cached_data(2)
def _load(folder: Path) -> ModelNet:
    compact = sorted(folder.glob("*.npz"))
    if not compact:
        raise QubolearnError(f"no .npz in {folder}; {REMEDY}")
    return read_compact(compact[0])


def download(url: str = URL, points: int = 1024, sha256: str | None = None) -> Path:
    """Download the original archive, sample ``points`` on each mesh and write the compact file next to it."""
    folder = fetch(url, "modelnet10", sha256)
    clouds = read_original(folder, points)
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
    compact = folder.with_name("modelnet10_points.npz")
    write_atomic(compact, packed.getvalue())
    return compact


def read_compact(path: Path) -> ModelNet:
    """Read the compact form: points ``[shapes, points, 3]`` with labels, names and ModelNet's own split."""
    text = ("U", 1)
    required = {"points": ("f", 3), "labels": ("iu", 1), "is_test": ("b", 1), "names": text, "class_names": text}
    points, labels, is_test, names, class_names = load_npz(path, required).values()
    same = len(points) == len(labels) == len(is_test) == len(names)
    if not (same and points.shape[2] == 3 and points.shape[1] >= 3):
        raise QubolearnError(f"{path}: points {points.shape} do not fit {len(names)} names and {len(labels)} labels")
    if len(labels) and not 0 <= labels.min() <= labels.max() < len(class_names):
        raise QubolearnError(f"{path}: labels from {labels.min()} to {labels.max()}, but {len(class_names)} classes")
    classes = tuple(class_names[labels].tolist())
    return ModelNet(points.astype(np.float32), tuple(names.tolist()), classes, is_test)


def read_original(path: Path, points: int = 1024, seed: int = 0) -> ModelNet:
    """Read ``CLASS/train|test/NAME.off`` below a folder and sample points from the seed.

    Only the first 80 training and 20 test meshes of each class are read.
    """
    found: list[tuple[str, str, str]] = []  # class, split, name
    clouds = []
    counts: Counter[tuple[str, str]] = Counter()
    for file in sorted(path.rglob("[!.]*.off")):
        group, split = file.parts[-3:-1]
        if "__MACOSX" in file.parts or counts[group, split] >= PER_CLASS.get(split, 0):
            continue
        counts[group, split] += 1
        rng = np.random.default_rng([seed, len(found)])
        clouds.append(sample_surface(read_off(file.read_bytes(), str(file)), points, rng))
        found.append((group, split, file.stem))
    if not found:
        raise QubolearnError(f"no CLASS/train|test/NAME.off in {path}; {REMEDY}")
    classes, splits, names = zip(*found, strict=True)
    return ModelNet(np.stack(clouds).astype(np.float32), names, classes, np.array(splits) == "test")


class Mesh(NamedTuple):
    """A surface of triangles."""

    vertices: np.ndarray[Any, Any]  # [v, 3] float64
    faces: np.ndarray[Any, Any]  # [f, 3] int64


def read_off(text: bytes, what: str = "OFF mesh") -> Mesh:
    """Parse an OFF file, including ModelNet's glued headers (``OFF490 518 0``); split polygons into triangles.

    >>> read_off(b"OFF3 1 0\\n0 0 0\\n1 0 0\\n0 1 0\\n3 0 1 2\\n").faces.tolist()
    [[0, 1, 2]]
    """
    stripped = (line.split(b"#")[0].strip() for line in text.splitlines())
    lines = [line for line in stripped if line]
    if not lines or not lines[0].startswith(b"OFF"):
        raise QubolearnError(f"{what}: expected OFF at the start")
    glued = lines[0][3:].strip()
    header, body = (glued, lines[1:]) if glued else (b"".join(lines[1:2]), lines[2:])
    try:
        vertex_count, face_count = (int(token) for token in header.split()[:2])
    except ValueError:
        raise QubolearnError(f"{what}: expected 'vertices faces edges', got {header[:40]!r}") from None
    if not (vertex_count >= 3 and face_count >= 1 and vertex_count + face_count <= len(body)):
        raise QubolearnError(f"{what}: expected {vertex_count} vertices and {face_count} faces, got {len(body)} lines")
    try:
        vertices = np.array([line.split()[:3] for line in body[:vertex_count]], dtype=np.float64)
        faces = _triangles(body[vertex_count : vertex_count + face_count])
    except (ValueError, IndexError, OverflowError) as error:
        raise QubolearnError(f"{what} has a line that is not a vertex or face: {error}") from None
    if vertices.shape != (vertex_count, 3) or not (np.abs(vertices) < MAX_COORDINATE).all():
        raise QubolearnError(f"{what}: expected vertices of three numbers below {MAX_COORDINATE:g}")
    if len(faces) == 0 or not 0 <= faces.min() <= faces.max() < vertex_count:
        raise QubolearnError(f"{what}: expected faces with vertices from 0 to {vertex_count - 1}")
    return Mesh(vertices, faces)


def _triangles(lines: list[bytes]) -> np.ndarray[Any, Any]:
    """Convert face lines ``n i₁ ... iₙ [color]`` to fans of triangles ``[f, 3]``."""
    triangles = []
    for line in lines:
        tokens = line.split()
        corners = [int(token) for token in tokens[1 : 1 + int(tokens[0])]]
        if len(corners) != int(tokens[0]):
            raise ValueError(f"{line[:40]!r} has too few corners")
        triangles += [(corners[0], second, third) for second, third in pairwise(corners[1:])]
    return np.array(triangles, dtype=np.int64).reshape(-1, 3)


def sample_surface(mesh: Mesh, count: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Sample ``count`` points uniformly from a mesh's surface: ``[count, 3]`` float64."""
    a, b, c = (mesh.vertices[mesh.faces[:, corner]] for corner in range(3))
    area = np.linalg.norm(np.cross(b - a, c - a), axis=1)
    total = area.sum()
    if not total > 0:
        raise QubolearnError(f"expected a mesh with positive area, got {total / 2:g} for {len(mesh.faces)} faces")
    face = rng.choice(len(area), size=count, p=area / total)
    u, v = rng.random((2, count, 1))
    flip = u + v > 1  # fold the far half of the parallelogram onto the triangle
    u, v = np.where(flip, 1 - u, u), np.where(flip, 1 - v, v)
    points: np.ndarray[Any, Any] = a[face] + u * (b - a)[face] + v * (c - a)[face]
    return points
