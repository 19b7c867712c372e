import numpy as np
import pytest
import torch

from qubolearn.chips.programming import EXTENDED_J_RANGE, J_RANGE, scaled, with_control_errors
from qubolearn.solvers.contract import instance_seeds


def one(J, h):
    return torch.tensor([[[0.0, J], [0.0, 0.0]]], dtype=torch.float64), torch.tensor([h], dtype=torch.float64)


@pytest.mark.parametrize(
    ("J", "h", "J_range", "scale"),
    [
        (0.5, [0.1, 0.1], J_RANGE, 0.5),
        (-3.0, [0.1, 0.1], J_RANGE, 3.0),
        (-3.0, [0.1, 0.1], EXTENDED_J_RANGE, 1.5),
        (1.0, [-12.0, 2.0], J_RANGE, 3.0),
        (0.0, [0.0, 0.0], J_RANGE, 1.0),
    ],
)
def test_the_ranges_are_filled(J, h, J_range, scale):
    found_J, found_h = scaled(*one(J, h), J_range)
    assert float(found_J[0, 0, 1]) == pytest.approx(J / scale)
    assert found_h[0].tolist() == pytest.approx([value / scale for value in h])


def test_each_instance_has_its_own_scale():
    J, h = (torch.cat(x) for x in zip(one(2.0, [0, 0]), one(0.5, [0, 0]), strict=True))
    assert scaled(J, h, J_RANGE)[0][:, 0, 1].tolist() == [1.0, 1.0]


def test_errors_have_the_size_requested_and_spare_what_is_not_programmed():
    J = torch.zeros(300, 4, 4, dtype=torch.float64)
    J[:, 0, 1] = J[:, 2, 3] = 0.5
    h = torch.zeros(300, 4, dtype=torch.float64)
    found = with_control_errors(J, h, 0.1, 0.3, programmings=2, reads=6, seeds=instance_seeds(0, 300))
    assert found.J.shape == (600, 4, 4)
    assert found.uniforms.shape == (600, 3)
    assert float(found.h.std()) == pytest.approx(0.3, rel=0.05)
    assert float((found.J[:, 0, 1] - 0.5).std()) == pytest.approx(0.1, rel=0.1)
    assert int((found.J != 0).sum()) == 1200
    together = torch.corrcoef(torch.stack([found.J[:, 0, 1], found.J[:, 2, 3], found.h[:, 0], found.h[:, 1]]))
    assert float((together - torch.eye(4)).abs().max()) < 0.15


def test_an_instance_depends_on_its_own_seed_alone():
    J, h = one(0.5, [0.1, 0.2])
    seeds = np.array([5, 6, 7], np.uint32)
    many = with_control_errors(J.expand(3, -1, -1), h.expand(3, -1), 0.1, 0.1, 1, 5, seeds)
    alone = with_control_errors(J, h, 0.1, 0.1, 1, 5, seeds[2:])
    for a, b in zip(many, alone, strict=True):
        assert torch.equal(a[2:], b)
