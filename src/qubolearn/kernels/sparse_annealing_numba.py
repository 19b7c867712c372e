"""Simulated annealing of sparse QUBOs, compiled: 16 reads in the lanes of a vector, 64 reads of a bit in one word.

The field of a bit is summed anew at every update: for each neighbour one addition in the lanes of the reads where that
neighbour is 1. A word of 64 reads is all that is stored of a bit, so that thousands of bits stay in the first cache.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from qubolearn.kernels.annealing_numba import QUANTILES, compiled, inlined, mixed, next_random
from qubolearn.kernels.lanes import LANES, add_where, flip_mask, load_floats, splat
from qubolearn.kernels.stopping import stopped

__all__ = ["anneal_sparse"]


@compiled
def anneal_sparse(linear, starts, neighbours, couplings, schedule, sweeps, quantiles, seed, first, given, reads, stop):
    """Anneal reads ``[r, n]`` (int8) of one QUBO in place: from where they are if ``given``, else from random bits.

    The couplings of bit i are ``couplings[starts[i]:starts[i + 1]]`` with the bits ``neighbours`` of the same places.
    ``schedule`` is the first β and its growth from sweep to sweep, at least 1. The reads are numbered from ``first``
    on, a multiple of 16; each 16 of them draw from a stream of (seed, their number) alone.
    """
    graph = (linear, starts, neighbours, couplings)
    full = reads.shape[0] // LANES
    words = np.empty(linear.size, np.uint64)
    done = 0
    while done < full:
        count = min(4, full - done)
        some = reads[LANES * done : LANES * (done + count)]
        number = first // LANES + done
        if count > 2:
            load_words(words, seed, number, given, some)
            anneal_four(graph, schedule, sweeps, quantiles, seed, number, words, stop)
            store_words(words, some)
        else:
            for group in range(count):
                part = some[LANES * group : LANES * (group + 1)]
                anneal_group(graph, schedule, sweeps, quantiles, seed, number + group, given, words, part, stop)
        done += count
    rest = reads[LANES * full :]
    if rest.shape[0] > 0:
        anneal_group(graph, schedule, sweeps, quantiles, seed, first // LANES + full, given, words, rest, stop)


@compiled
def anneal_four(graph, schedule, sweeps, quantiles, seed, number, words, stop):
    """Anneal four groups of 16 reads at once."""
    linear, starts, neighbours, couplings = graph
    masks = words.view(np.uint16)
    beta, growth, last = schedule
    r0, r1 = stream(seed, number), stream(seed, number + 1)
    r2, r3 = stream(seed, number + 2), stream(seed, number + 3)
    for _ in range(sweeps):
        if stopped(stop):
            break
        scale = np.float32(beta)
        for i in range(linear.size):
            f0 = splat(linear[i])
            f1, f2, f3 = f0, f0, f0
            for k in range(starts[i], starts[i + 1]):
                place, value = 4 * np.uint64(neighbours[k]), couplings[k]
                f0 = add_where(f0, np.int64(masks[place]), value)
                f1 = add_where(f1, np.int64(masks[place + 1]), value)
                f2 = add_where(f2, np.int64(masks[place + 2]), value)
                f3 = add_where(f3, np.int64(masks[place + 3]), value)
            if i % 4 == 0:
                r0, r1, r2, r3 = next_random(r0), next_random(r1), next_random(r2), next_random(r3)
            j = 4 * i
            masks[j] = flip_mask(np.int64(masks[j]), f0, scale, thresholds(quantiles, r0, i))
            masks[j + 1] = flip_mask(np.int64(masks[j + 1]), f1, scale, thresholds(quantiles, r1, i))
            masks[j + 2] = flip_mask(np.int64(masks[j + 2]), f2, scale, thresholds(quantiles, r2, i))
            masks[j + 3] = flip_mask(np.int64(masks[j + 3]), f3, scale, thresholds(quantiles, r3, i))
        beta = min(beta * growth, last)


@compiled
def anneal_group(graph, schedule, sweeps, quantiles, seed, number, given, words, reads, stop):
    """Anneal one group of at most 16 reads ``[r, n]`` in place."""
    linear, starts, neighbours, couplings = graph
    load_words(words, seed, number, given, reads)
    random = stream(seed, number)
    beta, growth, last = schedule
    for _ in range(sweeps):
        if stopped(stop):
            break
        scale = np.float32(beta)
        for i in range(linear.size):
            field = splat(linear[i])
            for k in range(starts[i], starts[i + 1]):
                field = add_where(field, np.int64(words[neighbours[k]]), couplings[k])
            if i % 4 == 0:
                random = next_random(random)
            words[i] = flip_mask(np.int64(words[i]), field, scale, thresholds(quantiles, random, i))
        beta = min(beta * growth, last)
    store_words(words, reads)


@inlined
def thresholds(quantiles, random, i):
    """16 of the quantiles from a random place on; one random number serves four bits in turn."""
    place = (random >> np.uint64(8 + 14 * (i % 4))) & np.uint64(QUANTILES - 1)
    return load_floats(quantiles, np.int64(place))


@compiled
def stream(seed, number):
    """The random generator of a group of 16 reads."""
    return mixed(np.uint64(seed) ^ (np.uint64(number + 1) << np.uint64(36)))


@compiled
def load_words(words, seed, number, given, reads):
    """Bit i of all reads as one word: from the reads ``[r, n]``, or at random."""
    if not given:
        for group in range((reads.shape[0] + LANES - 1) // LANES):
            random = stream(seed, ~np.int64(number + group))
            for i in range(words.size):
                random = next_random(random)
                bits = (random >> np.uint64(20)) & np.uint64(65535)
                words[i] = bits if group == 0 else words[i] | bits << np.uint64(16 * group)
        return
    for i in range(words.size):
        words[i] = 0
        for read in range(reads.shape[0]):
            words[i] |= np.uint64(reads[read, i]) << np.uint64(read)


@compiled
def store_words(words, reads):
    """The reads ``[r, n]`` from the words."""
    for read in range(reads.shape[0]):
        for i in range(words.size):
            reads[read, i] = (words[i] >> np.uint64(read)) & np.uint64(1)
