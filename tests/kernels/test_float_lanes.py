"""Vectors of sixteen floats against NumPy."""

from __future__ import annotations

import numpy as np
from numba import njit

from qubolearn.kernels.float_lanes import at_most, draw, equal, exp, fill, least, load, load_states, save, save_states

f32 = np.float32


@njit
def apply(a, b, out):
    x, y = load(a, 0), load(b, 0)
    save(out, 0, x + y)
    save(out, 16, x - y)
    save(out, 32, x * y)
    save(out, 48, least(x, y))
    save(out, 64, at_most(x, y))
    save(out, 80, equal(x, y))
    save(out, 96, fill(f32(2.5)))


@njit
def exps(x, out):
    for i in range(0, x.size, 16):
        save(out, i, exp(load(x, i)))


@njit
def draws(states, out):
    state = load_states(states, 0)
    for i in range(0, out.size, 16):
        state, uniform = draw(state)
        save(out, i, uniform)
    save_states(states, 0, state)


def test_arithmetic() -> None:
    a, b = np.random.default_rng(0).integers(-2, 3, (2, 16)).astype(f32)
    out = np.empty(112, f32)
    apply(a, b, out)
    want = [a + b, a - b, a * b, np.minimum(a, b), a <= b, a == b, np.full(16, 2.5)]
    assert np.array_equal(out, np.concatenate(want).astype(f32))


def test_exp() -> None:
    x = -np.linspace(0, 86, 16_000).astype(f32)
    out = np.empty_like(x)
    exps(x, out)
    error = np.abs(out / np.exp(x.astype(np.float64)) - 1)
    assert error.max() < 5e-6
    assert error[x > -2].max() < 4e-7
    assert out[0] == 1
    extreme = np.array([-100.0, -1e30, -np.inf, -0.0] * 4, f32)
    exps(extreme, out)
    assert (out[:16] < 2e-38).sum() == 12
    assert np.isfinite(out[:16]).all()


def test_uniforms_are_uniform_and_lanes_independent() -> None:
    states = np.random.default_rng(1).integers(1, 2**63, 16).astype(np.uint64)
    first = states.copy()
    out = np.empty(16 * 20_000, f32)
    draws(states, out)
    assert not np.array_equal(states, first)
    assert out.min() >= 0
    assert out.max() < 1
    counts = np.histogram(out, 64, (0, 1))[0]
    expected = out.size / 64
    assert ((counts - expected) ** 2 / expected).sum() < 130  # 63 degrees of freedom
    together = np.corrcoef(out.reshape(-1, 16).T)
    assert np.abs(together - np.eye(16)).max() < 0.04
    lagged = np.corrcoef(out[:-16], out[16:])[0, 1]
    assert abs(lagged) < 0.01
