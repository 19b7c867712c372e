"""The lowest distinct states met so far, compiled: a short list that searches offer states to.

A pool is a tuple of arrays, lowest state first: states ``[count, size]``, energies ``[count]`` (infinite where nothing
is stored yet), keys ``[count]`` that tell states apart, and ``[count]`` whether a state's neighbours were offered too.

Without ties the k-th lowest state is a local minimum or a neighbour of one of the k - 1 lower ones. So a search offers
the local minima that it meets, and then the neighbours of every state that :func:`next_to_expand` names.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from qubolearn.kernels.annealing_numba import compiled

__all__ = ["DESCENT", "ROUNDS", "copy", "holds", "new_pool", "next_to_expand", "offer", "offer_changed"]

# Ties make accumulated energies differ by roundings, so that two states can each look better than the other. No loop
# may depend on energies alone: each has a number of rounds that it cannot pass.
ROUNDS = 64
DESCENT = 8  # flips of a descent, as a multiple of n; a descent from a read takes a small share of n


@compiled
def new_pool(states):
    """An empty pool that keeps its states in ``states [count, size]``."""
    count = states.shape[0]
    return states, np.full(count, np.inf), np.zeros(count, np.uint64), np.zeros(count, np.bool_)


@compiled
def offer(pool, x, energy, key):
    """Put x ``[size]`` into the pool if it is low enough and not there yet."""
    # np.int64(-1): numba would compile a version of the function for the literal beside the general one.
    offer_changed(pool, x, np.int64(-1), np.int64(0), energy, key)


@compiled
def offer_changed(pool, x, place, value, energy, key):
    """:func:`offer` of x with ``x[place] = value``, or as it is where place < 0; energy and key are the new ones."""
    states, energies, keys, expanded = pool
    last = energies.size - 1
    if energy >= energies[last] or holds(pool, key):
        return
    rank = last
    while rank > 0 and energies[rank - 1] > energy:
        copy(states[rank - 1], states[rank])
        energies[rank], keys[rank], expanded[rank] = energies[rank - 1], keys[rank - 1], expanded[rank - 1]
        rank -= 1
    copy(x, states[rank])
    if place >= 0:
        states[rank, place] = value
    energies[rank], keys[rank], expanded[rank] = energy, key, False


@compiled
def holds(pool, key):
    """Whether the state of this key is in the pool."""
    _, energies, keys, _ = pool
    rank = energies.size - 1
    while rank >= 0 and not (keys[rank] == key and energies[rank] < np.inf):
        rank -= 1
    return rank >= 0


@compiled
def next_to_expand(pool):
    """The rank of the lowest state whose neighbours were not offered, marked as expanded; -1 where all are complete.

    The last of several states need not be expanded: what lies below it is a local minimum or next to a lower state.
    """
    _, energies, _, expanded = pool
    for rank in range(max(1, energies.size - 1)):
        if energies[rank] == np.inf:
            return -1
        if not expanded[rank]:
            expanded[rank] = True
            return rank
    return -1


@compiled
def copy(source, target):
    """target[:] = source, which takes numba ten times as long to compile."""
    for i in range(source.size):
        target[i] = source[i]
