"""Exchanges of two and three bits, compiled: lower states that no single flip of an annealer leads to.

Where a penalty dwarfs what a QUBO is about, as with the slack bits of a knapsack, an item leaves only if another one
comes in: each flip alone costs the penalty. So the lowest state that was found is compared with all that differ in two
or three of its bits. Most QUBOs have none that is lower. Where there is one, the reads of the annealer are local minima
of single flips only, and several of them are improved in this way.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qubolearn.kernels.annealing_numba import compiled
from qubolearn.kernels.harvest_numba import descend, fields_of, flip_bit, key_of, keys_of_bits, offer_neighbours
from qubolearn.kernels.pool_numba import ROUNDS, copy, new_pool, offer
from qubolearn.kernels.stopping import stopped

__all__ = ["MOST_BITS", "exchange", "most_seconds"]

Array = npt.NDArray[Any]

#: Beyond, n³ / 6 exchanges take longer than the annealing itself.
MOST_BITS = 512
#: Reads that are improved where the lowest state was not one of exchanges.
STARTS = 64


def most_seconds(batch: int, reads: int, n: int) -> float:
    """How long :func:`exchange` may take; most often it takes a hundredth."""
    return batch * min(reads, STARTS) * n * n * 1e-7 if n <= MOST_BITS else 0.0


def exchange(S: Array, reads: Array, states: Array, stop: Array) -> None:
    """Lower the states ``[batch, count, n]`` found, lowest first, by exchanges from the first and from the reads.

    S ``[batch, n, n]`` is symmetric, with A_ij + A_ji off its diagonal and A_ii on it; reads are ``[batch, r, n]``.
    """
    lower = np.zeros(len(S), np.bool_)
    look(S, states, lower, stop)
    for b in np.flatnonzero(lower):  # what follows is compiled where it is needed
        exchange_one(S[b], reads[b], states[b], stop)


@compiled
def look(S, states, lower, stop):
    """Fill ``lower [batch]`` with whether an exchange lowers the first state of each instance."""
    fields = np.empty(S.shape[1])
    for b in range(S.shape[0]):
        if stopped(stop):
            return
        x = states[b, 0].copy()
        before = fields_of(S[b], x, fields)
        lower[b] = exchange_three(S[b], x, fields, before, tolerance_of(S[b])) < before


@compiled
def tolerance_of(S):
    """What rounding may change of an energy."""
    total = 0.0
    for i in range(S.shape[0]):
        for j in range(S.shape[0]):
            total += abs(S[i, j])
    return 1e-13 * total


@compiled
def exchange_one(S, reads, states, stop):
    """:func:`exchange` of one instance."""
    count, n = states.shape
    keys, fields, tolerance = keys_of_bits(n), np.empty(n), tolerance_of(S)
    pool = new_pool(np.zeros((count, n), np.int8))
    for rank in range(count):
        offer(pool, states[rank], fields_of(S, states[rank], fields), key_of(states[rank], keys))
    x = np.empty(n, np.int8)
    for start in range(min(STARTS, reads.shape[0]) + 1):
        copy(states[0] if start == 0 else reads[start - 1], x)
        energy = fields_of(S, x, fields)
        descend(S, x, fields, np.int64(-1), energy, np.uint64(0), keys)
        energy = improve(S, x, fields, tolerance, keys, stop)
        offer(pool, x, energy, key_of(x, keys))
    offer_neighbours(pool, S, keys, stop)
    for rank in range(count):
        copy(pool[0][rank], states[rank])


@compiled
def improve(S, x, fields, tolerance, keys, stop):
    """Lower x in place by chains and exchanges in turn until neither does; its energy."""
    energy = fields_of(S, x, fields)
    for _ in range(ROUNDS):
        before = energy
        chain(S, x, fields, energy, tolerance, keys)
        energy = fields_of(S, x, fields)  # anew: what flips add up is rounded
        energy = exchange_three(S, x, fields, energy, tolerance)
        if stopped(stop) or not energy < before - tolerance:
            break
    return fields_of(S, x, fields)


@compiled
def chain(S, x, fields, energy, tolerance, keys):
    """Flip each bit in turn and descend with it held; what is lower stays."""
    before, before_fields = x.copy(), fields.copy()
    for i in range(x.size):
        changed = energy + flip_bit(S, x, fields, i)
        changed, _ = descend(S, x, fields, i, changed, np.uint64(0), keys)
        if changed < energy - tolerance:
            energy = changed
            copy(x, before)
            copy(fields, before_fields)
        else:
            copy(before, x)
            copy(before_fields, fields)
    return energy


@compiled
def exchange_three(S, x, fields, energy, tolerance):
    """Flip two or three bits of x at once wherever that lowers the energy, one pass over all; the energy."""
    n = x.size
    costs, turned, least = np.empty(n), np.empty((n, n)), np.empty(n)
    fill_costs(S, x, fields, costs, turned, least)
    after = np.empty(n)  # what flips cost once bit i is flipped
    for i in range(n):
        lowest = fill_after(costs, turned[i], after)
        for j in range(i + 1, n):
            pair = costs[i] + after[j]
            if pair + min(0.0, lowest + least[j]) >= -tolerance:
                continue  # no third bit can gain enough, which is so for most pairs
            third, gain = third_bit(after, turned[j], j + 1)
            if pair + gain < -tolerance:
                energy += flip_bit(S, x, fields, i) + flip_bit(S, x, fields, j)
                if third >= 0:
                    energy += flip_bit(S, x, fields, third)
                fill_costs(S, x, fields, costs, turned, least)
                lowest = fill_after(costs, turned[i], after)
    return energy


@compiled
def fill_costs(S, x, fields, costs, turned, least):
    """What each flip costs alone, what two add to that if both are made, and the least of that for each bit."""
    for i in range(x.size):
        costs[i], least[i] = (1 - 2 * x[i]) * fields[i], 0.0
        for k in range(x.size):
            turned[i, k] = S[i, k] if x[i] == x[k] else -S[i, k]
            if k != i and turned[i, k] < least[i]:
                least[i] = turned[i, k]


@compiled
def fill_after(costs, row, after):
    """Fill what flips cost once the bit of this row is flipped; the least."""
    lowest = np.inf
    for k in range(costs.size):
        after[k] = costs[k] + row[k]
        lowest = min(lowest, after[k])
    return lowest


@compiled
def third_bit(after, row, first):
    """The bit from ``first`` on whose flip gains most beside two others, and its change of energy; -1 and 0 if none."""
    third, gain = -1, 0.0
    for k in range(first, after.size):
        if after[k] + row[k] < gain:
            third, gain = k, after[k] + row[k]
    return third, gain
