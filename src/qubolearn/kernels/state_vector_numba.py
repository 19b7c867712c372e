"""Compiled time evolution: an instance's state stays in one thread's cache for the whole anneal."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from qubolearn.kernels import compiling
from qubolearn.kernels.parallel import run_tasks, stop_flag
from qubolearn.kernels.stopping import stopped

__all__ = ["evolve"]

Floats = npt.NDArray[np.float32]
F = TypeVar("F", bound=Callable[..., Any])

#: Amplitudes that stay in the second-level cache from one pass over them to the next.
BLOCK = 2**14
#: Rough costs on one thread for each time step.
SECONDS_PER_AMPLITUDE = 4e-9


def compiled(function: F) -> F:
    """Compiled on first use and kept on disk; releases the GIL, so that threads share a batch."""
    return cast(F, compiling.compiled(function, fastmath=True))


def _polynomial(values: npt.NDArray[np.float64], r: npt.NDArray[np.float64], terms: int) -> tuple[np.float32, ...]:
    """Coefficients in r², lowest first, of the best fit to the values at these points."""
    fit = np.polynomial.Polynomial.fit(r**2, values, terms - 1, domain=[0, 0.25]).convert()
    return tuple(np.float32(c) for c in fit.coef)


# cos and sin of r turns, |r| <= 1/2, to 3e-7: calls of the library's functions would not be vectorised.
_NODES = 0.5 * np.cos(math.pi * (np.arange(400) + 0.5) / 800)
_COS = _polynomial(np.cos(2 * math.pi * _NODES), _NODES, 7)
_SIN = _polynomial(np.sin(2 * math.pi * _NODES) / _NODES, _NODES, 6)


def evolve(re: Floats, im: Floats, energies: Floats, theta: Floats, turns: Floats) -> None:
    """Apply the pulses to the states re + i im ``[batch, 2**n]``, in place.

    The states are in the gauge of :mod:`qubolearn.solvers.state_vector`, in which rotations are real.
    """
    cos, sin, stop = np.cos(theta), np.sin(theta), stop_flag()

    def work(start: int, end: int) -> None:
        _evolve(re[start:end], im[start:end], energies[start:end], cos, sin, turns, stop)

    run_tasks(work, len(re), re.size * len(turns) * SECONDS_PER_AMPLITUDE, stop=stop)


@compiled
def _evolve(
    re: Floats, im: Floats, energies: Floats, cos: Floats, sin: Floats, turns: Floats, stop: npt.NDArray[np.uint8]
) -> None:
    states = re.shape[1]
    block = min(BLOCK, states)
    for i in range(re.shape[0]):
        for k in range(turns.shape[0]):
            if stopped(stop):
                return
            c, s = cos[k], sin[k]
            for first in range(0, states, block):
                _rotate(re[i, first : first + block], 1, c, s)
                _rotate(im[i, first : first + block], 1, c, s)
            _rotate(re[i], block, c, s)
            _rotate(im[i], block, c, s)
            _phase(re[i], im[i], energies[i], turns[k])


@compiled
def _rotate(v: Floats, stride: int, c: np.float32, s: np.float32) -> None:
    """Rotate every qubit whose neighbours in v are ``stride`` or more apart, two qubits in one pass over memory."""
    if stride == 1 and v.shape[0] >= 8:
        _rotate_last_three(v, c, s)
        stride = 8
    while 4 * stride <= v.shape[0]:
        for base in range(0, v.shape[0], 4 * stride):
            v0 = v[base : base + stride]
            v1 = v[base + stride : base + 2 * stride]
            v2 = v[base + 2 * stride : base + 3 * stride]
            v3 = v[base + 3 * stride : base + 4 * stride]
            for j in range(stride):
                p, q = c * v0[j] - s * v1[j], s * v0[j] + c * v1[j]
                u, w = c * v2[j] - s * v3[j], s * v2[j] + c * v3[j]
                v0[j], v2[j] = c * p - s * u, s * p + c * u
                v1[j], v3[j] = c * q - s * w, s * q + c * w
        stride *= 4
    if stride < v.shape[0]:  # one qubit is left, the first
        v0, v1 = v[:stride], v[stride:]
        for j in range(stride):
            v0[j], v1[j] = c * v0[j] - s * v1[j], s * v0[j] + c * v1[j]


@compiled
def _rotate_last_three(v: Floats, c: np.float32, s: np.float32) -> None:
    """The qubits of stride 1, 2 and 4, written out, because the compiler vectorises this form and not the loop."""
    for eighth in range(v.shape[0] // 8):
        o = 8 * eighth
        a0, a1, a2, a3, a4, a5, a6, a7 = v[o], v[o + 1], v[o + 2], v[o + 3], v[o + 4], v[o + 5], v[o + 6], v[o + 7]
        b0, b1 = c * a0 - s * a1, s * a0 + c * a1
        b2, b3 = c * a2 - s * a3, s * a2 + c * a3
        b4, b5 = c * a4 - s * a5, s * a4 + c * a5
        b6, b7 = c * a6 - s * a7, s * a6 + c * a7
        a0, a2 = c * b0 - s * b2, s * b0 + c * b2
        a1, a3 = c * b1 - s * b3, s * b1 + c * b3
        a4, a6 = c * b4 - s * b6, s * b4 + c * b6
        a5, a7 = c * b5 - s * b7, s * b5 + c * b7
        v[o], v[o + 4] = c * a0 - s * a4, s * a0 + c * a4
        v[o + 1], v[o + 5] = c * a1 - s * a5, s * a1 + c * a5
        v[o + 2], v[o + 6] = c * a2 - s * a6, s * a2 + c * a6
        v[o + 3], v[o + 7] = c * a3 - s * a7, s * a3 + c * a7


@compiled
def _phase(a: Floats, b: Floats, e: Floats, turns: np.float32) -> None:
    """a + ib times exp(-2πi turns e)."""
    for x in range(a.shape[0]):
        r = turns * e[x]
        r -= np.float32(np.rint(r))
        r2 = r * r
        cos = _COS[6]
        for k in range(5, -1, -1):
            cos = cos * r2 + _COS[k]
        sin = _SIN[5]
        for k in range(4, -1, -1):
            sin = sin * r2 + _SIN[k]
        sin *= r
        a[x], b[x] = a[x] * cos + b[x] * sin, b[x] * cos - a[x] * sin
