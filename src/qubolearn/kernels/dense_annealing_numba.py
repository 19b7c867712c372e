"""Simulated annealing of dense QUBOs of 64 bits and more, compiled: the cheaper of two kernels at every temperature.

While many flips are accepted, fields are computed anew at every update, for 16 reads at once, from tables
(:mod:`.annealing_numba`): that costs the same whatever flips. When flips have become rare, each read goes on by itself
with fields that are kept up to date (:mod:`.single_reads_numba`): that costs something only where a bit flips.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from qubolearn.kernels.annealing_numba import (
    QUANTILES,
    aligned,
    compiled,
    field_tables,
    inlined,
    mixed,
    next_random,
    update_chunk,
)
from qubolearn.kernels.lanes import LANES
from qubolearn.kernels.single_reads_numba import anneal_reads
from qubolearn.kernels.stopping import stopped

__all__ = ["anneal_dense", "prepare"]

#: Groups of 16 reads that are swept together, so that they share the tables in the cache.
TOGETHER = 4
#: Sweeps between two counts of flips.
SWEEPS_PER_COUNT = 8
#: Tables take 16 n² bytes; beyond this n every read is annealed by itself.
MAX_TABLE_BITS = 2048


@compiled
def few_flips(n):
    """Flips per sweep of 16 reads below which each read continues by itself (measured): n³ / 2¹⁸, at most 16 n / 3.

    For n = 64 that is one: a group is handed over when it seems frozen, and single reads notice that at once.
    """
    return max(1, min(n**3 >> 18, 16 * n // 3))


@compiled
def prepare(S, reads):
    """What :func:`anneal_dense` needs of a QUBO S ``[n, n]`` for so many reads: linear terms, rows and tables.

    S is symmetric, with A_ij + A_ji off its diagonal and A_ii on it.
    """
    n = S.shape[0]
    width = (n + LANES - 1) // LANES * LANES
    linear, rows = np.empty(n, np.float32), aligned(n * width)
    for i in range(n):
        linear[i] = S[i, i]
        for j in range(n):
            rows[i * width + j] = S[i, j] if i != j else 0.0
    if goes_by_itself(n, min(reads, LANES)):
        return linear, rows, np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32)
    starts, partners, tables = field_tables(S)
    return linear, rows, starts, partners, tables


@compiled
def goes_by_itself(n, reads):
    """Whether a group of so many reads is annealed read by read from the beginning (measured)."""
    return n > MAX_TABLE_BITS or reads <= min(n // 64, 8)


@compiled
def anneal_dense(prepared, schedule, sweeps, quantiles, seed, first, given, reads, stop):
    """Anneal reads ``[r, n]`` (int8) of one QUBO in place: from where they are if ``given``, else from random bits.

    ``schedule`` is the first β and its growth from sweep to sweep, at least 1. The reads are numbered from ``first``
    on, a multiple of 16; what becomes of each 16 of them depends on (seed, their number) alone.
    """
    n = reads.shape[1]
    for begin in range(0, reads.shape[0], TOGETHER * LANES):
        some = reads[begin : begin + TOGETHER * LANES]
        hot = some.shape[0]
        last = hot % LANES
        if given or goes_by_itself(n, min(hot, LANES)):
            hot = 0
        elif last > 0 and goes_by_itself(n, last):
            hot -= last
        if hot > 0:
            anneal_hot(prepared, schedule, sweeps, quantiles, seed, first + begin, some[:hot], stop)
        if hot < some.shape[0]:
            anneal_alone(prepared, schedule, sweeps, seed, first + begin + hot, given, some[hot:], stop)


@compiled
def anneal_alone(prepared, schedule, sweeps, seed, number, given, reads, stop):
    """Anneal each of the reads by itself."""
    linear, rows = prepared[0], prepared[1]
    none, nobody = np.empty(0, np.int64), np.empty(0, np.uint32)
    nothing, nowhere = np.empty(0, np.float32), np.empty(0, np.bool_)
    anneal_reads(linear, rows, none, nobody, nothing, nowhere, schedule, sweeps, seed, number, given, reads, stop)


@compiled
def anneal_hot(prepared, schedule, sweeps, quantiles, seed, number, reads, stop):
    """Anneal up to four groups of 16 reads from random bits: from tables until flips are rare, then by themselves."""
    _, _, starts, partners, tables = prepared
    chunks, n = starts.size - 1, reads.shape[1]
    groups = (reads.shape[0] + LANES - 1) // LANES
    width = groups * LANES
    bits = aligned(chunks * width).view(np.int32)
    before = np.empty_like(bits)
    random = np.empty(groups, np.uint64)
    for group in range(groups):
        random[group] = mixed(np.uint64(seed) ^ (np.uint64(number + LANES * group + 1) << np.uint64(32)))
        random[group] = randomise_group(bits, width, LANES * group, random[group])
    active, left = np.arange(groups), groups
    beta, growth, last = schedule
    for sweep in range(sweeps):
        if stopped(stop):
            break
        counting = sweep % SWEEPS_PER_COUNT == 0
        if counting:
            before[:] = bits
        for chunk in range(chunks):
            for k in range(left):
                group = active[k]
                random[group] = next_random(random[group])
                update_group(starts, partners, tables, chunk, bits, width, group, beta, quantiles, random[group])
        beta = min(beta * growth, last)
        if counting:
            kept = 0
            for k in range(left):
                group = active[k]
                some = reads[LANES * group : LANES * (group + 1)]
                if flips_of(before, bits, width, LANES * group, some.shape[0]) < few_flips(n):
                    unpack(bits, width, LANES * group, some)
                    rest = sweeps - sweep - 1
                    anneal_alone(prepared, (beta, growth, last), rest, seed, number + LANES * group, True, some, stop)
                else:
                    active[kept] = group
                    kept += 1
            left = kept
            if left == 0:
                return
    for k in range(left):
        unpack(bits, width, LANES * active[k], reads[LANES * active[k] : LANES * (active[k] + 1)])


@inlined
def update_group(starts, partners, tables, chunk, bits, width, group, beta, quantiles, random):
    """One Metropolis update of each of the 4 bits of a chunk, in the 16 reads of a group."""
    mask = np.uint64(QUANTILES - 1)
    t0 = np.int64((random >> np.uint64(8)) & mask)
    t1 = np.int64((random >> np.uint64(22)) & mask)
    t2 = np.int64((random >> np.uint64(36)) & mask)
    t3 = np.int64((random >> np.uint64(50)) & mask)
    g = LANES * group
    update_chunk(starts, partners, tables, chunk, bits, width, g, np.float32(beta), quantiles, t0, t1, t2, t3)


@compiled
def randomise_group(bits, width, g, random):
    """Random chunks of 4 bits in the lanes from g on."""
    for first in range(g, bits.size, width):
        random = next_random(random)
        for lane in range(LANES):
            bits[first + lane] = (random >> np.uint64(4 * lane)) & np.uint64(15)
    return random


@compiled
def flips_of(before, after, width, g, reads):
    """The number of bits in which the reads from lane g on differ."""
    flips = 0
    for first in range(g, after.size, width):
        for lane in range(reads):
            changed = before[first + lane] ^ after[first + lane]
            changed = (changed & 5) + ((changed >> 1) & 5)  # pairs of bits, added up
            flips += (changed & 3) + (changed >> 2)
    return flips


@compiled
def unpack(bits, width, g, reads):
    """The reads ``[r, n]`` from the lanes from g on."""
    for read in range(reads.shape[0]):
        for i in range(reads.shape[1]):
            reads[read, i] = (bits[i // 4 * width + g + read] >> (i % 4)) & 1
