import math

import numpy as np
import pytest
from scipy.integrate import quad

from qubolearn.solvers.state_vector import SCHEDULES, dwave, linear, pulses

# Rows (s, A, B) of D-Wave's table of Advantage_system4.0.
PUBLISHED = np.array(
    [
        (0.0, 9.875125, 0.2240061),
        (0.1001001, 4.437474, 0.4904294),
        (0.2002002, 2.310534, 0.8599233),
        (0.2892893, 1.276704, 1.27546),
        (0.4004004, 0.5070869, 1.908123),
        (0.5005005, 0.1458856, 2.586828),
        (0.7707708, 1.39661e-4, 4.93417),
        (1.0, 1.387851e-9, 7.513963),
    ]
)


def test_dwave_curves_are_those_published():
    s, A, B = PUBLISHED.T
    found_A, found_B = dwave(s)
    assert np.allclose(found_B, B, rtol=1e-3)
    assert np.allclose(found_A[s < 0.53], A[s < 0.53], rtol=0.015)
    assert np.allclose(found_A, A, rtol=0.2)


def test_linear_is_the_papers():
    s = np.linspace(0, 1, 11)
    A, B = linear(s)
    assert np.allclose(A / A[0], 1 - s)
    assert np.allclose(B / B[-1], s)
    assert A[0] == B[-1] == pytest.approx(dwave(np.ones(1))[1][0], rel=0.01)


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("steps", [1, 7, 500])
def test_pulses_hold_the_whole_anneal(name, steps):
    theta, turns = pulses(SCHEDULES[name], 3.0, 2.0, steps)
    assert theta.shape == turns.shape == (steps + 1,)
    area_A = quad(lambda s: float(SCHEDULES[name](np.array(s))[0]), 0, 1)[0]
    area_B = quad(lambda s: float(SCHEDULES[name](np.array(s))[1]), 0, 1)[0]
    assert theta.sum() == pytest.approx(math.pi * 3.0 * area_A, rel=1e-5)
    assert turns.sum() == pytest.approx(3.0 * area_B / 2, rel=1e-5)
    assert theta[0] == 0
    assert (theta[1:] > 0).all()
    assert (turns > 0).all()
