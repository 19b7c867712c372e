"""From the reads of sparse QUBOs to the lowest distinct states, compiled: :mod:`.harvest_numba` with neighbour lists.

A flip affects few other bits, so a descent looks only at these, and a trial undoes its own flips afterwards: trying all
n bits of the best state costs about as much as one sweep.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from qubolearn.kernels.annealing_numba import compiled
from qubolearn.kernels.harvest_numba import FEW_BITS, key_of, keys_of_bits, offer_flips
from qubolearn.kernels.pool_numba import DESCENT, ROUNDS, copy, new_pool, next_to_expand, offer
from qubolearn.kernels.stopping import stopped

__all__ = ["harvest_sparse"]


@compiled
def harvest_sparse(linear, quadratic, starts, neighbours, places, reads, states, success, stop):
    """Fill states ``[batch, count, n]``, lowest first, and success ``[batch]`` from reads ``[batch, r, n]``.

    linear ``[batch, n]`` and quadratic ``[batch, m]`` are float64; the places ``starts[i]`` to ``starts[i + 1]`` of
    ``neighbours`` and ``places`` hold the bits that bit i is coupled to, and by which edges.
    """
    batch, _, n = states.shape
    bit_keys = keys_of_bits(n)
    couplings = np.empty(neighbours.size)
    room = (np.empty(n), np.empty((DESCENT + 1) * n, np.int64), np.empty(n, np.int64), np.zeros(n, np.bool_))
    for instance in range(batch):
        for k in range(couplings.size):
            couplings[k] = quadratic[instance, places[k]]
        graph = (linear[instance], starts, neighbours, couplings)
        pool = new_pool(states[instance])
        success[instance] = offer_reads(pool, graph, reads[instance], bit_keys, room, stop)
        offer_trials(pool, graph, bit_keys, room, stop)
        offer_neighbours(pool, graph, bit_keys, room[0], stop)


@compiled
def offer_reads(pool, graph, reads, bit_keys, room, stop):
    """Offer each distinct read and its descent; the share of reads at their lowest energy."""
    fields, _, waiting, queued = room
    count, n = reads.shape
    read_keys, read_energies = np.empty(count, np.uint64), np.empty(count)
    for read in range(count):
        read_keys[read] = key_of(reads[read], bit_keys)
    order = np.argsort(read_keys)
    x = np.empty(n, np.int8)
    for rank in range(count):
        if stopped(stop):
            break
        read = order[rank]
        if rank > 0 and read_keys[read] == read_keys[order[rank - 1]]:
            read_energies[read] = read_energies[order[rank - 1]]
            continue
        copy(reads[read], x)
        read_energies[read] = fields_of(graph, x, fields)
        offer(pool, x, read_energies[read], read_keys[read])
        size = 0
        for i in range(n):
            size = push(waiting, queued, size, i)
        energy, key, _ = descend(graph, x, room, size, np.int64(-1), read_energies[read], read_keys[read], bit_keys)
        offer(pool, x, energy, key)
    scale = np.abs(graph[0]).sum() + np.abs(graph[3]).sum()
    return (read_energies <= read_energies.min() + 1e-12 * scale).mean()


@compiled
def offer_trials(pool, graph, bit_keys, room, stop):
    """From the best state flip each bit in turn and descend with it held, as long as that improves the best."""
    states, energies, keys, _ = pool
    _, starts, neighbours, _ = graph
    fields, flips, waiting, queued = room
    n = states.shape[1]
    x, best = np.empty(n, np.int8), np.inf
    for _ in range(ROUNDS if n <= FEW_BITS else 2):
        if stopped(stop) or (not energies[0] < best - 1e-13 * abs(best) and best < np.inf):
            return
        copy(states[0], x)
        best, start_key = energies[0], keys[0]
        fields_of(graph, x, fields)
        for i in range(n):
            energy = best + flip_bit(graph, x, fields, i)
            size = 0
            for k in range(starts[i], starts[i + 1]):
                size = push(waiting, queued, size, neighbours[k])
            energy, key, flipped = descend(graph, x, room, size, i, energy, start_key ^ bit_keys[i], bit_keys)
            offer(pool, x, energy, key)
            for k in range(flipped - 1, -1, -1):
                flip_bit(graph, x, fields, flips[k])
            flip_bit(graph, x, fields, i)


@compiled
def offer_neighbours(pool, graph, bit_keys, fields, stop):
    """Offer the neighbours of the lowest states until all but the last in the pool have been expanded."""
    states = pool[0]
    count, n = states.shape
    for _ in range(ROUNDS * (n + count)):
        rank = next_to_expand(pool)
        if rank < 0 or stopped(stop):
            return
        fields_of(graph, states[rank], fields)
        offer_flips(pool, rank, fields, bit_keys)


@compiled
def push(waiting, queued, size, i):
    """Add bit i to the bits to look at unless it is one of them; returns how many there are."""
    if queued[i]:
        return size
    queued[i] = True
    waiting[size] = i
    return size + 1


@compiled
def descend(graph, x, room, size, held, energy, key, bit_keys):
    """Flip the bits that lower the energy among the first ``size`` waiting ones and the neighbours of flipped bits.

    Never flips the bit held. Returns the energy, the key and how many bits were flipped; ``flips`` says which.
    """
    _, starts, neighbours, _ = graph
    fields, flips, waiting, queued = room
    flipped = 0
    while size > 0:  # each flip adds few bits to those waiting, and flips are counted
        size -= 1
        i = waiting[size]
        queued[i] = False
        if i == held or (1 - 2 * x[i]) * fields[i] >= -1e-13 * abs(energy) or flipped == flips.size:
            continue
        energy += flip_bit(graph, x, fields, i)
        key ^= bit_keys[i]
        flips[flipped] = i
        flipped += 1
        for k in range(starts[i], starts[i + 1]):
            size = push(waiting, queued, size, neighbours[k])
    return energy, key, flipped


@compiled
def flip_bit(graph, x, fields, i):
    """Flip bit i of x and update the fields of its neighbours; the change of energy."""
    _, starts, neighbours, couplings = graph
    step = 1 - 2 * x[i]
    for k in range(starts[i], starts[i + 1]):
        fields[neighbours[k]] += step * couplings[k]
    x[i] += step
    return step * fields[i]


@compiled
def fields_of(graph, x, fields):
    """fields[i] = linear_i + Σ_j couplings_ij x_j for x ``[n]``; the energy of x."""
    linear, starts, neighbours, couplings = graph
    energy = 0.0
    for i in range(x.size):
        coupled = 0.0
        for k in range(starts[i], starts[i + 1]):
            coupled += couplings[k] * x[neighbours[k]]
        fields[i] = linear[i] + coupled
        energy += x[i] * (linear[i] + 0.5 * coupled)
    return energy
