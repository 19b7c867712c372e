"""Parallel tempering, compiled: replicas of one QUBO at different temperatures, sixteen in the lanes of a vector.

A sweep visits every unit (see :mod:`qubolearn.kernels.units_numba`) and draws its option from the exact conditional
distribution, exp(-β field), given all other units (heat bath). Fields are summed anew from the couplings of the unit's
options: a vector holds whether an option is chosen, replica by replica, so that one multiply-add adds a coupling for
sixteen replicas, and no field is stored that a move would have to update.

After each sweep replicas at neighbouring temperatures swap them with probability min(1, exp(ΔβΔE)).
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
from qubolearn.kernels.pool_numba import offer
from qubolearn.kernels.stopping import stopped
from qubolearn.kernels.units_numba import (
    chosen_options,
    empty_pool,
    export,
    fields_of,
    key_of,
    offer_around,
    offer_neighbours,
    rule_out,
    units_of,
)

__all__ = ["move", "rule_out_all", "sample", "temper"]

f32 = np.float32

#: The run that chooses temperatures: β grows by GROWTH at most STEPS times, with so many sweeps at each.
GROWTH, STEPS, SWEEPS_PER_STEP = 1.15, 90, 4
#: The hottest and the coldest replica raise the energy in these shares of their moves.
HOT_RATE, COLD_RATE = 0.05, 0.003
#: Sweeps between two sums of the energies in float64: in between float32 changes are added up.
SWEEPS_PER_SUM = 32


@compiled
def temper(problem, clamps, seeds, ladders, sweeps, targets, stop, found):
    """Fill ``found`` (states, betas, exchanges, swept) with the lowest states met, lowest first, and what was done.

    ``problem`` is (linear, quadratic, graph, members) as :func:`units_of` takes them, with a batch. ``ladders``
    ``[batch, replicas]`` holds β from hot to cold, or 0 where it is to be chosen. An instance ends when a state at or
    below its target is found. ``found`` is states ``[batch, count, n]``, betas ``[batch, replicas]``, the shares of
    swaps accepted ``[batch, replicas - 1]`` and the sweeps done ``[batch]``.
    """
    states, _, _, swept = found
    linear, quadratic, graph, members = problem
    for b in range(linear.shape[0]):
        one = (linear[b], quadratic[b], graph, members)
        clamp = clamps[b]
        if states.shape[1] == 1 and targets[b] > -np.inf:
            clamp = rule_out(linear[b], quadratic[b], graph, clamps[b], members, targets[b])
        lowest = search(one, clamp, seeds[b], ladders[b], sweeps, targets[b], stop, found, b)
        if lowest > targets[b] and (clamp != clamps[b]).any():
            first, before = states[b].copy(), swept[b]
            if search(one, clamps[b], seeds[b], ladders[b], sweeps, targets[b], stop, found, b) >= lowest:
                states[b] = first
            swept[b] += before


@compiled
def rule_out_all(problem, clamps, targets, stop, ruled):
    """Fill ruled ``[batch, n]`` with clamps that also hold what the targets rule out."""
    linear, quadratic, graph, members = problem
    for b in range(linear.shape[0]):
        if stopped(stop):
            return
        ruled[b] = rule_out(linear[b], quadratic[b], graph, clamps[b], members, targets[b])


@compiled
def search(problem, clamp, seed, ladder, sweeps, target, stop, found, b):
    """One run for instance b; the lowest energy."""
    states, betas, exchanges, swept = found
    linear, quadratic, graph, members = problem
    units, constant = units_of(linear, quadratic, graph, clamp, members)
    pool = empty_pool(states.shape[1], units[0].size - 1)
    replicas = new_replicas(units, ladder.size, seed)
    aim = target - constant + 1e-9 * (1 + abs(constant) + np.abs(units[2]).sum() + np.abs(units[5]).sum())
    swept[b] = prepare(units, replicas, ladder, np.inf, pool, aim, stop)
    swept[b] += run(units, replicas, sweeps - swept[b], pool, aim, exchanges[b], stop)
    for k in range(ladder.size):
        betas[b, k] = replicas[2][replicas[4][k]]
    if pool[1][0] > aim or states.shape[1] > 1:
        x = np.empty(units[0].size - 1, np.int64)
        for lane in range(ladder.size):
            options_of(units, replicas, lane, x)
            offer_around(pool, units, x)
        offer_neighbours(pool, units)
    export(pool, units, clamp, states[b])
    return pool[1][0] + constant


@compiled
def sample(problem, clamps, seeds, ladders, colds, burn, thin, stop, reads):
    """Fill reads ``[batch, r, n]`` with states at β = ``colds [batch]``, ``thin`` sweeps apart, after ``burn`` ones."""
    linear, quadratic, graph, members = problem
    for b in range(linear.shape[0]):
        units, _ = units_of(linear[b], quadratic[b], graph, clamps[b], members)
        pool = empty_pool(1, units[0].size - 1)
        replicas = new_replicas(units, ladders.shape[1], seeds[b])
        prepare(units, replicas, ladders[b], colds[b], pool, -np.inf, stop)
        exchanged = np.zeros(ladders.shape[1] - 1)
        run(units, replicas, burn, pool, -np.inf, exchanged, stop)
        for read in range(reads.shape[1]):
            run(units, replicas, thin, pool, -np.inf, exchanged, stop)
            write_bits(units, replicas, replicas[4][-1], clamps[b], reads[b, read])


@compiled
def move(problem, clamps, seeds, colds, sweeps, stop, chains):
    """Move chains ``[batch, c, n]`` in place by so many sweeps at β = ``colds [batch, c]``, each by itself."""
    linear, quadratic, graph, members = problem
    count = chains.shape[1]
    lanes = (count + LANES - 1) // LANES * LANES
    for b in range(linear.shape[0]):
        units, _ = units_of(linear[b], quadratic[b], graph, clamps[b], members)
        replicas = new_replicas(units, lanes, seeds[b])
        replicas[2][:count] = colds[b]
        replicas[2][count:] = colds[b, 0]  # lanes without a chain
        x = np.empty(units[0].size - 1, np.int64)
        for chain in range(count):
            chosen_options(units, chains[b, chain], x)
            set_options(units, replicas, chain, x)
        raised, room = np.zeros(lanes, f32), room_for(units)
        for _ in range(sweeps):
            if stopped(stop):
                return
            sweep(singles(units), replicas, raised, room)
        for chain in range(count):
            write_bits(units, replicas, chain, clamps[b], chains[b, chain])


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
def prepare(units, replicas, ladder, cold, pool, target, stop):
    """Set the replicas' β: the given ladder, or one chosen by a short annealing; the sweeps that took."""
    betas = replicas[2]
    if ladder[0] > 0:
        for k in range(betas.size):
            betas[k] = ladder[k]
        sum_energies(units, replicas)
        return 0
    couplings, raised, room = singles(units), np.zeros(betas.size, f32), room_for(units)
    steps, rates, means = np.empty(STEPS), np.ones(STEPS), np.zeros(STEPS)
    beta, size, done = min(first_beta(units), cold), STEPS, 0
    for step in range(STEPS):
        betas[:] = beta
        raised[:] = 0
        for _ in range(SWEEPS_PER_STEP):
            sweep(couplings, replicas, raised, room)
        done += SWEEPS_PER_STEP
        sum_energies(units, replicas)
        offer_replicas(units, replicas, pool)
        steps[step], means[step] = beta, replicas[3].mean()
        rates[step] = raised.sum() / (raised.size * SWEEPS_PER_STEP * max(1, units[0].size - 1))
        coldest = beta >= cold if cold < np.inf else rates[step] < COLD_RATE
        if coldest or pool[1][0] <= target or stopped(stop):
            size = step + 1
            break
        beta = min(beta * GROWTH, cold)
    spread(steps[:size], rates[:size], means[:size], betas)
    return done


@compiled
def first_beta(units):
    """A β at which every option is nearly as likely as the others."""
    _, _, h, edge_first, _, edge_value = units
    largest = 0.0
    for option in range(h.size):
        size = abs(h[option])
        for edge in range(edge_first[option], edge_first[option + 1]):
            size += abs(edge_value[edge])
        largest = max(largest, size)
    return 0.5 / largest if largest > 0 else 1.0


@compiled
def spread(steps, rates, means, betas):
    """Replicas' β between the first step with few enough raising moves and the last one, for equal rates of exchange.

    The chance of a swap between β and β' is a function of (β' - β)(E(β) - E(β')); replicas stand at equal distances
    of the sum of its square roots along the measured energies.
    """
    last = steps.size - 1
    hot = last
    while hot > 0 and rates[hot - 1] < HOT_RATE:
        hot -= 1
    length = np.zeros(last + 1)
    for step in range(hot, last):
        gap = (steps[step + 1] - steps[step]) * (means[step] - means[step + 1])
        # the second term keeps steps of equal energy apart
        length[step + 1] = length[step] + math.sqrt(max(gap, 0.0)) + 1e-3
    step = hot
    for k in range(betas.size):
        wanted = length[last] * k / max(1, betas.size - 1)
        while step < last - 1 and length[step + 1] < wanted:
            step += 1
        share = 0.0
        if last > hot:
            share = min(1.0, (wanted - length[step]) / (length[step + 1] - length[step]))
        betas[k] = steps[step] + share * (steps[min(step + 1, last)] - steps[step])


@compiled
def run(units, replicas, sweeps, pool, target, exchanges, stop):
    """So many sweeps with exchanges, or fewer where the target is met; how many. Fills the shares of swaps."""
    couplings, room = singles(units), room_for(units)
    _, generators, betas, energies, order, change = replicas
    raised, tried = np.zeros(betas.size, f32), np.zeros(exchanges.size)
    exchanges[:] = 0
    state = mixed(generators[0])
    done = 0
    while done < sweeps and pool[1][0] > target and not stopped(stop):
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
def offer_replicas(units, replicas, pool):
    """Offer the states of all replicas whose energy is below that of the highest in the pool."""
    energies = replicas[3]
    for lane in range(energies.size):
        if energies[lane] < pool[1][-1]:
            x = np.empty(units[0].size - 1, np.int64)
            options_of(units, replicas, lane, x)
            key = key_of(x)
            known = False
            for rank in range(pool[1].size):
                known = known or (pool[2][rank] == key and pool[1][rank] < np.inf)
            if not known:
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
