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

few = settings(max_examples=40, deadline=None)


def test_codes_are_what_python_prints() -> None:
    index = torch.arange(512)
    x = index_to_bits(index, 9)
    assert ["".join(str(int(bit)) for bit in row) for row in x] == [f"{i:09b}" for i in range(512)]
    assert torch.equal(bits_to_index(x), index)


@few
@given(
    st.floats(-10, 10),
    st.floats(0.01, 10),
    st.integers(1, 12),
    st.lists(st.floats(0, 1), min_size=1, max_size=20),
)
def test_decoding_is_within_half_a_bin(low: float, span: float, bits: int, shares: list[float]) -> None:
    bins = AngleBins(low, low + span, bits)
    angle = (low + span * torch.tensor(shares, dtype=torch.float64)).clamp(bins.low, bins.high)
    error = (bins.decode(bins.encode(angle)) - angle).abs()
    assert (error <= bins.width / 2 + 1e-5).all()


@pytest.mark.parametrize("sigma", [0.3, 1.0, 2.5])
def test_soft_targets_are_a_cut_gaussian(sigma: float) -> None:
    bins = AngleBins(-1.0, 1.0, 4)
    truth = torch.tensor([0, 1, 7, 15])
    states, weights = bins.soft_targets(index_to_bits(truth, 4), sigma)
    spread = torch.zeros(4, 16).scatter_add(1, bits_to_index(states), weights)
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


@pytest.mark.parametrize(("low", "high", "bits"), [(0, 1, 0), (0, 1, 25), (1, 1, 3), (0, math.inf, 3)])
def test_impossible_bins_are_rejected(low: float, high: float, bits: int) -> None:
    with pytest.raises(QubolearnError):
        AngleBins(low, high, bits)
