"""QUBOs with clamped bits and one-hot groups, compiled: the units that a search moves, and the lowest states.

A *unit* is what changes in one move: a one-hot group, whose *options* are its free bits, or a free bit outside all
groups, whose options are that bit and "none". Clamped bits are in no unit; what they add to others is part of ``h``.
A state holds one option of each unit. The energy of choosing option o, given all other units, is its *field*
h_o + Σ J_op over the chosen options p of other units: couplings within a unit are never felt.

One instance is a tuple of arrays, made by :func:`units_of`:

- ``first [units + 1]``: the options of unit u are first[u] ... first[u + 1] - 1
- ``bit [options]``: the bit of each option, -1 for "none"
- ``h [options]``, float64
- ``edge_first [options + 1]``, ``edge_to``, ``edge_value``: the couplings of each option, float64
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from qubolearn.kernels.annealing_numba import compiled, mixed
from qubolearn.kernels.pool_numba import DESCENT, ROUNDS, new_pool, next_to_expand, offer, offer_changed

#: Options up to which states are also sought by descents with one unit held: a few milliseconds.
HELD_OPTIONS = 512

__all__ = ["empty_pool", "export", "harvest_units", "offer_around", "offer_neighbours", "rule_out", "units_of"]


@compiled
def units_of(linear, quadratic, graph, clamp, members):
    """The units of one instance, and the energy of its clamped bits alone.

    linear ``[n]`` and quadratic ``[m]`` are float64. ``graph`` is (first, to, edge): bit i has the neighbours
    ``to[first[i] : first[i + 1]]`` through the edges ``edge[...]``. clamp ``[n]`` holds 0, 1 and -1 for free bits.
    ``members`` is (first, bits, in_group): the bits of every group and every other bit by itself.
    """
    member_first, member_bits, in_group = members
    n = linear.size
    option_of = np.full(n, -1)
    first, bit = np.zeros(member_first.size, np.int64), np.empty(2 * n, np.int64)
    units = options = 0
    for member in range(member_first.size - 1):
        before = options
        for k in range(member_first[member], member_first[member + 1]):
            i = member_bits[k]
            if clamp[i] < 0:
                option_of[i], bit[options] = options, i
                options += 1
        if options > before:
            if not in_group[member]:
                bit[options] = -1
                options += 1
            units += 1
            first[units] = options
    first, bit = first[: units + 1].copy(), bit[:options].copy()
    return with_edges(linear, quadratic, graph, clamp, first, bit, option_of)


@compiled
def with_edges(linear, quadratic, graph, clamp, first, bit, option_of):
    """The rest of :func:`units_of`: fields of clamped bits, and couplings between options of different units."""
    graph_first, graph_to, graph_edge = graph
    h, edge_first = np.zeros(bit.size), np.zeros(bit.size + 1, np.int64)
    edge_to, edge_value = np.empty(graph_to.size, np.int64), np.empty(graph_to.size)
    edges, constant = 0, 0.0
    for i in range(linear.size):
        if clamp[i] == 1:
            constant += linear[i]
            for slot in range(graph_first[i], graph_first[i + 1]):
                if clamp[graph_to[slot]] == 1:
                    constant += 0.5 * quadratic[graph_edge[slot]]
    for unit in range(first.size - 1):
        for option in range(first[unit], first[unit + 1]):
            i = bit[option]
            if i >= 0:
                h[option] = linear[i]
                for slot in range(graph_first[i], graph_first[i + 1]):
                    j, value = graph_to[slot], quadratic[graph_edge[slot]]
                    other = option_of[j]
                    if clamp[j] == 1:
                        h[option] += value
                    elif other >= 0 and value != 0 and not first[unit] <= other < first[unit + 1]:
                        edge_to[edges], edge_value[edges] = other, value
                        edges += 1
            edge_first[option + 1] = edges
    return (first, bit, h, edge_first, edge_to[:edges].copy(), edge_value[:edges].copy()), constant


@compiled
def rule_out(linear, quadratic, graph, clamp, members, target):
    """The clamp ``[n]`` of one instance with every bit fixed that has one value in all states of at most the target.

    With m_o = h_o + ½ Σ_v min over options p of unit v of J_op, every energy is at least Σ_u min_o m_o, and at least
    m_o - min m more where unit u takes option o. What is fixed changes the fields of others, hence the rounds. Where no
    state can be as low as the target the clamp comes back as it was.
    """
    ruled = clamp.copy()
    for _ in range(clamp.size + 1):
        units, constant = units_of(linear, quadratic, graph, ruled, members)
        first, bit = units[0], units[1]
        bounds = option_bounds(units)
        lowest = np.empty(first.size - 1)
        for unit in range(lowest.size):
            lowest[unit] = np.inf
            for option in range(first[unit], first[unit + 1]):
                lowest[unit] = min(lowest[unit], bounds[option])
        slack = target - constant - lowest.sum()
        tolerance = 1e-9 * (1 + abs(constant) + np.abs(bounds).sum())
        if slack < -tolerance:
            return clamp.copy()
        fixed = 0
        for unit in range(lowest.size):
            left, last = 0, -1
            for option in range(first[unit], first[unit + 1]):
                if bounds[option] - lowest[unit] <= slack + tolerance:
                    left, last = left + 1, option
                elif bit[option] >= 0:
                    ruled[bit[option]] = 0
                    fixed += 1
            if left == 1 and bit[last] >= 0:
                ruled[bit[last]] = 1
                fixed += 1
        if fixed == 0:
            break
    return ruled


@compiled
def option_bounds(units):
    """m_o of :func:`rule_out` for every option."""
    first, _, h, edge_first, edge_to, edge_value = units
    unit_of = np.empty(h.size, np.int64)
    for unit in range(first.size - 1):
        unit_of[first[unit] : first[unit + 1]] = unit
    bounds = h.copy()
    lowest, hits = np.zeros(first.size - 1), np.zeros(first.size - 1, np.int64)
    for option in range(h.size):
        for edge in range(edge_first[option], edge_first[option + 1]):
            unit = unit_of[edge_to[edge]]
            lowest[unit] = edge_value[edge] if hits[unit] == 0 else min(lowest[unit], edge_value[edge])
            hits[unit] += 1
        for edge in range(edge_first[option], edge_first[option + 1]):
            unit = unit_of[edge_to[edge]]
            if hits[unit] > 0:
                # an option without a coupling leaves 0
                whole = hits[unit] == first[unit + 1] - first[unit]
                bounds[option] += 0.5 * (lowest[unit] if whole else min(0.0, lowest[unit]))
                hits[unit] = 0
    return bounds


@compiled
def fields_of(units, x, fields):
    """Fill fields ``[options]`` for the chosen options x ``[units]``; returns the energy of x."""
    _, _, h, edge_first, edge_to, edge_value = units
    for option in range(h.size):
        fields[option] = h[option]
    energy = 0.0
    for option in x:
        energy += h[option]
        for edge in range(edge_first[option], edge_first[option + 1]):
            fields[edge_to[edge]] += edge_value[edge]
    for option in x:
        energy += 0.5 * (fields[option] - h[option])
    return energy


@compiled
def key_of(x):
    """The key of x: the exclusive or of its options' keys."""
    key = np.uint64(0)
    for option in x:
        key ^= mixed(np.uint64(option))
    return key


@compiled
def empty_pool(count, units):
    """A pool of ``count`` states, each the chosen options of so many units."""
    return new_pool(np.zeros((count, units), np.int64))


@compiled
def descend(units, x, fields, energy, held):
    """Take the best move until none lowers the energy, none of the unit ``held``; changes x and fields in place.

    Returns the energy.
    """
    first, _, _, edge_first, edge_to, edge_value = units
    for _ in range(DESCENT * x.size + ROUNDS):
        lowest, best, place = -1e-13 * abs(energy), -1, 0
        for unit in range(x.size):
            own = fields[x[unit]]
            for option in range(first[unit], first[unit + 1]):
                if fields[option] - own < lowest and unit != held:
                    lowest, best, place = fields[option] - own, option, unit
        if best < 0:
            break
        for edge in range(edge_first[x[place]], edge_first[x[place] + 1]):
            fields[edge_to[edge]] -= edge_value[edge]
        for edge in range(edge_first[best], edge_first[best + 1]):
            fields[edge_to[edge]] += edge_value[edge]
        x[place] = best
        energy += lowest
    return energy


@compiled
def offer_around(pool, units, x):
    """Offer x and the local minimum below it."""
    fields = np.empty(units[2].size)
    energy = fields_of(units, x, fields)
    offer(pool, x, energy, key_of(x))
    low = x.copy()
    energy = descend(units, low, fields, energy, np.int64(-1))
    offer(pool, low, energy, key_of(low))


@compiled
def offer_held_descents(pool, units):
    """From the lowest state choose every other option in turn and descend with its unit held, until that finds no more.

    The second-lowest state differs from the lowest one in some unit.
    """
    first, fields, key = units[0], np.empty(units[2].size), ~pool[2][0]
    for _ in range(ROUNDS):
        if key == pool[2][0]:
            return
        start, key = pool[0][0].copy(), pool[2][0]
        for unit in range(start.size):
            for option in range(first[unit], first[unit + 1]):
                if option != start[unit]:
                    x = start.copy()
                    x[unit] = option
                    energy = descend(units, x, fields, fields_of(units, x, fields), unit)
                    offer(pool, x, energy, key_of(x))


@compiled
def offer_neighbours(pool, units):
    """Offer the neighbours of the lowest states until all but the last in the pool have been expanded.

    While the pool is not full every neighbour is taken, so that it fills up where there are that many states.
    """
    states, _, keys, _ = pool
    first, fields = units[0], np.empty(units[2].size)
    for _ in range(ROUNDS * (fields.size + states.shape[0])):
        rank = next_to_expand(pool)
        if rank < 0:
            return
        x, key = states[rank].copy(), keys[rank]
        energy = fields_of(units, x, fields)
        for unit in range(x.size):
            for option in range(first[unit], first[unit + 1]):
                if option != x[unit]:
                    changed = energy + (fields[option] - fields[x[unit]])
                    offered = key ^ mixed(np.uint64(x[unit])) ^ mixed(np.uint64(option))
                    offer_changed(pool, x, unit, option, changed, offered)


@compiled
def export(pool, units, clamp, states):
    """Write the pool as bits into states ``[count, n]``, clamped bits included."""
    for rank in range(states.shape[0]):
        for i in range(clamp.size):
            states[rank, i] = 1 if clamp[i] == 1 else 0
        for option in pool[0][rank]:
            if units[1][option] >= 0:
                states[rank, units[1][option]] = 1


@compiled
def chosen_options(units, state, x):
    """Fill x ``[units]`` with the options chosen by bits ``[n]``; where not one is, by the least linear term."""
    first, bit, h, _, _, _ = units
    for unit in range(x.size):
        ones = 0
        for option in range(first[unit], first[unit + 1]):
            ones += bit[option] >= 0 and state[bit[option]] == 1
        has_none = bit[first[unit + 1] - 1] < 0
        best = -1
        for option in range(first[unit], first[unit + 1]):
            is_none = bit[option] < 0
            fits = is_none == has_none if ones == 0 else not is_none and state[bit[option]] == 1
            if fits and (best < 0 or h[option] < h[best]):
                best = option
        x[unit] = best


@compiled
def harvest_units(linear, quadratic, graph, clamps, members, reads, states):
    """Fill states ``[batch, count, n]``, lowest first, from reads ``[batch, r, n]``, allowed or not."""
    for b in range(linear.shape[0]):
        units, _ = units_of(linear[b], quadratic[b], graph, clamps[b], members)
        pool = empty_pool(states.shape[1], units[0].size - 1)
        x = np.empty(units[0].size - 1, np.int64)
        for read in range(reads.shape[1]):
            chosen_options(units, reads[b, read], x)
            offer_around(pool, units, x)
        if units[2].size <= HELD_OPTIONS:
            offer_held_descents(pool, units)
        offer_neighbours(pool, units)
        export(pool, units, clamps[b], states[b])
