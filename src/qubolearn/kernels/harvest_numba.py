"""From the reads of an annealer to the lowest distinct states: reads, their descents and their neighbours, compiled.

Without ties the k-th lowest state is a local minimum or a neighbour of one of the k-1 lower ones: it has a neighbour
that is lower, or none. So the reads and their descents offer local minima, and the neighbours of the lowest states
found complete the list. Local minima that no read met are sought by flipping each bit of the best state and
descending with that bit held: the second-best state differs from the best in some bit.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from qubolearn.kernels.annealing_numba import compiled, mixed
from qubolearn.kernels.pool_numba import DESCENT, ROUNDS, copy, new_pool, next_to_expand, offer, offer_changed
from qubolearn.kernels.stopping import stopped

__all__ = ["harvest"]

FEW_BITS = 128  # up to which the clamped descents begin anew as long as they improve the best state


@compiled
def harvest(
    S: npt.NDArray[np.float64],
    reads: npt.NDArray[np.int8],
    states: npt.NDArray[np.int8],
    success: npt.NDArray[np.float64],
    stop: npt.NDArray[np.uint8],
) -> None:
    """Fill states ``[batch, count, n]``, lowest first, and success ``[batch]`` from reads ``[batch, r, n]``.

    S ``[batch, n, n]`` is symmetric, with A_ij + A_ji off its diagonal and A_ii on it. success is the share of
    reads that reached the lowest energy of all reads. The kernel returns early once ``stop`` is set.
    """
    batch, _, n = states.shape
    bit_keys = keys_of_bits(n)
    for instance in range(batch):
        pool = new_pool(states[instance])
        success[instance] = offer_reads(pool, S[instance], reads[instance], bit_keys, stop)
        offer_clamped_descents(pool, S[instance], bit_keys, stop)
        offer_neighbours(pool, S[instance], bit_keys, stop)


@compiled
def keys_of_bits(n):
    """A state's key is the exclusive or of its bits' keys: the state itself up to 64 bits, a hash of it beyond."""
    keys = np.empty(n, np.uint64)
    for i in range(n):
        keys[i] = np.uint64(1) << np.uint64(i) if n <= 64 else mixed(np.uint64(i))
    return keys


@compiled
def offer_reads(pool, S, reads, bit_keys, stop):
    """Offer each distinct read and the end of its descent; returns the share of reads at the lowest energy of all."""
    n = S.shape[0]
    slots = 1
    while slots < 2 * reads.shape[0]:
        slots *= 2
    seen, occupied, read_energies = np.zeros(slots, np.uint64), np.zeros(slots, np.int64), np.zeros(slots)
    lowest, scale = np.inf, np.abs(S).sum()
    x, fields = np.empty(n, np.int8), np.empty(n)
    for read in range(reads.shape[0]):
        if stopped(stop):
            break
        key = key_of(reads[read], bit_keys)
        slot = np.int64(mixed(key) & np.uint64(slots - 1))
        while occupied[slot] > 0 and seen[slot] != key:
            slot = (slot + 1) % slots
        occupied[slot] += 1
        if occupied[slot] == 1:
            seen[slot] = key
            copy(reads[read], x)
            energy = fields_of(S, x, fields)
            read_energies[slot] = energy
            lowest = min(lowest, energy)
            offer(pool, x, energy, key)
            energy, key = descend(S, x, fields, np.int64(-1), energy, key, bit_keys)
            offer(pool, x, energy, key)
    at_lowest = 0
    for i in range(slots):
        if read_energies[i] <= lowest + 1e-12 * scale:
            at_lowest += occupied[i]
    return at_lowest / reads.shape[0]


@compiled
def offer_clamped_descents(pool, S, bit_keys, stop):
    """From the best state flip each bit in turn and descend with it held, as long as that improves the best."""
    states, energies, keys, _ = pool
    n = S.shape[0]
    start, x, start_fields, fields = np.empty(n, np.int8), np.empty(n, np.int8), np.empty(n), np.empty(n)
    best = np.inf
    # Generic QUBOs take one to three rounds, each about as long as a read of a thousand sweeps.
    for _ in range(ROUNDS if n <= FEW_BITS else 2):
        if not energies[0] < best - 1e-13 * abs(best) and best < np.inf:
            return
        copy(states[0], start)
        best, start_key = energies[0], keys[0]
        fields_of(S, start, start_fields)
        for i in range(n):
            if stopped(stop):
                return
            copy(start, x)
            copy(start_fields, fields)
            energy = best + flip_bit(S, x, fields, i)
            energy, key = descend(S, x, fields, i, energy, start_key ^ bit_keys[i], bit_keys)
            offer(pool, x, energy, key)


@compiled
def offer_neighbours(pool, S, bit_keys, stop):
    """Offer the neighbours of the lowest states until all but the last in the pool have been expanded."""
    states = pool[0]
    count, n = states.shape
    fields = np.empty(n)
    for _ in range(ROUNDS * (n + count)):
        rank = next_to_expand(pool)
        if rank < 0 or stopped(stop):
            return
        fields_of(S, states[rank], fields)
        offer_flips(pool, rank, fields, bit_keys)


@compiled
def offer_flips(pool, rank, fields, bit_keys):
    """Offer every state that differs in one bit from the one at ``rank``, whose fields are given."""
    states, energies, keys, _ = pool
    x, energy, key = states[rank].copy(), energies[rank], keys[rank]  # what is offered can move it
    for i in range(x.size):
        offer_changed(pool, x, i, 1 - x[i], energy + (1 - 2 * x[i]) * fields[i], key ^ bit_keys[i])


@compiled
def descend(S, x, fields, held, energy, key, bit_keys):
    """Steepest descent of x in place without flipping the bit ``held``; returns the final energy and key."""
    n = S.shape[0]
    for _ in range(DESCENT * n + ROUNDS):
        lowest, best = -1e-13 * abs(energy), -1
        for i in range(n):
            change = (1 - 2 * x[i]) * fields[i]
            if change < lowest and i != held:
                lowest, best = change, i
        if best < 0:
            break
        energy += flip_bit(S, x, fields, best)
        key ^= bit_keys[best]
    return energy, key


@compiled
def flip_bit(S, x, fields, i):
    """Flip bit i of x and update the fields of the others; returns the change of energy."""
    step = 1 - 2 * x[i]
    change = step * fields[i]
    own = fields[i]
    for j in range(x.size):
        fields[j] += step * S[i, j]
    fields[i] = own
    x[i] += step
    return change


@compiled
def fields_of(S, x, fields):
    """Fill fields[i] = A_ii + Σ_{j ≠ i} S_ij x_j for x ``[n]``; returns the energy of x."""
    n = x.size
    for i in range(n):
        fields[i] = S[i, i] * (1 - x[i])
    for j in range(n):
        if x[j]:
            for i in range(n):
                fields[i] += S[j, i]
    energy = 0.0
    for i in range(n):
        energy += x[i] * 0.5 * (S[i, i] + fields[i])
    return energy


@compiled
def key_of(x, bit_keys):
    """The key of x."""
    key = np.uint64(0)
    for i in range(x.size):
        key ^= np.uint64(x[i]) * bit_keys[i]
    return key
