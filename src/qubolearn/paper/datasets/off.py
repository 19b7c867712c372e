"""OFF meshes, and points on their surfaces."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from qubolearn.errors import QubolearnError

__all__ = ["Mesh", "read_off", "sample_surface"]

MAX_COORDINATE = 1e9  # ModelNet's largest is 170,000; squares stay finite in float32


class Mesh(NamedTuple):
    """A surface of triangles."""

    vertices: np.ndarray[Any, Any]  # [v, 3] float64
    faces: np.ndarray[Any, Any]  # [f, 3] int64


def read_off(text: bytes, what: str = "OFF mesh") -> Mesh:
    """An OFF file, ModelNet's glued headers (``OFF490 518 0``) included; polygons are cut into triangles.

    >>> read_off(b"OFF3 1 0\\n0 0 0\\n1 0 0\\n0 1 0\\n3 0 1 2\\n").faces.tolist()
    [[0, 1, 2]]
    """
    stripped = (line.split(b"#")[0].strip() for line in text.splitlines())
    lines = [line for line in stripped if line]
    if not lines or not lines[0].startswith(b"OFF"):
        raise QubolearnError(f"{what} does not begin with OFF")
    glued = lines[0][3:].strip()
    header, body = (glued, lines[1:]) if glued else (b"".join(lines[1:2]), lines[2:])
    try:
        vertex_count, face_count = (int(token) for token in header.split()[:2])
    except ValueError:
        raise QubolearnError(f"{what}: {header[:40]!r} is not 'vertices faces edges'") from None
    if not (vertex_count >= 3 and face_count >= 1 and vertex_count + face_count <= len(body)):
        raise QubolearnError(f"{what} says {vertex_count} vertices and {face_count} faces, but has {len(body)} lines")
    try:
        vertices = np.array([line.split()[:3] for line in body[:vertex_count]], dtype=np.float64)
        faces = _triangles(body[vertex_count : vertex_count + face_count])
    except (ValueError, IndexError, OverflowError) as error:
        raise QubolearnError(f"{what} has a line that is no vertex or face: {error}") from None
    if vertices.shape != (vertex_count, 3) or not (np.abs(vertices) < MAX_COORDINATE).all():
        raise QubolearnError(f"{what} has vertices that are not three numbers below {MAX_COORDINATE:g}")
    if len(faces) == 0 or not 0 <= faces.min() <= faces.max() < vertex_count:
        raise QubolearnError(f"{what} has faces of vertices outside of 0 ... {vertex_count - 1}, or none at all")
    return Mesh(vertices, faces)


def _triangles(lines: list[bytes]) -> np.ndarray[Any, Any]:
    """Face lines ``n i₁ ... iₙ [colour]`` -> fans of triangles ``[f, 3]``."""
    triangles = []
    for line in lines:
        tokens = line.split()
        corners = [int(token) for token in tokens[1 : 1 + int(tokens[0])]]
        if len(corners) != int(tokens[0]):
            raise ValueError(f"{line[:40]!r} has fewer corners than it says")
        triangles += [(corners[0], second, third) for second, third in pairwise(corners[1:])]
    return np.array(triangles, dtype=np.int64).reshape(-1, 3)


def sample_surface(mesh: Mesh, count: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """``count`` points drawn uniformly from a mesh's surface, ``[count, 3]`` float64."""
    a, b, c = (mesh.vertices[mesh.faces[:, corner]] for corner in range(3))
    area = np.linalg.norm(np.cross(b - a, c - a), axis=1)
    total = area.sum()
    if not total > 0:
        raise QubolearnError(f"a mesh of {len(mesh.faces)} faces has area {total / 2:g}; want a surface")
    face = rng.choice(len(area), size=count, p=area / total)
    u, v = rng.random((2, count, 1))
    flip = u + v > 1  # the far half of the parallelogram, folded back onto the triangle
    u, v = np.where(flip, 1 - u, u), np.where(flip, 1 - v, v)
    points: np.ndarray[Any, Any] = a[face] + u * (b - a)[face] + v * (c - a)[face]
    return points
