"""Bins, codes and geodesic distances."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation as ScipyRotation

from quant_reproduction.problems.clouds import (
    AngleBins,
    bits_to_index,
    geodesic_so2,
    geodesic_so3,
    index_to_bits,
    rotation_2d,
    rotation_3d,
)
from qubolearn.errors import QubolearnError

ENCODINGS = ["binary", "gray"]
few = settings(max_examples=40, deadline=None)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("bits", [1, 2, 5, 9])
def test_codes_are_one_to_one(bits: int, encoding: str) -> None:
    index = torch.arange(2**bits)
    x = index_to_bits(index, bits, encoding)
    assert torch.equal(bits_to_index(x, encoding), index)
    assert len(torch.unique(x, dim=0)) == 2**bits


def test_binary_is_what_python_prints_and_gray_neighbors_differ_in_one_bit() -> None:
    index = torch.arange(512)
    written = ["".join(str(int(bit)) for bit in row) for row in index_to_bits(index, 9)]
    assert written == [f"{i:09b}" for i in range(512)]
    gray = index_to_bits(index, 9, "gray")
    assert ((gray[1:] != gray[:-1]).sum(1) == 1).all()


@few
@given(
    st.floats(-10, 10),
    st.floats(0.01, 10),
    st.integers(1, 12),
    st.sampled_from(ENCODINGS),
    st.lists(st.floats(0, 1), min_size=1, max_size=20),
)
def test_decoding_is_within_half_a_bin(
    low: float, span: float, bits: int, encoding: str, shares: list[float]
) -> None:
    bins = AngleBins(low, low + span, bits, encoding)
    angle = (low + span * torch.tensor(shares, dtype=torch.float64)).clamp(bins.low, bins.high)
    error = (bins.decode(bins.encode(angle)) - angle).abs()
    assert (error <= bins.width / 2 + 1e-5).all()


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("sigma", [0.3, 1.0, 2.5])
def test_soft_targets_are_a_cut_gaussian(encoding: str, sigma: float) -> None:
    bins = AngleBins(-1.0, 1.0, 4, encoding)
    truth = torch.tensor([0, 1, 7, 15])
    states, weights = bins.soft_targets(index_to_bits(truth, 4, encoding), sigma)
    spread = torch.zeros(4, 16).scatter_add(1, bits_to_index(states, encoding), weights)
    for row, center in zip(spread, truth.tolist(), strict=True):
        reach = math.ceil(3 * sigma)
        wanted = np.array(
            [math.exp(-(((i - center) / sigma) ** 2) / 2) * (abs(i - center) <= reach) for i in range(16)]
        )
        np.testing.assert_allclose(row.numpy(), wanted / wanted.sum(), atol=1e-6)


@few
@given(st.floats(-20, 20), st.floats(-3.1, 3.1))
def test_geodesic_so2_wraps(angle: float, difference: float) -> None:
    error = geodesic_so2(*torch.tensor([angle + difference, angle], dtype=torch.float64))
    assert error.item() == pytest.approx(abs(math.degrees(difference)), abs=1e-9)


@few
@given(st.tuples(*[st.floats(-3, 3)] * 3), st.tuples(*[st.floats(-3, 3)] * 3))
def test_geodesic_so3_is_scipys_magnitude(first: tuple[float, ...], second: tuple[float, ...]) -> None:
    R, other = ScipyRotation.from_rotvec(first), ScipyRotation.from_rotvec(second)
    wanted = math.degrees((R.inv() * other).magnitude())
    found = geodesic_so3(torch.tensor(R.as_matrix()), torch.tensor(other.as_matrix())).item()
    assert found == pytest.approx(wanted, abs=2e-5)


def test_rotations_are_scipys() -> None:
    angle = torch.tensor([0.3, -1.2], dtype=torch.float64)
    for axis, name in enumerate("xyz"):
        np.testing.assert_allclose(
            rotation_3d(angle, axis).numpy(),
            ScipyRotation.from_euler(name, angle.numpy()[:, None]).as_matrix(),
            atol=1e-12,
        )
    np.testing.assert_allclose(rotation_2d(angle).numpy(), rotation_3d(angle, 2)[..., :2, :2].numpy())


@pytest.mark.parametrize("angle", [-0.001, 1.001, float("nan"), float("inf")])
def test_angles_outside_of_the_range_are_rejected(angle: float) -> None:
    with pytest.raises(QubolearnError, match=r"\[0, 1\]"):
        AngleBins(0.0, 1.0, 3).encode(torch.tensor([0.5, angle]))


@pytest.mark.parametrize(
    ("low", "high", "bits", "encoding"),
    [
        (0, 1, 0, "binary"),
        (0, 1, 25, "binary"),
        (1, 1, 3, "binary"),
        (0, math.inf, 3, "gray"),
        (0, 1, 3, "octal"),
    ],
)
def test_impossible_bins_are_rejected(low: float, high: float, bits: int, encoding: str) -> None:
    with pytest.raises(QubolearnError):
        AngleBins(low, high, bits, encoding)
