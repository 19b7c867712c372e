"""Replicas of one QUBO at different temperatures, compiled: sixteen in the lanes of a vector, swept and exchanged.

A sweep visits every unit (see :mod:`qubolearn.kernels.units_numba`) and draws its option from the exact conditional
distribution, exp(-β field), given all other units (heat bath). Fields are summed anew from the couplings of the unit's
options: a vector holds whether an option is chosen, replica by replica, so that one multiply-add adds a coupling for
sixteen replicas, and no field is stored that a move would have to update.

After each sweep, replicas at neighbouring temperatures swap them with probability min(1, exp(ΔβΔE)).
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import math

import numpy as np

from qubolearn.kernels.annealing_numba import compiled, inlined, mixed, next_random
from qubolearn.kernels.float_lanes import (
    LANES,
    at_most,
    draw,
    equal,
    exp,
    fill,
    least,
    load,
    load_states,
    save,
    save_states,
)
from qubolearn.kernels.pool_numba import holds, offer
from qubolearn.kernels.stopping import loaded, stopped
from qubolearn.kernels.units_numba import fields_of, key_of

__all__ = [
    "new_replicas",
    "offer_replicas",
    "options_of",
    "room_for",
    "run",
    "set_options",
    "singles",
    "sum_energies",
    "sweep",
    "write_bits",
]

f32 = np.float32

#: Sweeps between two sums of the energies in float64: in between float32 changes are added up.
SWEEPS_PER_SUM = 32


@compiled
def new_replicas(units, count, seed):
    """Replicas in random states: chosen options as 0 and 1 ``[options * count]``, generators, β, energies and lanes.

    The last array says which lane holds the k-th hottest replica.
    """
    first, options = units[0], units[2].size
    chosen, generators = np.zeros(options * count, f32), np.empty(count, np.uint64)
    for lane in range(count):
        state = mixed(mixed(np.uint64(seed)) + np.uint64(lane))
        for unit in range(first.size - 1):
            state = next_random(state)
            size = np.uint64(first[unit + 1] - first[unit])
            option = first[unit] + np.int64((state >> np.uint64(11)) % size)
            chosen[option * count + lane] = 1
        generators[lane] = state
    return chosen, generators, np.zeros(count, f32), np.zeros(count), np.arange(count), np.zeros(count, f32)


@compiled
def run(units, replicas, sweeps, pool, target, exchanges, stop, before, end):
    """So many sweeps with exchanges, or fewer where the target is met; how many. Fills the shares of swaps.

    With the sweeps ``before`` it also ends beyond ``end [1]`` sweeps, which other threads may lower.
    """
    couplings, room = singles(units), room_for(units)
    _, generators, betas, energies, order, change = replicas
    raised, tried = np.zeros(betas.size, f32), np.zeros(exchanges.size)
    exchanges[:] = 0
    state = mixed(generators[0])
    done = 0
    while done < sweeps and pool[1][0] > target and not stopped(stop) and before + done <= loaded(end):
        sweep(couplings, replicas, raised, room)
        done += 1
        if done % SWEEPS_PER_SUM == 0:
            sum_energies(units, replicas)
        else:
            for lane in range(betas.size):
                energies[lane] += change[lane]
        offer_replicas(units, replicas, pool)
        for k in range(done % 2, betas.size - 1, 2):
            hot, cold = order[k], order[k + 1]
            state = next_random(state)
            uniform = (state >> np.uint64(11)) * 2.0**-53
            tried[k] += 1
            if uniform < math.exp(min(0.0, (betas[cold] - betas[hot]) * (energies[cold] - energies[hot]))):
                order[k], order[k + 1] = cold, hot
                betas[hot], betas[cold] = betas[cold], betas[hot]
                exchanges[k] += 1
    for k in range(exchanges.size):
        exchanges[k] /= max(1.0, tried[k])
    return done


@compiled
def sweep(couplings, replicas, raised, room):
    """Draw the option of every unit in turn, in all replicas; add to ``raised`` how often that raised the energy."""
    first = couplings[0]
    chosen, generators, betas, _, _, change = replicas
    count = betas.size
    for lane in range(0, count, LANES):
        beta, state = load(betas, lane), load_states(generators, lane)
        changed, ups = fill(f32(0)), load(raised, lane)
        for unit in range(first.size - 1):
            start, size = first[unit], first[unit + 1] - first[unit]
            lowest, before = fill(f32(np.inf)), fill(f32(0))
            for k in range(size):
                field = field_of(couplings, start + k, chosen, count, lane)
                save(room, LANES * k, field)
                lowest = least(lowest, field)
                before = before + field * load(chosen, (start + k) * count + lane)
            total = fill(f32(0))
            for k in range(size):
                total = total + exp((lowest - load(room, LANES * k)) * beta)
                save(room, LANES * (size + k), total)
            state, uniform = draw(state)
            after = choose(chosen, start, size, count, lane, room, uniform * total)
            changed = changed + (after - before)
            ups = ups + (fill(f32(1)) - at_most(after, before))
        save_states(generators, lane, state)
        save(change, lane, changed)
        save(raised, lane, ups)


@inlined
def field_of(couplings, option, chosen, count, lane):
    """The field of an option in sixteen replicas, in four sums: one would wait for each addition."""
    _, h, edge_first, edge_to, edge_value = couplings
    a, b, c, d = fill(h[option]), fill(f32(0)), fill(f32(0)), fill(f32(0))
    start, end = edge_first[option], edge_first[option + 1]
    for edge in range(start, end - 3, 4):
        a = a + fill(edge_value[edge]) * load(chosen, edge_to[edge] * count + lane)
        b = b + fill(edge_value[edge + 1]) * load(chosen, edge_to[edge + 1] * count + lane)
        c = c + fill(edge_value[edge + 2]) * load(chosen, edge_to[edge + 2] * count + lane)
        d = d + fill(edge_value[edge + 3]) * load(chosen, edge_to[edge + 3] * count + lane)
    for edge in range(end - (end - start) % 4, end):
        a = a + fill(edge_value[edge]) * load(chosen, edge_to[edge] * count + lane)
    return (a + b) + (c + d)


@inlined
def choose(chosen, start, size, count, lane, room, level):
    """Choose the option at which the cumulated weight passes the level; the fields of those chosen."""
    option = fill(f32(0))
    for k in range(size - 1):
        option = option + at_most(load(room, LANES * (size + k)), level)
    after = fill(f32(0))
    for k in range(size):
        one = equal(option, fill(f32(k)))
        save(chosen, (start + k) * count + lane, one)
        after = after + one * load(room, LANES * k)
    return after


@compiled
def singles(units):
    """The couplings in float32, which is what sweeps use."""
    first, _, h, edge_first, edge_to, edge_value = units
    return first, h.astype(f32), edge_first, edge_to, edge_value.astype(f32)


@compiled
def room_for(units):
    """Room for the fields and the cumulated weights of one unit's options."""
    largest = 1
    for unit in range(units[0].size - 1):
        largest = max(largest, units[0][unit + 1] - units[0][unit])
    return np.empty(2 * LANES * largest, f32)


@compiled
def offer_replicas(units, replicas, pool):
    """Offer the states of all replicas whose energy is below that of the highest in the pool."""
    energies = replicas[3]
    for lane in range(energies.size):
        if energies[lane] < pool[1][-1]:
            x = np.empty(units[0].size - 1, np.int64)
            options_of(units, replicas, lane, x)
            key = key_of(x)
            if not holds(pool, key):
                offer(pool, x, fields_of(units, x, np.empty(units[2].size)), key)


@compiled
def sum_energies(units, replicas):
    """The energies of all replicas anew, in float64."""
    x, fields = np.empty(units[0].size - 1, np.int64), np.empty(units[2].size)
    for lane in range(replicas[3].size):
        options_of(units, replicas, lane, x)
        replicas[3][lane] = fields_of(units, x, fields)


@compiled
def options_of(units, replicas, lane, x):
    """The options x ``[units]`` chosen in one lane."""
    first, count = units[0], replicas[2].size
    for unit in range(x.size):
        x[unit] = first[unit]
        while replicas[0][x[unit] * count + lane] == 0 and x[unit] < first[unit + 1] - 1:
            x[unit] += 1


@compiled
def set_options(units, replicas, lane, x):
    """Choose options x ``[units]`` in one lane."""
    chosen, count = replicas[0], replicas[2].size
    for option in range(units[2].size):
        chosen[option * count + lane] = 0
    for option in x:
        chosen[option * count + lane] = 1


@compiled
def write_bits(units, replicas, lane, clamp, state):
    """The bits ``[n]`` of one lane, clamped ones included."""
    count = replicas[2].size
    for i in range(clamp.size):
        state[i] = 1 if clamp[i] == 1 else 0
    for option in range(units[2].size):
        if units[1][option] >= 0 and replicas[0][option * count + lane] == 1:
            state[units[1][option]] = 1
