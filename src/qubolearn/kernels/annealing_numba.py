"""Simulated annealing, compiled: 16 reads in the lanes of a vector, sequential Metropolis sweeps.

A read is a string of n bits, kept as chunks of 4 bits, one vector of 16 reads a chunk. The field of bit i is a sum over
chunks, field_i = A_ii + Σ_j (A_ij + A_ji) x_j, and each chunk's part of it has 16 values: a table that one instruction
looks up for all 16 reads. No field is stored and none needs updating when a bit flips.

A flip that costs ΔE is accepted when βΔE < t with t = -log(u). The t are stratified quantiles of the exponential
distribution in random order, read from a random place on: each read alone sees independent draws, at the price of a
load instead of a generator and a logarithm per read. Since t is bounded, a group of reads where every flip costs
more than the bound can be set aside for good: β only grows.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from qubolearn.kernels import compiling
from qubolearn.kernels.lanes import (
    LANES,
    add_scaled,
    flip,
    load_bits,
    load_floats,
    lookup,
    lowest_flip,
    store_bits,
    zeros,
)
from qubolearn.kernels.stopping import stopped

__all__ = [
    "BLOCK",
    "QUANTILES",
    "aligned",
    "anneal",
    "anneal_blocks",
    "compiled",
    "field_tables",
    "inlined",
    "mixed",
    "next_random",
    "thresholds",
    "update_chunk",
]

#: Reads that are annealed together: enough vectors to hide the latency of each, few enough for the first cache.
BLOCK = 16 * LANES
#: How many quantiles the exponential distribution is cut into; a power of two, at most 2**14.
QUANTILES = 4096
#: Sweeps between two looks for groups of reads that cannot change any more.
SWEEPS_PER_CHECK = 32


def compiled(function: Any) -> Any:
    """Compiled on first use and kept on disk; releases the GIL, so that threads share a batch."""
    return compiling.compiled(function, error_model="numpy")


def inlined(function: Any) -> Any:
    """Compiled into its callers, because passing an array would cost more than the function itself."""
    return compiling.compiled(function, error_model="numpy", forceinline=True)


@cache
def thresholds() -> npt.NDArray[np.float32]:
    """``[QUANTILES + BLOCK]``: -log(u) for stratified u in a fixed random order, then its beginning again."""
    order = np.random.default_rng(20240229).permutation(QUANTILES)
    quantiles = -np.log((order + 0.5) / QUANTILES)
    return np.concatenate([quantiles, quantiles[:BLOCK]]).astype(np.float32)


@compiled
def anneal(
    S: npt.NDArray[np.float64],
    schedules: npt.NDArray[np.float64],
    sweeps: int,
    seeds: npt.NDArray[np.uint32],
    quantiles: npt.NDArray[np.float32],
    reads: npt.NDArray[np.int8],
    stop: npt.NDArray[np.uint8],
) -> None:
    """Fill reads ``[batch, r, n]`` with the final states of S ``[batch, n, n]``.

    S is symmetric, with A_ij + A_ji off its diagonal and A_ii on it. ``schedules [batch, 3]`` holds the first β, its
    growth from sweep to sweep, at least 1, and the β that it stops at. The kernel returns early once ``stop`` is set.
    """
    for instance in range(S.shape[0]):
        schedule = (schedules[instance, 0], schedules[instance, 1], schedules[instance, 2])
        anneal_blocks(S[instance], schedule, sweeps, seeds[instance], quantiles, 0, reads[instance], stop)


@compiled
def anneal_blocks(S, schedule, sweeps, seed, quantiles, number, reads, stop):
    """:func:`anneal` of one QUBO ``[n, n]``; reads are numbered from ``number`` on, a multiple of BLOCK.

    Each BLOCK of reads draws from a stream of (seed, its number) alone.
    """
    starts, partners, tables = field_tables(S)
    for first in range(0, reads.shape[0], BLOCK):
        state = mixed(np.uint64(seed) ^ (np.uint64((number + first) // BLOCK) << np.uint64(32)))
        block = reads[first : first + BLOCK]
        anneal_block(starts, partners, tables, schedule, sweeps, quantiles, state, block, stop)


@compiled
def anneal_block(
    starts: npt.NDArray[np.int64],
    partners: npt.NDArray[np.int64],
    tables: npt.NDArray[np.float32],
    schedule: tuple[float, float, float],
    sweeps: int,
    quantiles: npt.NDArray[np.float32],
    state: np.uint64,
    reads: npt.NDArray[np.int8],
    stop: npt.NDArray[np.uint8],
) -> None:
    """Fill reads ``[r, n]``, r <= BLOCK; ``state`` is that of the random generator."""
    chunks = starts.size - 1
    width = (reads.shape[0] + LANES - 1) // LANES * LANES
    bits = aligned(chunks * width).view(np.int32)
    state = randomise(bits, state)
    groups = np.empty(width // LANES, np.int64)
    for k in range(groups.size):
        groups[k] = k * LANES
    active = groups.size
    beta, growth, last = schedule
    for sweep in range(sweeps):
        if stopped(stop):
            break
        scale = np.float32(beta)
        for chunk in range(chunks):
            state = next_random(state)
            sweep_chunk(starts, partners, tables, chunk, bits, width, groups, active, scale, quantiles, state)
        if sweep % SWEEPS_PER_CHECK == 0:
            active = keep_active(starts, partners, tables, bits, width, groups, active, scale)
            if active == 0:
                break
        beta = min(beta * growth, last)
    for read in range(reads.shape[0]):
        for i in range(reads.shape[1]):
            reads[read, i] = (bits[i // 4 * width + read] >> (i % 4)) & 1


@inlined
def sweep_chunk(starts, partners, tables, chunk, bits, width, groups, active, beta, quantiles, random):
    """One Metropolis update of each of the 4 bits of a chunk, in all groups of reads."""
    mask = np.uint64(QUANTILES - 1)
    t0 = np.int64((random >> np.uint64(8)) & mask)
    t1 = np.int64((random >> np.uint64(22)) & mask)
    t2 = np.int64((random >> np.uint64(36)) & mask)
    t3 = np.int64((random >> np.uint64(50)) & mask)
    for k in range(active):
        g = groups[k]
        update_chunk(starts, partners, tables, chunk, bits, width, g, beta, quantiles, t0 + g, t1 + g, t2 + g, t3 + g)


@inlined
def update_chunk(starts, partners, tables, chunk, bits, width, g, beta, quantiles, t0, t1, t2, t3):
    """One Metropolis update of each of the 4 bits of a chunk, in the 16 reads from g on; t0 to t3 are thresholds."""
    own = starts[chunk] * 64
    f0, f1, f2, f3 = fields(starts, partners, tables, chunk, bits, width, g, beta)
    x = load_bits(bits, chunk * width + g)
    x = flip(x, add_scaled(f0, beta, lookup(load_floats(tables, own), x)), load_floats(quantiles, t0), 0)
    x = flip(x, add_scaled(f1, beta, lookup(load_floats(tables, own + 16), x)), load_floats(quantiles, t1), 1)
    x = flip(x, add_scaled(f2, beta, lookup(load_floats(tables, own + 32), x)), load_floats(quantiles, t2), 2)
    x = flip(x, add_scaled(f3, beta, lookup(load_floats(tables, own + 48), x)), load_floats(quantiles, t3), 3)
    store_bits(bits, chunk * width + g, x)


@inlined
def fields(starts, partners, tables, chunk, bits, width, g, beta):
    """β times the fields of the 4 bits of a chunk, without the chunk's own part, for the 16 reads from g on."""
    f0, f1, f2, f3 = zeros(), zeros(), zeros(), zeros()
    for block in range(starts[chunk] + 1, starts[chunk + 1]):
        x = load_bits(bits, partners[block] * width + g)
        table = block * 64
        f0 = add_scaled(f0, beta, lookup(load_floats(tables, table), x))
        f1 = add_scaled(f1, beta, lookup(load_floats(tables, table + 16), x))
        f2 = add_scaled(f2, beta, lookup(load_floats(tables, table + 32), x))
        f3 = add_scaled(f3, beta, lookup(load_floats(tables, table + 48), x))
    return f0, f1, f2, f3


@compiled
def keep_active(starts, partners, tables, bits, width, groups, active, beta):
    """Drop the groups of reads in which no flip can be accepted any more; returns how many groups remain."""
    bound = np.float32(np.log(2 * QUANTILES))
    kept = 0
    for k in range(active):
        g = groups[k]
        lowest = np.float32(np.inf)
        for chunk in range(starts.size - 1):
            own = starts[chunk] * 64
            f0, f1, f2, f3 = fields(starts, partners, tables, chunk, bits, width, g, beta)
            x = load_bits(bits, chunk * width + g)
            lowest = min(lowest, lowest_flip(x, add_scaled(f0, beta, lookup(load_floats(tables, own), x)), 0))
            lowest = min(lowest, lowest_flip(x, add_scaled(f1, beta, lookup(load_floats(tables, own + 16), x)), 1))
            lowest = min(lowest, lowest_flip(x, add_scaled(f2, beta, lookup(load_floats(tables, own + 32), x)), 2))
            lowest = min(lowest, lowest_flip(x, add_scaled(f3, beta, lookup(load_floats(tables, own + 48), x)), 3))
            if lowest <= bound:
                break
        if lowest <= bound:
            groups[kept] = g
            kept += 1
    return kept


@compiled
def field_tables(S):
    """The blocks of couplings between chunks of 4 bits that are not all zero, as tables of fields.

    Blocks ``starts[c]`` to ``starts[c + 1]`` belong to chunk c, the first of them is the chunk with itself and
    holds the linear terms; block b couples it to chunk ``partners[b]``, and ``tables[64 b + 16 k + v]`` is the
    field on bit 4c + k when that chunk holds the bits v.
    """
    n = S.shape[0]
    chunks = (n + 3) // 4
    starts = np.zeros(chunks + 1, np.int64)
    partners = np.empty(chunks * chunks, np.int64)
    size = 0
    for c in range(chunks):
        starts[c] = size
        partners[size] = c
        size += 1
        for d in range(chunks):
            if d != c and coupled(S, 4 * c, 4 * d):
                partners[size] = d
                size += 1
    starts[chunks] = size
    tables = aligned(size * 64)
    for c in range(chunks):
        for block in range(starts[c], starts[c + 1]):
            for k in range(min(4, n - 4 * c)):
                fill_table(S[4 * c + k], 4 * c + k, 4 * partners[block], tables[64 * block + 16 * k :])
    # The bits that pad the last chunk to 4 settle at 0 and stay there.
    tables[64 * starts[chunks - 1] + 16 * (n - 4 * chunks + 4) : 64 * starts[chunks - 1] + 64] = np.inf
    return starts, partners, tables


@compiled
def coupled(S, i, j):
    """Whether any of the bits i to i + 3 is coupled to any of j to j + 3."""
    for a in range(i, min(i + 4, S.shape[0])):
        for b in range(j, min(j + 4, S.shape[0])):
            if S[a, b] != 0:
                return True
    return False


@compiled
def fill_table(couplings, i, first, table):
    """table[v] = Σ_b couplings[first + b] · bit b of v, bit i's own coupling being its constant linear term."""
    own = i - first
    table[0] = couplings[i] if 0 <= own < 4 else 0.0
    for b in range(4):
        j = first + b
        value = couplings[j] if j < couplings.size and j != i else 0.0
        for v in range(1 << b):
            table[v + (1 << b)] = table[v] + value


@compiled
def aligned(size):
    """float32 zeros that begin on a cache line: a vector across two lines costs two loads."""
    raw = np.zeros(size + 16, np.float32)
    skip = (-raw.ctypes.data) % 64 // 4
    return raw[skip : skip + size]


@compiled
def randomise(bits, state):
    """Random chunks of 4 bits in all lanes."""
    for first in range(0, bits.size, 16):
        state = next_random(state)
        for lane in range(16):
            bits[first + lane] = (state >> np.uint64(4 * lane)) & np.uint64(15)
    return state


@compiled
def mixed(seed):
    """Turn a seed into a state of the generator, never 0 (the finaliser of splitmix64)."""
    z = (seed + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (z ^ (z >> np.uint64(31))) | np.uint64(1)


@inlined
def next_random(state):
    """xorshift64."""
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    state ^= state << np.uint64(17)
    return state
