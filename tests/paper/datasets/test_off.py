"""OFF meshes and uniform points on their surfaces."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qubolearn.errors import QubolearnError
from qubolearn.paper.datasets.off import Mesh, read_off, sample_surface

CORNERS = [(x, y, z) for x in (0, 1) for y in (0, 1) for z in (0, 1)]
QUADS = ["4 0 1 3 2", "4 4 5 7 6", "4 0 1 5 4", "4 2 3 7 6", "4 0 2 6 4", "4 1 3 7 5"]
CUBE = "\n".join(["OFF", "8 6 0", *(f"{x} {y} {z}" for x, y, z in CORNERS), *QUADS, ""]).encode()


@pytest.mark.parametrize(
    "text",
    [
        CUBE,
        CUBE.replace(b"OFF\n", b"OFF"),
        CUBE.replace(b"\n", b"\r\n"),
        CUBE.replace(b"OFF\n", b"OFF # a cube\n\n# of side 1\n"),
        CUBE.replace(b"4 0 1 3 2", b"4 0 1 3 2 255 0 0"),
    ],
)
def test_spellings_of_one_mesh(text: bytes) -> None:
    mesh = read_off(text)
    assert mesh.vertices.tolist() == [list(map(float, corner)) for corner in CORNERS]
    assert mesh.faces.shape == (12, 3)
    area = np.linalg.norm(
        np.cross(*(mesh.vertices[mesh.faces[:, i]] - mesh.vertices[mesh.faces[:, 0]] for i in (1, 2)))
    )
    assert area > 0


def test_points_are_uniform_on_the_surface() -> None:
    """Two triangles in the plane, areas 1/2 and 3/2: shares, means and second moments in closed form."""
    vertices = np.array([(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 5), (1, 0, 5), (0, 3, 5)], float)
    points = sample_surface(Mesh(vertices, np.array([(0, 1, 2), (3, 4, 5)])), 200_000, np.random.default_rng(0))
    low, high = points[points[:, 2] == 0], points[points[:, 2] == 5]
    assert len(low) + len(high) == 200_000
    assert len(low) / 200_000 == pytest.approx(1 / 4, abs=0.005)
    np.testing.assert_allclose(low.mean(0), (1 / 3, 1 / 3, 0), atol=0.01)
    np.testing.assert_allclose(high.mean(0), (1 / 3, 1, 5), atol=0.01)
    assert (low[:, 0] ** 2).mean() == pytest.approx(1 / 6, abs=0.01)
    assert (low[:, :2].sum(1) <= 1 + 1e-12).all()
    assert (low[:, :2] >= 0).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "begin with OFF"),
        (b"PLY\n3 1 0", "begin with OFF"),
        (b"OFF", "is not 'vertices faces edges'"),
        (b"OFF\nx y z\n", "is not 'vertices faces edges'"),
        (b"OFF\n9999999999999 1 0\n0 0 0\n", "but has 1 lines"),
        (b"OFF\n3 1 0\n0 0 0\n1 0 0\n0 1\n3 0 1 2\n", "no vertex or face"),
        (b"OFF\n3 1 0\n0 0 0\n1 0 0\n0 nan 0\n3 0 1 2\n", "three numbers below"),
        (b"OFF\n3 1 0\n0 0 0\n1 0 0\n0 1e99 0\n3 0 1 2\n", "three numbers below"),
        (b"OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 3\n", "outside of 0 ... 2"),
        (b"OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 -1 2\n", "outside of 0 ... 2"),
        (b"OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n4 0 1 2\n", "no vertex or face"),
        (b"OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n2 0 1\n", "or none at all"),
    ],
)
def test_bad_meshes_are_refused(text: bytes, message: str) -> None:
    with pytest.raises(QubolearnError, match=message):
        read_off(text)


def test_meshes_without_a_surface_are_refused() -> None:
    with pytest.raises(QubolearnError, match="has area 0; want a surface"):
        sample_surface(Mesh(np.zeros((3, 3)), np.array([(0, 1, 2)])), 5, np.random.default_rng(0))


@settings(max_examples=200, deadline=None)
@given(st.integers(0, len(CUBE) - 1), st.binary(max_size=4), st.integers(0, 8))
def test_any_damage_gives_our_error_or_a_mesh(where: int, patch: bytes, cut: int) -> None:
    with suppress(QubolearnError):
        mesh = read_off(CUBE[:where] + patch + CUBE[where + cut :])
        assert mesh.faces.max() < len(mesh.vertices)
