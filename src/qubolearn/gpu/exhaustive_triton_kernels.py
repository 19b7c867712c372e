"""The Triton kernels of :mod:`~qubolearn.gpu.exhaustive_triton`.

Bits of a code, from the lowest: lanes, inner bits a, b, c (and d), walked bits in Gray order, the
part's bits. One program visits one part, with three tables of each instance:

    rows [1 + other bits, LANES]                     energies of lanes, what each bit adds
    parts [2^PART_BITS, 1 + inner and walked bits]   energy of the part's bits, fields
    gray [walked states, 1 + inner bits]             energy of the walked bits, fields

Flips are 2j + (1 if walked bit j turns on), one after each walked state.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, attr-defined"
# Triton infers types; the docstrings give shapes.
from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _coupling(A, n, i, j):
    """Return A_ij + A_ji in float64."""
    return tl.load(A + i * n + j).to(tl.float64) + tl.load(A + j * n + i).to(tl.float64)


@triton.jit
def subset_table(
    A,
    codes,
    out,
    n,
    first,
    target,
    states,
    codes_step,
    state_step,
    column_step,
    instance_step,
    BITS: tl.constexpr,
    DIAGONAL: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Fill the table of states of the bits from ``first`` on, given as codes, in float64.

    Column 0 is their energy; column 1 + k is what they add to the field of bit target + k, with its
    A_ii if DIAGONAL.
    """
    blocks = tl.cdiv(states, BLOCK)
    instance, column = (tl.program_id(0) // blocks).to(tl.int64), tl.program_id(1)
    state = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    code = tl.load(codes + instance * codes_step + state, state < states, 0)
    A += instance * n * n
    total = tl.zeros([BLOCK], tl.float64)
    if column == 0:
        for i in range(BITS):
            field = tl.zeros([BLOCK], tl.float64) + tl.load(A + (first + i) * (n + 1)).to(tl.float64)
            for k in range(i):
                field += ((code >> k) & 1).to(tl.float64) * _coupling(A, n, first + i, first + k)
            total += ((code >> i) & 1).to(tl.float64) * field
    else:
        j = target + column - 1
        if DIAGONAL:
            total += tl.load(A + j * (n + 1)).to(tl.float64)
        for i in range(BITS):
            total += ((code >> i) & 1).to(tl.float64) * _coupling(A, n, first + i, j)
    place = instance * instance_step + state.to(tl.int64) * state_step + column * column_step
    tl.store(out + place, total.to(out.dtype.element_ty), state < states)


@triton.jit
def scan_parts(
    A,
    rows,
    parts,
    gray,
    outer_flips,
    inner_flips,
    chosen,
    out,
    n,
    count,
    LANES: tl.constexpr,
    OUTER: tl.constexpr,
    INNER_GRAY: tl.constexpr,
    PART_BITS: tl.constexpr,
    CHOSEN: tl.constexpr,
):
    """Store the lowest energy of a part; of each lane if CHOSEN."""
    program = tl.program_id(0)
    instance = (program // count).to(tl.int64)
    part = (program % count).to(tl.int64)
    if CHOSEN:
        part = tl.load(chosen + program)
    GRAY: tl.constexpr = OUTER + INNER_GRAY
    lane = tl.arange(0, LANES)
    parts += ((instance << PART_BITS) + part) * (1 + 4 + GRAY)
    gray += instance * (5 << GRAY)
    rows += instance * (1 + 4 + GRAY + PART_BITS) * LANES + lane
    start = tl.load(rows)
    rows += LANES
    for p in range(PART_BITS):
        start += ((part >> p) & 1).to(start.dtype) * tl.load(rows + (4 + GRAY + p) * LANES)
    wa, wb = tl.load(rows), tl.load(rows + LANES)
    wc, wd = tl.load(rows + 2 * LANES), tl.load(rows + 3 * LANES)
    part_e, part_a, part_b = tl.load(parts), tl.load(parts + 1), tl.load(parts + 2)
    part_c, part_d = tl.load(parts + 3), tl.load(parts + 4)
    A += instance * n * n
    k = n - 4 - GRAY - PART_BITS  # the first inner bit
    ab, ac = _coupling(A, n, k, k + 1).to(start.dtype), _coupling(A, n, k, k + 2).to(start.dtype)
    ad, bc = _coupling(A, n, k, k + 3).to(start.dtype), _coupling(A, n, k + 1, k + 2).to(start.dtype)
    bd, cd = _coupling(A, n, k + 1, k + 3).to(start.dtype), _coupling(A, n, k + 2, k + 3).to(start.dtype)
    lowest = tl.full([LANES], float("inf"), start.dtype)

    for outer in range(1 << OUTER):
        here = start  # so that roundings of the inner walk do not add up
        for step in range(1 << INNER_GRAY):
            e, a = part_e + tl.load(gray), part_a + tl.load(gray + 1)
            b, c, d = part_b + tl.load(gray + 2), part_c + tl.load(gray + 3), part_d + tl.load(gray + 4)
            gray += 5
            # Bits a and b in closed form, for each state of c and d.
            a0, a1, a2, a3 = a, a + ac, a + ad, a + (ac + ad)
            b0, b1, b2, b3 = b + ab, b + (ab + bc), b + (ab + bd), b + (ab + bc + bd)
            low0 = tl.minimum(tl.minimum(wa, -a0), (wb + tl.minimum(wa, -a0 - ab)) + b0) + a0
            low1 = tl.minimum(tl.minimum(wa, -a1), (wb + tl.minimum(wa, -a1 - ab)) + b1) + (wc + (a1 + c))
            low2 = tl.minimum(tl.minimum(wa, -a2), (wb + tl.minimum(wa, -a2 - ab)) + b2) + (a2 + d)
            low3 = tl.minimum(tl.minimum(wa, -a3), (wb + tl.minimum(wa, -a3 - ab)) + b3) + (
                wc + (a3 + c + d + cd)
            )
            best = tl.minimum(tl.minimum(low0, low1), tl.minimum(low2, low3) + wd)
            lowest = tl.minimum(lowest, here + (best + e))
            flip = tl.load(inner_flips + step)
            sign = ((flip & 1) * 2 - 1).to(start.dtype)
            field = tl.load(parts + 5 + (flip >> 1))
            here += sign * (tl.load(rows + (4 + (flip >> 1)) * LANES) + field)
        flip = tl.load(outer_flips + outer)
        sign = ((flip & 1) * 2 - 1).to(start.dtype)
        field = tl.load(parts + 5 + INNER_GRAY + (flip >> 1))
        start += sign * (tl.load(rows + (4 + INNER_GRAY + (flip >> 1)) * LANES) + field)

    if CHOSEN:
        tl.store(out + program.to(tl.int64) * LANES + lane, lowest)
    else:
        tl.store(out + program, tl.min(lowest, 0))


@triton.jit
def _add(s0, s1, s2, s3, s4, x1, x2, x3, x4, weight):
    """Add a weight to the sums over all states, and with each of four bits set."""
    return s0 + weight, s1 + x1 * weight, s2 + x2 * weight, s3 + x3 * weight, s4 + x4 * weight


@triton.jit
def _store_lanes(lanes, first, second, third, fourth, LANES: tl.constexpr):
    tl.store(lanes, first)
    tl.store(lanes + LANES, second)
    tl.store(lanes + 2 * LANES, third)
    tl.store(lanes + 3 * LANES, fourth)


@triton.jit
def _store_totals(totals, first, second, third):
    tl.store(totals, tl.sum(first, 0))
    tl.store(totals + 1, tl.sum(second, 0))
    tl.store(totals + 2, tl.sum(third, 0))


@triton.jit
def sum_parts(
    A, rows, parts, gray, flips, peaks, lanes, totals, n, LANES: tl.constexpr, PART_BITS: tl.constexpr
):
    """Sum the weights 2^(exponent - peak) of a part per lane.

    Of the 7 middle bits a, b, c, 1, ... 4, ``lanes [8, LANES]`` gets the weights with each set, and
    all weights, and ``totals [21]`` those with two set, summed over lanes.
    """
    program = tl.program_id(0).to(tl.int64)
    instance, part = program >> PART_BITS, program & ((1 << PART_BITS) - 1)
    lane = tl.arange(0, LANES)
    parts += program * 8
    gray += instance * 64
    rows += instance * (8 + PART_BITS) * LANES + lane
    start = tl.load(rows) + tl.load(parts)
    rows += LANES
    for p in range(PART_BITS):
        start += ((part >> p) & 1).to(tl.float32) * tl.load(rows + (7 + p) * LANES)
    wa, wb, wc = tl.load(rows), tl.load(rows + LANES), tl.load(rows + 2 * LANES)
    wa, wb, wc = wa + tl.load(parts + 1), wb + tl.load(parts + 2), wc + tl.load(parts + 3)
    A += instance * n * n
    k = n - 7 - PART_BITS  # the first inner bit
    ab, ac = _coupling(A, n, k, k + 1).to(tl.float32), _coupling(A, n, k, k + 2).to(tl.float32)
    bc = _coupling(A, n, k + 1, k + 2).to(tl.float32)

    # The largest exponent, as in the search; then the sums.
    top = tl.full([LANES], float("-inf"), tl.float32)
    here = start
    for step in range(16):
        e, a = tl.load(gray + 4 * step), tl.load(gray + 4 * step + 1)
        b, c = tl.load(gray + 4 * step + 2), tl.load(gray + 4 * step + 3)
        high0 = tl.maximum(tl.maximum(wa, -a), (wb + tl.maximum(wa, -a - ab)) + (b + ab)) + a
        a, b = a + ac, b + bc
        high1 = tl.maximum(tl.maximum(wa, -a), (wb + tl.maximum(wa, -a - ab)) + (b + ab)) + (wc + (a + c))
        top = tl.maximum(top, tl.maximum(high0, high1) + (here + e))
        flip = tl.load(flips + step)
        row = tl.load(rows + (3 + (flip >> 1)) * LANES) + tl.load(parts + 4 + (flip >> 1))
        here += ((flip & 1) * 2 - 1).to(tl.float32) * row
    peak = tl.max(top, 0)

    zero = tl.zeros([LANES], tl.float32)
    t0, t1, t2, t3, t4 = zero, zero, zero, zero, zero
    a0, a1, a2, a3, a4 = zero, zero, zero, zero, zero
    b0, b1, b2, b3, b4 = zero, zero, zero, zero, zero
    c0, c1, c2, c3, c4 = zero, zero, zero, zero, zero
    p12, p13, p14, p23, p24, p34 = zero, zero, zero, zero, zero, zero
    pab, pac, pbc = zero, zero, zero
    here = start - peak
    for step in range(16):
        e, fa = here + tl.load(gray + 4 * step), wa + tl.load(gray + 4 * step + 1)
        fb, fc = wb + tl.load(gray + 4 * step + 2), wc + tl.load(gray + 4 * step + 3)
        only_a, only_b, both = tl.exp2(e + fa), tl.exp2(e + fb), tl.exp2(e + fa + (fb + ab))
        with_a, with_b = only_a + both, only_b + both
        total = tl.exp2(e) + only_b + with_a
        pab += both
        e, fa, fb = e + fc, fa + ac, fb + bc  # the same with c set
        only_a, only_b, both = tl.exp2(e + fa), tl.exp2(e + fb), tl.exp2(e + fa + (fb + ab))
        with_ac, with_bc = only_a + both, only_b + both
        with_c = tl.exp2(e) + only_b + with_ac
        total += with_c
        pab += both
        pac += with_ac
        pbc += with_bc
        state = step ^ (step >> 1)
        x1, x2 = (state & 1).to(tl.float32), ((state >> 1) & 1).to(tl.float32)
        x3, x4 = ((state >> 2) & 1).to(tl.float32), ((state >> 3) & 1).to(tl.float32)
        t0, t1, t2, t3, t4 = _add(t0, t1, t2, t3, t4, x1, x2, x3, x4, total)
        a0, a1, a2, a3, a4 = _add(a0, a1, a2, a3, a4, x1, x2, x3, x4, with_a + with_ac)
        b0, b1, b2, b3, b4 = _add(b0, b1, b2, b3, b4, x1, x2, x3, x4, with_b + with_bc)
        c0, c1, c2, c3, c4 = _add(c0, c1, c2, c3, c4, x1, x2, x3, x4, with_c)
        p12 += (x1 * x2) * total
        p13 += (x1 * x3) * total
        p14 += (x1 * x4) * total
        p23 += (x2 * x3) * total
        p24 += (x2 * x4) * total
        p34 += (x3 * x4) * total
        flip = tl.load(flips + step)
        row = tl.load(rows + (3 + (flip >> 1)) * LANES) + tl.load(parts + 4 + (flip >> 1))
        here += ((flip & 1) * 2 - 1).to(tl.float32) * row

    tl.store(peaks + program, peak)
    lanes += program * (8 * LANES) + lane
    _store_lanes(lanes, a0, b0, c0, t1, LANES)
    _store_lanes(lanes + 4 * LANES, t2, t3, t4, t0, LANES)
    totals += program * 21
    _store_totals(totals, pab, pac, a1)
    _store_totals(totals + 3, a2, a3, a4)
    _store_totals(totals + 6, pbc, b1, b2)
    _store_totals(totals + 9, b3, b4, c1)
    _store_totals(totals + 12, c2, c3, c4)
    _store_totals(totals + 15, p12, p13, p14)
    _store_totals(totals + 18, p23, p24, p34)
