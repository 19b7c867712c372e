"""Compiled time evolution: an instance's state stays in one thread's cache for the whole anneal."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from qubolearn.kernels import compiling
from qubolearn.kernels.lanes import LANES, add_scaled, load_floats, rotate_pairs, store_floats
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
    rest = theta - math.pi * np.rint(theta.astype(np.float64) / math.pi)
    parts = 1 + (np.abs(rest) > math.pi / 4)
    longer = np.zeros(parts.sum(), np.float32)
    longer[parts.cumsum() - 1] = turns
    return np.repeat(rest / parts, parts).astype(np.float32), longer


@compiled
def _evolve(
    re: Floats, im: Floats, energies: Floats, tan: Floats, norm: Floats, turns: Floats, stop: npt.NDArray[np.uint8]
) -> None:
    for i in range(re.shape[0]):
        for k in range(turns.shape[0]):
            if stopped(stop):
                return
            _rotate_above(re[i], BLOCK, tan[k])
            _rotate_above(im[i], BLOCK, tan[k])
            for first in range(0, re.shape[1], BLOCK):
                a, b = re[i, first : first + BLOCK], im[i, first : first + BLOCK]
                _rotate_block(a, tan[k])
                _rotate_block(b, tan[k])
                _phase(a, b, energies[i, first : first + BLOCK], turns[k], norm[k])


@compiled
def _rotate_block(v: Floats, t: np.float32) -> None:
    """Rotate all qubits of at most :data:`BLOCK` amplitudes."""
    if v.shape[0] < LANES:
        _rotate_few(v, t)
    elif v.shape[0] < LANES * LANES:
        for first in range(0, v.shape[0], LANES):
            store_floats(v, first, rotate_pairs(load_floats(v, first), t))
        _rotate_above(v, LANES, t)
    else:
        for first in range(0, v.shape[0], LANES * LANES):
            for o in range(first, first + LANES * LANES, LANES):
                store_floats(v, o, rotate_pairs(load_floats(v, o), t))
            _sixteen(v, first, LANES, t)
        _rotate_above(v, LANES * LANES, t)


@compiled
def _rotate_few(v: Floats, t: np.float32) -> None:
    """All qubits of fewer amplitudes than there are lanes."""
    stride = 1
    while stride < v.shape[0]:
        for x in range(v.shape[0]):
            if not x & stride:
                v[x], v[x + stride] = v[x] - t * v[x + stride], v[x + stride] + t * v[x]
        stride *= 2


@compiled
def _rotate_above(v: Floats, stride: int, t: np.float32) -> None:
    """Rotate every qubit whose neighbours in v are ``stride`` or more apart, up to four in one pass over memory."""
    while stride < v.shape[0]:
        left = v.shape[0] // stride
        streams = min(left, 16 if stride < BLOCK else 8)  # a first-level cache has room for 8 streams that far apart
        for base in range(0, v.shape[0], streams * stride):
            for first in range(base, base + stride, LANES):
                if streams == 16:
                    _sixteen(v, first, stride, t)
                elif streams == 8:
                    _eight(v, first, stride, t)
                elif streams == 4:
                    _four(v, first, stride, t)
                else:
                    _two(v, first, stride, t)
        stride *= streams


@compiled
def _pair(a: Any, b: Any, t: np.float32) -> Any:
    """One qubit of 16 pairs of amplitudes, a and b lanes of floats."""
    return add_scaled(a, -t, b), add_scaled(b, t, a)


@compiled
def _pairs(a: Any, b: Any, c: Any, d: Any, t: np.float32) -> Any:
    """Two qubits, in whose four states the lanes are."""
    a, b = _pair(a, b, t)
    c, d = _pair(c, d, t)
    a, c = _pair(a, c, t)
    b, d = _pair(b, d, t)
    return a, b, c, d


@compiled
def _two(v: Floats, o: int, stride: int, t: np.float32) -> None:
    a, b = _pair(load_floats(v, o), load_floats(v, o + stride), t)
    store_floats(v, o, a)
    store_floats(v, o + stride, b)


@compiled
def _load_four(v: Floats, o: int, stride: int, t: np.float32) -> Any:
    """Four streams, their two qubits rotated."""
    a, b = load_floats(v, o), load_floats(v, o + stride)
    c, d = load_floats(v, o + 2 * stride), load_floats(v, o + 3 * stride)
    return _pairs(a, b, c, d, t)


@compiled
def _store_four(v: Floats, o: int, stride: int, a: Any, b: Any, c: Any, d: Any) -> None:
    store_floats(v, o, a)
    store_floats(v, o + stride, b)
    store_floats(v, o + 2 * stride, c)
    store_floats(v, o + 3 * stride, d)


@compiled
def _four(v: Floats, o: int, stride: int, t: np.float32) -> None:
    a, b, c, d = _load_four(v, o, stride, t)
    _store_four(v, o, stride, a, b, c, d)


@compiled
def _eight(v: Floats, o: int, stride: int, t: np.float32) -> None:
    a0, a1, a2, a3 = _load_four(v, o, stride, t)
    b0, b1, b2, b3 = _load_four(v, o + 4 * stride, stride, t)
    a0, b0 = _pair(a0, b0, t)
    a1, b1 = _pair(a1, b1, t)
    a2, b2 = _pair(a2, b2, t)
    a3, b3 = _pair(a3, b3, t)
    _store_four(v, o, stride, a0, a1, a2, a3)
    _store_four(v, o + 4 * stride, stride, b0, b1, b2, b3)


@compiled
def _sixteen(v: Floats, o: int, stride: int, t: np.float32) -> None:
    a0, a1, a2, a3 = _load_four(v, o, stride, t)
    b0, b1, b2, b3 = _load_four(v, o + 4 * stride, stride, t)
    c0, c1, c2, c3 = _load_four(v, o + 8 * stride, stride, t)
    d0, d1, d2, d3 = _load_four(v, o + 12 * stride, stride, t)
    a0, b0, c0, d0 = _pairs(a0, b0, c0, d0, t)
    a1, b1, c1, d1 = _pairs(a1, b1, c1, d1, t)
    a2, b2, c2, d2 = _pairs(a2, b2, c2, d2, t)
    a3, b3, c3, d3 = _pairs(a3, b3, c3, d3, t)
    _store_four(v, o, stride, a0, a1, a2, a3)
    _store_four(v, o + 4 * stride, stride, b0, b1, b2, b3)
    _store_four(v, o + 8 * stride, stride, c0, c1, c2, c3)
    _store_four(v, o + 12 * stride, stride, d0, d1, d2, d3)


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
