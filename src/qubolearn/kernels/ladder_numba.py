"""The temperatures of replicas, compiled: given ones, or a ladder chosen by a short annealing of the QUBO itself."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import math

import numpy as np

from qubolearn.kernels.annealing_numba import compiled
from qubolearn.kernels.replicas_numba import offer_replicas, room_for, singles, sum_energies, sweep
from qubolearn.kernels.stopping import stopped

__all__ = ["set_betas"]

f32 = np.float32

#: The annealing that chooses temperatures: β grows by GROWTH at most STEPS times, with so many sweeps at each.
GROWTH, STEPS, SWEEPS_PER_STEP = 1.15, 90, 4
#: The hottest and the coldest replica raise the energy in these shares of their moves.
HOT_RATE, COLD_RATE = 0.05, 0.003


@compiled
def set_betas(units, replicas, ladder, cold, pool, target, stop):
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
