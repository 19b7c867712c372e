"""Compiled sum over all states of a QUBO (numba): the partition function with all pair moments in one pass.

Bits play the same roles as in :mod:`~qubolearn.kernels.exhaustive_numba`. Weights are powers of two, 2^t with
t = -β E / ln 2: one polynomial gives the weight of a lane with its inner bits 0, products give its 8 inner states.

numba's cache looks at this file alone: after a change of ``exhaustive_numba``, touch it.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
# numba infers types; annotations would only repeat what the docstrings say of shapes.
from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import overload

from qubolearn.kernels.compiling import compiled
from qubolearn.kernels.exhaustive_numba import (
    FAST,
    INNER,
    LANES,
    LOW,
    _enter_part,
    _lane_energies,
    _lane_sums,
    _load,
    _outer_table,
)

#: Exponents of float32 and float64 end here; a sum over a part needs SUM_BITS above its largest term.
TOP, SUM_BITS = (127, 1023), 20
#: The inner bits may raise a weight by at most 2^REACH, so that all weights that matter fit into the range.
REACH = (90, 960)
#: Weights that are this many bits below the largest do not matter, even 2^18 of them.
NEGLIGIBLE = (42, 71)
#: Above this Σ|exponents|, their rounding in float32 is visible in the weights.
PRECISE = 4096

#: Where rows of all lanes lie in the flat array ``inner``: the factors of the inner bits, the weights with them set.
FACTOR_A, FACTOR_B, FACTOR_C = 0, LANES, 2 * LANES
SUM_A, SUM_B, SUM_C = 3 * LANES, 4 * LANES, 5 * LANES


def _power_of_two(degree):
    """Coefficients c0, c1, ... of the polynomial that interpolates 2^r on [-1/2, 1/2] at Chebyshev's nodes."""
    fit = np.polynomial.Chebyshev.interpolate(np.exp2, degree, domain=[-0.5, 0.5])
    return fit.convert(kind=np.polynomial.Polynomial).coef


SINGLE = tuple(np.float32(c) for c in _power_of_two(5))  # relative error 2e-7
DOUBLE = tuple(float(c) for c in _power_of_two(10))  # relative error 2e-15


def exp2(t, floor):
    """2^t in vectorised code for t inside the range of normal numbers; 0 where t <= floor."""
    raise NotImplementedError("only compiled code calls this")


@overload(exp2, jit_options={"fastmath": {"nnan", "nsz", "contract"}})
def _exp2(t, floor):
    def single(t, floor):
        c0, c1, c2, c3, c4, c5 = SINGLE
        whole = np.rint(t)
        r = t - whole
        p = c0 + r * (c1 + r * (c2 + r * (c3 + r * (c4 + r * c5))))
        p *= np.int32((whole + np.float32(127)) * np.float32(2**23)).view(np.float32)
        return p if t > floor else np.float32(0)

    def double(t, floor):
        c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10 = DOUBLE
        whole = np.rint(t)
        r = t - whole
        p = c6 + r * (c7 + r * (c8 + r * (c9 + r * c10)))
        p = c0 + r * (c1 + r * (c2 + r * (c3 + r * (c4 + r * (c5 + r * p)))))
        p *= np.int64((whole + 1023.0) * 2.0**52).view(np.float64)
        return p if t > floor else 0.0

    return single if t == types.float32 else double


@compiled(fastmath=FAST)
def _child_row(rows, node, parent, w, energy, old, new):
    """rows[node] = rows[parent] + rows[w]; rows[new] = max(rows[old], rows[node] + energy)."""
    for s in range(LANES):
        here = rows[parent, s] + rows[w, s]
        rows[node, s] = here
        there = here + energy
        rows[new, s] = there if there > rows[old, s] else rows[old, s]


@compiled(fastmath=FAST)
def _tree_rows(rows, base, top, nodes, table, outer):
    """rows[nodes + g] = exponents of all lanes at outer state g, inner bits 0; the largest, with table[3, g]."""
    for s in range(LANES):
        rows[nodes, s] = rows[base, s]
        rows[top, s] = rows[base, s] + table[3, 0]
    for i in range(outer):
        half = 1 << i
        for g in range(half, 2 * half):
            old = top + 1 - (g & 1)
            _child_row(rows, nodes + g, nodes + g - half, INNER + i, table[3, g], old, 2 * top + 1 - old)
    last = top + (outer > 0)
    peak = rows[last, 0]
    for s in range(LANES):
        peak = max(peak, rows[last, s])
    return peak


@compiled(fastmath=FAST)
def _sum_leaf(rows, node, inner, table, g, peak, floor, ab, ac, bc, pairs):
    """Sum the 8 inner states of every lane of one node: rows[node] turns from exponents to weights.

    fa, fb are the factors that setting an inner bit a, b brings, ab, ac, bc those of their couplings; q is the
    weight of the states with b set, p with a and b, relative to none. Adds the weights with a, b or c set to
    ``inner``, those with two of them to ``pairs``, and leaves sums over lanes in table[0:4, g].
    """
    a0, b0, c0, shift = table[0, g], table[1, g], table[2, g], table[3, g] - peak
    zero, one = rows.dtype.type(0), rows.dtype.type(1)
    total, total_a, total_b, total_c, total_ab, total_ac, total_bc = zero, zero, zero, zero, zero, zero, zero
    for s in range(LANES):
        weight = exp2(rows[node, s] + shift, floor)
        fa, fb = a0 * inner[FACTOR_A + s], b0 * inner[FACTOR_B + s]
        q = fb * (one + ab * fa)
        p = q - fb
        alone, alone_a, alone_b, alone_ab = weight * (one + fa + q), weight * (fa + p), weight * q, weight * p
        weight *= c0 * inner[FACTOR_C + s]
        fa, fb = ac * fa, bc * fb
        q = fb * (one + ab * fa)
        p = q - fb
        with_c, with_ac, with_bc = weight * (one + fa + q), weight * (fa + p), weight * q
        with_a, with_b, with_any = alone_a + with_ac, alone_b + with_bc, alone + with_c
        rows[node, s] = with_any
        inner[SUM_A + s] += with_a
        inner[SUM_B + s] += with_b
        inner[SUM_C + s] += with_c
        total += with_any
        total_a += with_a
        total_b += with_b
        total_c += with_c
        total_ab += alone_ab + weight * p
        total_ac += with_ac
        total_bc += with_bc
    table[0, g], table[1, g], table[2, g], table[3, g] = total_a, total_b, total_c, total
    pairs[0] += total_ab
    pairs[1] += total_ac
    pairs[2] += total_bc


@compiled(fastmath=FAST)
def _first_moments(v, bits, out, first):
    """out[first + i] = Σ_s s_i v[s] over s < 2^bits, by folding v (overwritten); Σ_s v[s]."""
    for i in range(bits - 1, -1, -1):
        half = 1 << i
        total = v.dtype.type(0)
        for s in range(half):
            upper = v[half + s]
            total += upper
            v[s] += upper
        out[first + i] = total
    return v[0]


@compiled(fastmath=FAST)
def _second_moments(v, scratch, bits, M, first):
    """M[first + i, first + j] = Σ_s s_i s_j v[s], j <= i, by folding v (overwritten)."""
    for i in range(bits - 1, -1, -1):
        half = 1 << i
        for s in range(half):
            scratch[s] = v[half + s]
            v[s] += v[half + s]
        M[first + i, first + i] = _first_moments(scratch, i, M[first + i], first)


@compiled(fastmath=FAST)
def _outer_sums(rows, nodes, sums, outer):
    """rows[sums + i] = Σ of node rows with outer bit i set; rows[nodes] = Σ of all."""
    for i in range(outer - 1, -1, -1):
        half = 1 << i
        for s in range(LANES):
            rows[sums + i, s] = 0
        for g in range(half):
            for s in range(LANES):
                upper = rows[nodes + half + g, s]
                rows[sums + i, s] += upper
                rows[nodes + g, s] += upper


@compiled
def _reach(C):
    """How many bits the inner bits can raise a weight; infinite where float32 is not precise enough."""
    total, up = 0.0, 0.0
    for i in range(len(C)):
        for j in range(len(C)):
            total += abs(C[i, j])
            up += max(C[i, j], 0.0) if LOW <= i < LOW + INNER else 0.0
    return np.inf if C.itemsize == 4 and total > PRECISE else up


@compiled
def _load_instance(A, scale, C, rows, lane_base, scratch, inner, least):
    """What all parts of an instance share: couplings, rows of lane exponents, factors of the inner bits."""
    _load(A, scale, C)
    for j in range(LOW, len(C)):
        _lane_sums(rows, j - LOW, C, j)
    _lane_energies(rows, lane_base, scratch, C)
    for s in range(1 << min(LOW, len(A) - INNER), LANES):
        rows[lane_base, s] = -3000  # a lane of unused bits: no weight
    for k in range(INNER):
        for s in range(LANES):
            inner[k * LANES + s] = exp2(rows[k, s], least)


@compiled
def _collect(rows, nodes, sums, inner, table, pairs, scratch, outer, M):
    """All pair moments into the lower triangle of M, from the weights that the leaves have left."""
    _outer_sums(rows, nodes, sums, outer)
    for k in range(INNER):
        _first_moments(inner[SUM_A + k * LANES : SUM_B + k * LANES], LOW, M[LOW + k], 0)
    for i in range(outer):
        _first_moments(rows[sums + i], LOW, M[LOW + INNER + i], 0)
    _second_moments(rows[nodes], rows[scratch], LOW, M, 0)
    for k in range(INNER):
        M[LOW + k, LOW + k] = _first_moments(table[k], outer, M[LOW + k], LOW + INNER)
        for i in range(LOW + INNER, LOW + INNER + outer):
            M[i, LOW + k] = M[LOW + k, i]
    M[LOW + 1, LOW], M[LOW + 2, LOW], M[LOW + 2, LOW + 1] = pairs
    _second_moments(table[3], table[4], outer, M, LOW + INNER)


@compiled
def _store(M, part, outer, total, moments):
    """M without its unused low bits and with the part's bits, symmetric, to ``moments [n, n]``."""
    n = len(moments)
    used = min(LOW, n - INNER)
    inside = used + INNER + outer
    for i in range(inside):
        p = i if i < used else i + LOW - used
        for j in range(i + 1):
            q = j if j < used else j + LOW - used
            moments[i, j] = moments[j, i] = M[p, q]
    for i in range(inside, n):
        on = (part >> (i - inside)) & 1
        for j in range(inside):
            moments[i, j] = moments[j, i] = on * moments[j, j]
        for j in range(inside, i + 1):
            moments[i, j] = moments[j, i] = on * ((part >> (j - inside)) & 1) * total


@compiled
def partition(A, scale, outer, start, stop, peaks, totals, moments):
    """Z = Σ_x 2^(scale xᵀAx) and Σ_x 2^(scale xᵀAx) x xᵀ of tasks start ... stop-1, both divided by 2^peak.

    A ``[batch, n, n]`` -> peaks, totals (NaN where A is too steep) ``[tasks]``, moments ``[tasks, n, n]``, float64.
    """
    size = max(A.shape[1], LOW + INNER)
    high = size - LOW
    part_bits = high - INNER - outer
    lane_base, base, top, sums = high, high + 1, high + 2, high + 4
    nodes = sums + outer
    rows = np.empty((nodes + (1 << outer), LANES), A.dtype)
    inner, pairs = np.empty(6 * LANES, A.dtype), np.empty(3, A.dtype)
    C, table, field = np.empty((size, size), A.dtype), np.empty((5, 1 << outer), A.dtype), np.empty(size, A.dtype)
    M = np.zeros((size, size))
    real, kind = A.dtype.type, 0 if A.itemsize == 4 else 1
    least = real(1 - TOP[kind])
    for task in range(start, stop):
        t, part = task >> part_bits, task & ((1 << part_bits) - 1)
        if task == start or part == 0:
            _load_instance(A[t], real(scale), C, rows, lane_base, base, inner, least)
            reach = _reach(C)
            head = real(TOP[kind] - SUM_BITS - reach)
            floor = real(head - reach - NEGLIGIBLE[kind])
        if reach > REACH[kind]:
            peaks[task], totals[task], moments[task] = 0, np.nan, 0
            continue
        rows[base] = rows[lane_base]
        energy = _enter_part(rows, base, C, outer, part, field)
        _outer_table(table, C, field, energy, outer)
        peak = _tree_rows(rows, base, top, nodes, table, outer) - head
        for k in range(INNER):
            for g in range(1 << outer):
                table[k, g] = exp2(table[k, g], least)
        inner[SUM_A:] = 0
        pairs[:] = 0
        ab, ac = exp2(C[LOW, LOW + 1], least), exp2(C[LOW, LOW + 2], least)
        bc = exp2(C[LOW + 1, LOW + 2], least)
        for g in range(1 << outer):
            _sum_leaf(rows, nodes + g, inner, table, g, peak, floor, ab, ac, bc, pairs)
        _collect(rows, nodes, sums, inner, table, pairs, base, outer, M)
        peaks[task], totals[task] = peak, table[3, 0]
        _store(M, part, outer, totals[task], moments[task])
