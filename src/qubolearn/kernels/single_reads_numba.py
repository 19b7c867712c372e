"""Simulated annealing of one read at a time, compiled: 16 bits in the lanes of a vector, fields kept up to date.

What 16 neighbouring bits would cost to flip is compared with 16 random thresholds at once. The first bit that may flip
does, which changes the fields of its neighbours, and the comparison is made again for the bits after it: the result is
that of one Metropolis update after the other. Where a QUBO is cold most vectors hold no flip, and cost a few
instructions; a flip costs as much as the bit has couplings. So this is the kernel for few reads, and for large dense
QUBOs, where computing every field anew would take n operations an update.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from qubolearn.kernels.annealing_numba import aligned, compiled, inlined, mixed, next_random
from qubolearn.kernels.lanes import (
    LANES,
    add_scaled,
    below,
    exponentials,
    first_of,
    load_floats,
    negate_where,
    scaled_product,
    splat,
    store_floats,
)
from qubolearn.kernels.stopping import stopped

__all__ = ["anneal_reads"]

#: No threshold is higher: the largest -log(u) of 31 random bits.
HIGHEST = np.float32(22.0)
#: Reads that take turns, so that the rows of a dense QUBO that one has brought into the cache serve the others.
TOGETHER = 8
#: Sweeps after which fields are summed anew, since float32 rounds at every flip.
REFRESH = 64


@compiled
def anneal_reads(linear, rows, starts, neighbours, couplings, near, schedule, sweeps, seed, first, given, reads, stop):
    """Anneal reads ``[r, n]`` (int8) of one QUBO in place: from where they are if ``given``, else from random bits.

    A dense QUBO is ``rows [n · width]``, the couplings of each bit, 0 on the diagonal and from n on up to a multiple of
    16; a sparse one has ``rows`` of size 0, and the couplings of bit i are ``couplings[starts[i]:starts[i + 1]]`` with
    the bits ``neighbours`` of the same places. All are float32, as is ``linear [n]``. ``schedule`` is the first β and
    its growth from sweep to sweep, at least 1. Read k draws from a stream of (seed, first + k) alone.
    """
    n = linear.size
    width = (n + LANES - 1) // LANES * LANES
    graph = (linear, rows, starts, neighbours, couplings, near)
    for begin in range(0, reads.shape[0], TOGETHER):
        some = reads[begin : begin + TOGETHER]
        count = some.shape[0]
        fields, signs = aligned(count * width), aligned(count * width)
        words = np.empty(count * LANES, np.int32)
        for read in range(count):
            seed_read(seed, first + begin + read, words[LANES * read : LANES * (read + 1)], given, some[read])
            for i in range(width):
                signs[read * width + i] = 1 - 2 * some[read, i] if i < n else 1.0
        anneal_together(graph, schedule, sweeps, words, fields, signs, width, stop)
        for read in range(count):
            for i in range(n):
                some[read, i] = signs[read * width + i] < 0


@compiled
def seed_read(seed, number, words, given, x):
    """Fill the states of the read's 16 generators, and x with random bits unless it is given."""
    state = mixed(np.uint64(seed) ^ (np.uint64(number) << np.uint64(32)))
    for lane in range(LANES):
        state = next_random(state)
        words[lane] = np.int32(state >> np.uint64(32)) | 1
    if not given:
        for i in range(x.size):
            if i % 64 == 0:
                state = next_random(state)
            x[i] = (state >> np.uint64(i % 64)) & np.uint64(1)


@compiled
def anneal_together(graph, schedule, sweeps, words, fields, signs, width, stop):
    """Anneal the few reads whose signs ``1 - 2x`` are given, in place: 16 bits of one after 16 bits of the other."""
    beta, growth, last = schedule
    last_change = np.zeros(signs.size // width, np.int64)
    for sweep in range(sweeps):
        if stopped(stop):
            return
        if sweep % REFRESH == 0:
            for begin in range(0, signs.size, width):
                sum_fields(graph, fields, signs, begin, width)
        alive = False
        for block in range(0, width, LANES):
            for read in range(last_change.size):
                if last_change[read] < sweep - 1:
                    continue  # no flip could be accepted in a whole sweep, nor can any from there on, for β only grows
                if update(graph, np.float32(beta), words, LANES * read, fields, signs, read * width, block, width):
                    last_change[read] = sweep
                    alive = True
        if not alive:
            return
        beta = min(beta * growth, last)


@inlined
def update(graph, beta, words, generators, fields, signs, begin, block, width):
    """One Metropolis update of each of 16 bits in turn; whether any flip could have been accepted."""
    place = begin + block
    field, sign = load_floats(fields, place), load_floats(signs, place)
    cost = scaled_product(beta, field, sign)
    if below(cost, splat(HIGHEST)) == 0:
        return False
    thresholds = exponentials(words, generators)
    flips = below(cost, thresholds)
    if flips != 0 and graph[1].size > 0:
        flipped = flip_dense(graph[1], beta, flips, thresholds, field, sign, fields, signs, begin, block, width)
    else:
        flipped = flip_sparse(graph, beta, flips, thresholds, sign, fields, signs, begin, block)
    store_floats(signs, place, negate_where(sign, flipped))
    return True


@inlined
def flip_dense(rows, beta, flips, thresholds, field, sign, fields, signs, begin, block, width):
    """Flip what may flip among 16 bits, one after the other, and change all fields; the mask of the bits flipped."""
    flipped = 0
    while flips != 0:  # at most once a lane
        lane = first_of(flips)
        flipped |= 1 << lane
        # Of its row each flip adds the 16 couplings that matter at once; the rest follows for all flips together.
        field = add_scaled(field, signs[begin + block + lane], load_floats(rows, (block + lane) * width + block))
        flips = below(scaled_product(beta, field, sign), thresholds) & (-2 << lane)
    left = flipped
    while left != 0:
        first = block + first_of(left)
        left &= left - 1
        if left == 0:
            add_row(rows, first, signs[begin + first], fields, begin, width)
        else:
            second = block + first_of(left)
            left &= left - 1
            add_two_rows(rows, first, signs[begin + first], second, signs[begin + second], fields, begin, width)
    return flipped


@inlined
def flip_sparse(graph, beta, flips, thresholds, sign, fields, signs, begin, block):
    """:func:`flip_dense` of a sparse QUBO, where few flips concern another of the 16 bits."""
    _, _, starts, neighbours, couplings, near = graph
    flipped = 0
    while flips != 0:  # at most once a lane
        lane = first_of(flips)
        flipped |= 1 << lane
        flips &= flips - 1
        i = np.uint64(block + lane)
        step = signs[begin + block + lane]
        for k in range(starts[i], starts[i + np.uint64(1)]):
            fields[np.uint64(begin) + neighbours[k]] += step * couplings[k]
        if near[i]:
            cost = scaled_product(beta, load_floats(fields, begin + block), sign)
            flips = below(cost, thresholds) & (-2 << lane)
    return flipped


@inlined
def add_two_rows(rows, first, a, second, b, fields, begin, width):
    """fields += a · row ``first`` + b · row ``second``, for the read that begins there."""
    for j in range(0, width, LANES):
        total = add_scaled(load_floats(fields, begin + j), a, load_floats(rows, first * width + j))
        store_floats(fields, begin + j, add_scaled(total, b, load_floats(rows, second * width + j)))


@inlined
def add_row(rows, i, step, fields, begin, width):
    """fields += step · row i, for the read that begins there."""
    for j in range(0, width, LANES):
        total = add_scaled(load_floats(fields, begin + j), step, load_floats(rows, i * width + j))
        store_floats(fields, begin + j, total)


@compiled
def sum_fields(graph, fields, signs, begin, width):
    """fields[i] = linear_i + Σ_j couplings_ij x_j; infinite beyond n, where nothing may flip."""
    linear, rows, starts, neighbours, couplings, _ = graph
    n = linear.size
    for i in range(width):
        fields[begin + i] = linear[i] if i < n else np.inf
    for i in range(n):
        if signs[begin + i] < 0 and rows.size > 0:
            add_row(rows, i, np.float32(1.0), fields, begin, width)
        elif signs[begin + i] < 0:
            for k in range(starts[i], starts[i + 1]):
                fields[begin + neighbours[k]] += couplings[k]
