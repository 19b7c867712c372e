"""Compiled loops over all states of a QUBO (numba): the lowest states, and the partition function with its moments.

The bits of a state's code (Σ_i x_i 2^i) play four roles, from the lowest:

    low    8 bits          their 256 states are *lanes*, side by side in SIMD registers
    inner  3 bits          eliminated in closed form for each lane: two additions and minima per state
    outer  ``outer`` bits  walked as a binary tree; a node's row of lane energies is its parent's plus one row
    part   the others      one task per instance and part, so that threads can share one large QUBO

Trees do not drift as Gray codes do: an energy is a sum of at most 2n roundings. Fewer than 11 bits leave some
low bits unused. All kernels release the GIL and write only to their own tasks' results, so that threads need no
lock, and results do not depend on how many there are.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
# numba infers types; annotations would only repeat what the docstrings say of shapes.
from __future__ import annotations

import numpy as np

from qubolearn.kernels.compiling import compiled
from qubolearn.kernels.stopping import stopped

LOW = 8
LANES = 1 << LOW
INNER = 3
A_ROW, B_ROW, C_ROW = 0, 1, 2  # rows of the lanes' couplings to the inner bits a, b, c

#: Cells searched again beyond ``count``, at most, where rounding leaves open which hold the lowest states.
SPARE_CELLS = 30

# The compiler may reorder sums and assume that nothing is NaN: A is finite, and its energies are checked to be.
FAST = {"nnan", "nsz", "reassoc", "contract", "arcp"}

#: FOUR_BITS[i, s] is bit i of s.
FOUR_BITS = ((np.arange(16)[None, :] >> np.arange(4)[:, None]) & 1).astype(np.float32)


@compiled(fastmath=FAST, inline="always")
def _min(a, b):
    return a if a < b else b


@compiled(fastmath=FAST)
def _load(A, scale, C, first=0):
    """C ``[max(n, 11), max(n, 11)]``, symmetric: scale · (A_ij + A_ji), A_ii on the diagonal, 0 for unused low bits.

    Only the rows and columns of bits from ``first`` on are filled.
    """
    n = A.shape[0]
    used = min(LOW, n - INNER)
    if used < LOW:
        C[:] = 0
    for i in range(first, n):
        p = i if i < used else i + LOW - used
        for j in range(i):
            q = j if j < used else j + LOW - used
            C[p, q] = C[q, p] = scale * A[i, j] + scale * A[j, i]
        C[p, p] = scale * A[i, i]


@compiled(fastmath=FAST)
def _lane_sums(rows, r, C, j):
    """rows[r, s] = Σ_{i low} s_i C_ij for all lanes s.

    Distances between what is read and written are constants, from which the compiler sees that it may vectorise.
    """
    c0, c1, c2, c3, c4, c5, c6, c7 = C[j, 0], C[j, 1], C[j, 2], C[j, 3], C[j, 4], C[j, 5], C[j, 6], C[j, 7]
    for s in range(16):
        x = c0 * FOUR_BITS[0, s] + c1 * FOUR_BITS[1, s] + c2 * FOUR_BITS[2, s] + c3 * FOUR_BITS[3, s]
        rows[r, s], rows[r, 16 + s], rows[r, 32 + s], rows[r, 48 + s] = x, x + c4, x + c5, x + (c4 + c5)
    for s in range(64):
        x = rows[r, s]
        rows[r, 64 + s], rows[r, 128 + s], rows[r, 192 + s] = x + c6, x + c7, x + (c6 + c7)


@compiled(fastmath=FAST)
def _lane_energies(rows, r, field, C):
    """rows[r, s] = energy of lane s with all other bits 0, by doubling; row ``field`` is scratch."""
    rows[r, 0] = 0
    for i in range(LOW):
        half = 1 << i
        _lane_sums(rows, field, C, i)
        for s in range(half):
            rows[r, half + s] = rows[r, s] + (rows[field, s] + C[i, i])


@compiled(fastmath=FAST)
def _add_row(rows, r, w):
    for s in range(LANES):
        rows[r, s] += rows[w, s]


@compiled(fastmath=FAST)
def _enter_part(rows, base, C, outer, part, field):
    """Set the part's bits: row ``base`` gains their couplings, ``field`` becomes what flips cost; their energy."""
    energy = field.dtype.type(0)
    for i in range(LOW, len(C)):
        field[i] = C[i, i]
    for j in range(LOW + INNER + outer, len(C)):
        if part >> (j - LOW - INNER - outer) & 1:
            energy += field[j]
            for i in range(LOW, len(C)):
                field[i] += C[i, j]
            _add_row(rows, base, j - LOW)
    return energy


@compiled(fastmath=FAST)
def _outer_table(table, C, field, energy, outer):
    """table[0:3, g] = fields of the inner bits, table[3, g] = energy, for each state g of the outer bits."""
    table[0, 0], table[1, 0], table[2, 0], table[3, 0] = field[LOW], field[LOW + 1], field[LOW + 2], energy
    for i in range(outer):
        j = LOW + INNER + i
        half = 1 << i
        table[4, 0] = field[j]
        for k in range(i):
            for g in range(1 << k):
                table[4, (1 << k) + g] = table[4, g] + C[j, LOW + INNER + k]
        for g in range(half):
            table[0, half + g] = table[0, g] + C[j, LOW]
            table[1, half + g] = table[1, g] + C[j, LOW + 1]
            table[2, half + g] = table[2, g] + C[j, LOW + 2]
            table[3, half + g] = table[3, g] + table[4, g]


@compiled
def _lowest_bit(g):
    bit = 0
    while not (g >> bit) & 1:
        bit += 1
    return bit


# ---------------------------------------------------------------------------------------------- lowest states


@compiled(fastmath=FAST)
def _scan_leaf(rows, parent, w, level, old, new, table, g, ab, ac, bc):
    """One node of the outer tree: all lanes times all 8 inner states; rows[new] = min(rows[old], their lowest).

    With inner bits a, b and fields including the lane's, min over both of E is

        min(0, a, b, a + b + ab) = min(a, 0, b + ab + min(a, -ab)),

    and c is tried both ways. The scalar part of each field is moved to where one operation covers all lanes.
    """
    a0, b0, c0, energy = table[0, g], table[1, g], table[2, g], table[3, g]
    a1, b1 = a0 + ac, b0 + bc
    zero0, zero1 = -a0, -a1
    turn0, turn1 = -a0 - ab, -a1 - ab
    shift0, shift1 = b0 + ab, b1 + ab
    offset0, offset1 = energy + a0, energy + c0 + a1
    for s in range(LANES):
        here = rows[parent, s] + rows[w, s]
        rows[level, s] = here
        a, b = rows[A_ROW, s], rows[B_ROW, s]
        e0 = _min(_min(a, zero0), (b + _min(a, turn0)) + shift0) + offset0
        e1 = _min(_min(a, zero1), (b + _min(a, turn1)) + shift1) + (rows[C_ROW, s] + offset1)
        rows[new, s] = _min(rows[old, s], _min(e0, e1) + here)


@compiled
def scan(A, outer, start, stop, cells):
    """The lowest energy of every *cell* for tasks start ... stop-1; task = instance · parts + part.

    A cell is a lane of a part: 2^(3 + outer) states. A ``[batch, n, n]`` -> cells ``[batch, parts · 256]``.
    """
    n = max(A.shape[1], LOW + INNER)
    high = n - LOW
    part_bits = n - LOW - INNER - outer
    lane_base, base, zeros, lowest, level = high, high + 1, high + 2, high + 3, high + 5
    rows = np.zeros((level + max(outer, 1), LANES), A.dtype)
    C = np.empty((n, n), A.dtype)
    table = np.empty((5, 1 << outer), A.dtype)
    field = np.empty(n, A.dtype)
    for task in range(start, stop):
        t, part = task >> part_bits, task & ((1 << part_bits) - 1)
        if task == start or part == 0:
            _load(A[t], A.dtype.type(1), C)
            for j in range(high):
                _lane_sums(rows, j, C, LOW + j)
            _lane_energies(rows, lane_base, base, C)
        for s in range(LANES):
            rows[base, s] = rows[lane_base, s]
            rows[lowest, s] = np.inf
        energy = _enter_part(rows, base, C, outer, part, field)
        _outer_table(table, C, field, energy, outer)
        ab, ac, bc = C[LOW, LOW + 1], C[LOW, LOW + 2], C[LOW + 1, LOW + 2]
        for g in range(1 << outer):
            parent, w, node = base, zeros, level
            if g > 0:
                bit = _lowest_bit(g)
                w, node = INNER + bit, level + bit
                if g & (g - 1):
                    parent = level + _lowest_bit(g & (g - 1))
            # Old and new lowest rows alternate: updating one in place would compile to slow masked stores.
            _scan_leaf(rows, parent, w, node, lowest + (g & 1), lowest + 1 - (g & 1), table, g, ab, ac, bc)
        final = lowest + (1 & (1 << outer))
        for s in range(LANES):
            cells[t, part * LANES + s] = rows[final, s]


@compiled
def _cell_table(table, A, C, ones, field, outer):
    """The outer table of the cell whose low and part bits ``ones`` are set; C lacks the couplings of low bits."""
    energy = 0.0
    for j in range(LOW, LOW + INNER + outer):
        field[j] = C[j, j]
    for p in range(len(ones)):
        i = ones[p]
        for q in range(p + 1):
            k = ones[q]
            if i >= LOW:
                energy += C[i, k]
            else:
                energy += np.float64(A[i, k]) + (np.float64(A[k, i]) if k < i else 0.0)
        for j in range(LOW, LOW + INNER + outer):
            field[j] += C[i, j]
    _outer_table(table, C, field, energy, outer)


@compiled
def _keep_lowest(table, outer, ab, ac, bc, code, low, energies, codes):
    """Offer every state of a cell, outer table given, to the heap (energies, codes)."""
    for g in range(1 << outer):
        a, b, c, e0 = table[0, g], table[1, g], table[2, g], table[3, g]
        e1, e2, e4 = e0 + a, e0 + b, e0 + c
        e3, e5, e6 = e1 + b + ab, e1 + c + ac, e2 + c + bc
        e7 = e3 + c + ac + bc
        least = _min(_min(_min(e0, e1), _min(e2, e3)), _min(_min(e4, e5), _min(e6, e7)))
        if least < energies[0]:  # rarely: most of the time one comparison disposes of eight states
            for inner, energy in enumerate((e0, e1, e2, e3, e4, e5, e6, e7)):
                if energy < energies[0]:
                    _replace_highest(energies, codes, energy, code | inner << low | g << (low + INNER))


@compiled
def _ones(code, positions):
    """Where the code's bits are 1, a view into ``positions``."""
    count = 0
    for i in range(len(positions)):
        positions[count] = i
        count += code >> i & 1
    return positions[:count]


@compiled
def _replace_highest(energies, codes, energy, code):
    """Put a state in place of the root of a max-heap (energies, codes), and let it sink."""
    here, size = 0, len(energies)
    while True:
        child = 2 * here + 1
        if child >= size:
            break
        if child + 1 < size and energies[child + 1] > energies[child]:
            child += 1
        if energies[child] <= energy:
            break
        energies[here], codes[here] = energies[child], codes[child]
        here = child
    energies[here], codes[here] = energy, code


@compiled
def _column_minima(cells, minima):
    minima[:] = np.inf
    for row in range(len(cells)):
        for column in range(len(minima)):
            minima[column] = _min(cells[row, column], minima[column])


@compiled
def _lowest(values):
    """Index of the lowest."""
    best = 0
    for i in range(len(values)):
        if values[i] < values[best]:
            best = i
    return best


@compiled
def _take(cells, minima, column):
    """Remove the lowest cell of a column of cells ``[rows, columns]``, whose minima are given; its flat index."""
    row = 0
    while row < len(cells) - 1 and cells[row, column] > minima[column]:
        row += 1
    cells[row, column] = np.inf
    minima[column] = np.inf
    for r in range(len(cells)):
        minima[column] = _min(cells[r, column], minima[column])
    return row * len(minima) + column


@compiled(fastmath=FAST)
def _size(A):
    """Σ_ij |A_ij|, which bounds all partial sums of an energy."""
    total = 0.0
    flat = A.reshape(-1)
    for i in range(len(flat)):
        total += np.float64(abs(flat[i]))
    return total


@compiled
def pick(A, outer, cells, start, end, energies, codes, sizes, settled, stop):
    """The lowest states of instances start ... end-1, in float64, from the minima of all cells (overwritten).

    The ``count`` lowest states lie in the ``count`` cells of lowest minimum; cells that rounding may have put
    behind these are searched too. Fills energies and codes ``[batch, count]``, unsorted, sizes ``[batch]`` with
    Σ|A_ij| (too large, and energies have overflowed), and settled ``[batch]``: whether no such cell was left out.
    The kernel returns early once ``stop`` is set.
    """
    n, count = A.shape[1], codes.shape[1]
    low = min(LOW, n - INNER)
    total = min(cells.shape[1], 1 << n >> INNER)
    columns = 1
    while columns * columns < total:
        columns *= 2
    minima = np.empty(columns, cells.dtype)
    size = max(n, LOW + INNER)
    C, table, field = np.empty((size, size)), np.empty((5, 1 << outer)), np.empty(size)
    positions = np.empty(size, np.int64)
    for t in range(start, end):
        cell, bound = cells[t, :total].reshape(total // columns, columns), np.inf
        _load(A[t], 1.0, C, low)
        sizes[t] = _size(A[t])
        # Scanned energies are off by at most 2n roundings of their partial sums.
        tolerance = 4 * n * np.finfo(A.dtype).eps * sizes[t]
        ab, ac, bc = C[LOW, LOW + 1], C[LOW, LOW + 2], C[LOW + 1, LOW + 2]
        _column_minima(cell, minima)
        energies[t] = np.inf
        settled[t] = total <= count + SPARE_CELLS
        for taken in range(min(total, count + SPARE_CELLS + 1)):
            column = _lowest(minima)
            if stopped(stop):
                return
            if taken >= count and minima[column] > bound:
                settled[t] = True
                break
            bound = minima[column] + tolerance if taken < count else bound
            chosen = _take(cell, minima, column)
            lane, part = chosen & (LANES - 1), chosen >> LOW
            _cell_table(table, A[t], C, _ones(lane | part << (LOW + INNER + outer), positions), field, outer)
            code = lane | part << (low + INNER + outer)
            _keep_lowest(table, outer, ab, ac, bc, code, low, energies[t], codes[t])
