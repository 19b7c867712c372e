"""Parallel tempering, compiled: search for the lowest states, draw from a distribution, or move given chains.

:mod:`.replicas_numba` sweeps and exchanges the replicas; :mod:`.ladder_numba` chooses their temperatures.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from qubolearn.kernels.annealing_numba import compiled
from qubolearn.kernels.float_lanes import LANES
from qubolearn.kernels.ladder_numba import set_betas
from qubolearn.kernels.pool_numba import copy
from qubolearn.kernels.replicas_numba import (
    new_replicas,
    options_of,
    room_for,
    run,
    set_options,
    singles,
    sweep,
    write_bits,
)
from qubolearn.kernels.stopping import loaded, stopped
from qubolearn.kernels.units_numba import (
    chosen_options,
    empty_pool,
    export,
    offer_around,
    offer_neighbours,
    rule_out,
    units_of,
)

__all__ = ["NEVER", "move", "rule_out_all", "sample", "temper"]

#: More sweeps than any search takes.
NEVER = 2**62


@compiled
def temper(problem, clamps, seeds, ladders, sweeps, targets, stop, ends, homes, found):
    """Fill ``found`` (states, betas, exchanges, swept, last) with the lowest states met, lowest first, and the rest.

    ``problem`` is (linear, quadratic, graph, members) as :func:`units_of` takes them, with a batch. ``ladders``
    ``[batch, replicas]`` holds β from hot to cold, or 0 where it is to be chosen. An instance ends when a state at or
    below its target is found, or beyond the ``ends [qubos, 1]`` sweeps in which another one of the same QUBO found one;
    ``homes [batch]`` says which QUBO an instance is of. ``found`` is states ``[batch, count, n]``, betas
    ``[batch, replicas]``, the shares of swaps accepted ``[batch, replicas - 1]``, the sweeps done ``[batch]`` and the
    replicas' last states ``[batch, replicas, n]``.
    """
    states, _, _, swept, _ = found
    linear, quadratic, graph, members = problem
    for b in range(linear.shape[0]):
        one = (linear[b], quadratic[b], graph, members)
        clamp = clamps[b]
        if states.shape[1] == 1 and targets[b] > -np.inf:
            clamp = rule_out(linear[b], quadratic[b], graph, clamps[b], members, targets[b])
        how, end = (seeds[b], ladders[b], sweeps, targets[b], stop), ends[homes[b]]
        swept[b] = 0
        lowest = search(one, clamp, how, end, found, b)
        if lowest > targets[b] and differing(clamp, clamps[b]) > 0 and swept[b] <= loaded(end):
            first = states[b].copy()
            if search(one, clamps[b], how, end, found, b) >= lowest:
                for k in range(len(first)):
                    copy(first[k], states[b, k])


@compiled
def differing(clamp, other):
    """In how many bits two clamps ``[n]`` differ."""
    count = 0
    for i in range(clamp.size):
        count += clamp[i] != other[i]
    return count


@compiled
def rule_out_all(problem, clamps, targets, stop, ruled):
    """Fill ruled ``[batch, n]`` with clamps that also hold what the targets rule out."""
    linear, quadratic, graph, members = problem
    for b in range(linear.shape[0]):
        if stopped(stop):
            return
        ruled[b] = rule_out(linear[b], quadratic[b], graph, clamps[b], members, targets[b])


@compiled
def search(problem, clamp, how, end, found, b):
    """One run for instance b; the lowest energy. Its sweeps are added to those that the instance took before."""
    seed, ladder, sweeps, target, stop = how
    states, betas, exchanges, swept, last = found
    linear, quadratic, graph, members = problem
    units, constant = units_of(linear, quadratic, graph, clamp, members)
    pool = empty_pool(states.shape[1], units[0].size - 1)
    replicas = new_replicas(units, ladder.size, seed)
    aim = target - constant + 1e-9 * (1 + abs(constant) + np.abs(units[2]).sum() + np.abs(units[5]).sum())
    chosen = set_betas(units, replicas, ladder, np.inf, pool, aim, stop)
    swept[b] += chosen
    swept[b] += run(units, replicas, sweeps - chosen, pool, aim, exchanges[b], stop, swept[b], end)
    for k in range(ladder.size):
        betas[b, k] = replicas[2][replicas[4][k]]
        write_bits(units, replicas, replicas[4][k], clamp, last[b, k])
    if pool[1][0] > aim or states.shape[1] > 1:
        x = np.empty(units[0].size - 1, np.int64)
        for lane in range(ladder.size):
            options_of(units, replicas, lane, x)
            offer_around(pool, units, x)
        offer_neighbours(pool, units)
    if pool[1][0] <= aim and swept[b] < loaded(end):
        end[0] = swept[b]  # two threads may write at once: the later one stays, and others run on for a while
    export(pool, units, clamp, states[b])
    return pool[1][0] + constant


@compiled
def sample(problem, clamps, seeds, ladders, colds, burn, thin, stop, reads, betas):
    """Fill reads ``[batch, r, n]`` with states at β = ``colds [batch]``, ``thin`` sweeps apart, after ``burn`` ones.

    ``betas [batch, replicas]`` is filled with the temperatures, from hot to cold.
    """
    linear, quadratic, graph, members = problem
    for b in range(linear.shape[0]):
        units, _ = units_of(linear[b], quadratic[b], graph, clamps[b], members)
        pool = empty_pool(1, units[0].size - 1)
        replicas = new_replicas(units, ladders.shape[1], seeds[b])
        set_betas(units, replicas, ladders[b], colds[b], pool, -np.inf, stop)
        betas[b] = replicas[2]
        exchanged, end = np.zeros(ladders.shape[1] - 1), np.full(1, NEVER)
        run(units, replicas, burn, pool, -np.inf, exchanged, stop, 0, end)
        for read in range(reads.shape[1]):
            run(units, replicas, thin, pool, -np.inf, exchanged, stop, 0, end)
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
        raised, room = np.zeros(lanes, np.float32), room_for(units)
        for _ in range(sweeps):
            if stopped(stop):
                return
            sweep(singles(units), replicas, raised, room)
        for chain in range(count):
            write_bits(units, replicas, chain, clamps[b], chains[b, chain])
