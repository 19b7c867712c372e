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

#: Amplitudes that stay in the first-level cache while their qubits rotate.
BLOCK = 2**12
#: Rough costs on one thread for each time step.
SECONDS_PER_AMPLITUDE = 2e-9


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

    The states are in the gauge of :mod:`qubolearn.solvers.state_vector`, in which rotations are real. Each is cos θ
    times [[1, -tan θ], [tan θ, 1]], which takes half the operations; the cosines of all qubits join the phase.
    """
    theta, turns = _small_angles(theta, turns)
    tan, stop, qubits = np.tan(theta), stop_flag(), re.shape[1].bit_length() - 1
    norm = ((1 + tan.astype(np.float64) ** 2) ** (-qubits / 2)).astype(np.float32)

    def work(start: int, end: int) -> None:
        _evolve(re[start:end], im[start:end], energies[start:end], tan, norm, turns, stop)

    run_tasks(work, len(re), re.size * len(turns) * SECONDS_PER_AMPLITUDE, stop=stop)


def _small_angles(theta: Floats, turns: Floats) -> tuple[Floats, Floats]:
    """The same pulses with |θ| <= π/4, up to a sign of the whole state: others in two halves, where tan θ <= 1.

    >>> [x.tolist() for x in _small_angles(np.float32([0.5, 1.0]), np.float32([0.25, 0.125]))]
    [[0.5, 0.5, 0.5], [0.25, 0.0, 0.125]]
    """
    theta = theta - np.float32(math.pi) * np.rint(theta / np.float32(math.pi))
    parts = 1 + (np.abs(theta) > math.pi / 4)
    longer = np.zeros(parts.sum(), np.float32)
    longer[parts.cumsum() - 1] = turns
    return np.repeat(theta / parts.astype(np.float32), parts), longer


@compiled
def _evolve(
    re: Floats, im: Floats, energies: Floats, tan: Floats, norm: Floats, turns: Floats, stop: npt.NDArray[np.uint8]
) -> None:
    for i in range(re.shape[0]):
        for k in range(turns.shape[0]):
            if stopped(stop):
                return
            _rotate_above_block(re[i], tan[k])
            _rotate_above_block(im[i], tan[k])
            for first in range(0, re.shape[1], BLOCK):
                a, b = re[i, first : first + BLOCK], im[i, first : first + BLOCK]
                _rotate_block(a, tan[k])
                _rotate_block(b, tan[k])
                _phase(a, b, energies[i, first : first + BLOCK], turns[k], norm[k])


def _three_from(stride: int) -> Callable[[Floats, np.float32], None]:
    """Rotate three qubits in one pass over memory, those whose neighbours are 1, 2 and 4 times ``stride`` apart.

    A stride that the compiler knows tells it that the eight streams do not overlap, and so it vectorises them.
    """
    one, two, three, four, five, six, seven, eight = (n * stride for n in range(1, 9))

    @compiled
    def rotate(v: Floats, t: np.float32) -> None:
        for base in range(0, v.shape[0], eight):
            w = v[base : base + eight]
            for j in range(stride):
                a0, a1, a2, a3 = w[j], w[j + one], w[j + two], w[j + three]
                a4, a5, a6, a7 = w[j + four], w[j + five], w[j + six], w[j + seven]
                a0, a1, a2, a3 = a0 - t * a1, a1 + t * a0, a2 - t * a3, a3 + t * a2
                a4, a5, a6, a7 = a4 - t * a5, a5 + t * a4, a6 - t * a7, a7 + t * a6
                a0, a1, a2, a3 = a0 - t * a2, a1 - t * a3, a2 + t * a0, a3 + t * a1
                a4, a5, a6, a7 = a4 - t * a6, a5 - t * a7, a6 + t * a4, a7 + t * a5
                w[j], w[j + one], w[j + two], w[j + three] = a0 - t * a4, a1 - t * a5, a2 - t * a6, a3 - t * a7
                w[j + four], w[j + five], w[j + six], w[j + seven] = a4 + t * a0, a5 + t * a1, a6 + t * a2, a7 + t * a3

    return rotate


_from_8, _from_64, _from_512, _from_block = (_three_from(stride) for stride in (8, 64, 512, BLOCK))


@compiled
def _rotate_block(v: Floats, t: np.float32) -> None:
    """Rotate all qubits of at most :data:`BLOCK` amplitudes."""
    stride = 1
    if v.shape[0] >= 8:
        _last_three(v, t)
        stride = 8
    if v.shape[0] >= 64:
        _from_8(v, t)
        stride = 64
    if v.shape[0] >= 512:
        _from_64(v, t)
        stride = 512
    if v.shape[0] >= 4096:
        _from_512(v, t)
        stride = 4096
    _rotate_above(v, stride, t)


@compiled
def _rotate_above_block(v: Floats, t: np.float32) -> None:
    """Rotate the other qubits, whose neighbours are :data:`BLOCK` or more apart."""
    if v.shape[0] >= 8 * BLOCK:
        _from_block(v, t)
        _rotate_above(v, 8 * BLOCK, t)
    else:
        _rotate_above(v, BLOCK, t)


@compiled
def _rotate_above(v: Floats, stride: int, t: np.float32) -> None:
    """Rotate every qubit whose neighbours in v are ``stride`` or more apart, two qubits in one pass over memory."""
    while 4 * stride <= v.shape[0]:
        for base in range(0, v.shape[0], 4 * stride):
            v0 = v[base : base + stride]
            v1 = v[base + stride : base + 2 * stride]
            v2 = v[base + 2 * stride : base + 3 * stride]
            v3 = v[base + 3 * stride : base + 4 * stride]
            for j in range(stride):
                a0, a1, a2, a3 = v0[j] - t * v1[j], v1[j] + t * v0[j], v2[j] - t * v3[j], v3[j] + t * v2[j]
                v0[j], v1[j], v2[j], v3[j] = a0 - t * a2, a1 - t * a3, a2 + t * a0, a3 + t * a1
        stride *= 4
    if stride < v.shape[0]:  # one qubit is left, the first
        v0, v1 = v[:stride], v[stride:]
        for j in range(stride):
            v0[j], v1[j] = v0[j] - t * v1[j], v1[j] + t * v0[j]


@compiled
def _last_three(v: Floats, t: np.float32) -> None:
    """The qubits of stride 1, 2 and 4: one loop over groups of eight, since the compiler vectorises this form."""
    for group in range(v.shape[0] // 8):
        o = 8 * group
        a0, a1, a2, a3, a4, a5, a6, a7 = v[o], v[o + 1], v[o + 2], v[o + 3], v[o + 4], v[o + 5], v[o + 6], v[o + 7]
        a0, a1, a2, a3 = a0 - t * a1, a1 + t * a0, a2 - t * a3, a3 + t * a2
        a4, a5, a6, a7 = a4 - t * a5, a5 + t * a4, a6 - t * a7, a7 + t * a6
        a0, a1, a2, a3 = a0 - t * a2, a1 - t * a3, a2 + t * a0, a3 + t * a1
        a4, a5, a6, a7 = a4 - t * a6, a5 - t * a7, a6 + t * a4, a7 + t * a5
        v[o], v[o + 1], v[o + 2], v[o + 3] = a0 - t * a4, a1 - t * a5, a2 - t * a6, a3 - t * a7
        v[o + 4], v[o + 5], v[o + 6], v[o + 7] = a4 + t * a0, a5 + t * a1, a6 + t * a2, a7 + t * a3


@compiled
def _phase(a: Floats, b: Floats, e: Floats, turns: np.float32, norm: np.float32) -> None:
    """a + ib times norm exp(-2πi turns e)."""
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
        cos, sin = norm * cos, norm * r * sin
        a[x], b[x] = a[x] * cos + b[x] * sin, b[x] * cos - a[x] * sin
