"""Inequalities in the moves of annealing, against slack bits under neal and against CP-SAT, at equal CPU seconds."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import torch
from dwave.samplers import SimulatedAnnealingSampler

from benchmarks import Record, filled, threads, timed
from qubolearn import Groups, SimulatedAnnealing, solve, to_bqm
from qubolearn.qubo import LinearConstraint, with_penalties

#: CPU seconds of each solver on an instance, instances of a family, and reads of annealing.
SECONDS, INSTANCES, READS = 1.0, 3, 20


class Case(NamedTuple):
    """An integer QUBO ``[n, n]`` to minimize under groups and constraints (a ``[m, n]``, b ``[m]``)."""

    A: Any
    groups: Groups
    a: Any
    b: Any


def knapsack(rng: np.random.Generator, constraints: int = 1, n: int = 100, pairs: float = 0.0) -> Case:
    """Return items of values and sizes 10 to 99 and capacities of half of all sizes; with pairs, values of pairs."""
    sizes = rng.integers(10, 100, (constraints, n))
    values = np.diag(rng.integers(10, 100, n)) + np.triu(rng.integers(1, 100, (n, n)) * (rng.random((n, n)) < pairs), 1)
    return Case(-values, Groups(()), sizes, sizes.sum(1) // 2)


def assignment(rng: np.random.Generator, jobs: int = 40, machines: int = 5) -> Case:
    """Return generalized assignment, class C of the OR-Library: one machine per job, capacities of 80 %."""
    sizes, n = rng.integers(5, 26, (jobs, machines)), jobs * machines
    a = np.zeros((machines, jobs, machines), int)
    for k in range(machines):
        a[k, :, k] = sizes[:, k]
    A = np.diag(rng.integers(10, 51, n))
    return Case(
        A, Groups.consecutive(jobs, machines), a.reshape(machines, n), (0.8 * sizes.sum(0) / machines).astype(int)
    )


def bin_packing(rng: np.random.Generator, items: int = 20, bins: int = 14) -> Case:
    """Return items of 20 to 69 for bins of 100, of which as few as possible are used."""
    n, sizes = items * bins + bins, rng.integers(20, 70, items)
    a = np.zeros((bins, n), int)
    for k in range(bins):
        a[k, k : items * bins : bins], a[k, items * bins + k] = sizes, -100
    A = np.zeros((n, n), int)
    A[range(items * bins, n), range(items * bins, n)] = 1
    return Case(A, Groups.consecutive(items, bins), a, np.zeros(bins, int))


def clustering(rng: np.random.Generator, points: int = 40, clusters: int = 4) -> Case:
    """Return capacitated clustering: distances of points in the plane within clusters of limited weight."""
    places, weights = rng.integers(0, 100, (points, 2)), rng.integers(1, 10, points)
    distances = np.triu(np.abs(places[:, None] - places).sum(2), 1)
    a = np.kron(weights, np.eye(clusters, dtype=int))
    capacity = math.ceil(1.1 * weights.sum() / clusters)
    A = np.kron(distances, np.eye(clusters, dtype=int))
    return Case(A, Groups.consecutive(points, clusters), a, np.full(clusters, capacity))


FAMILIES = {
    "knapsack, 100 items": knapsack,
    "knapsack, 5 constraints": partial(knapsack, constraints=5),
    "quadratic knapsack": partial(knapsack, pairs=0.5),
    "assignment, 40 jobs on 5 machines": assignment,
    "bin packing, 20 items": bin_packing,
    "clustering, 40 points in 4": clustering,
}


def constraints(quick: bool) -> Iterator[Record]:
    """Yield the mean gap to the best known energy for each family and solver, and the share of allowed answers."""
    instances, seconds = (1, 0.05) if quick else (INSTANCES, SECONDS)
    solvers = {"ours": ours, "neal, slack bits": slack_bits}
    if find_spec("ortools"):
        solvers |= {"CP-SAT": cp_sat, "CP-SAT, 10 times as long": lambda case, s: cp_sat(case, 10 * s)}
    for family, make in FAMILIES.items():
        cases = [make(np.random.default_rng(seed)) for seed in range(instances)]
        with threads(1):
            found = {
                name: [timed(partial(run, case, seconds), time.process_time) for case in cases]
                for name, run in solvers.items()
            }
        energies = {name: np.array([energy for _, energy in results]) for name, results in found.items()}
        best = np.min(list(energies.values()), 0)
        for name, results in found.items():
            right = np.isfinite(energies[name])
            gaps = (energies[name][right] - best[right]) / np.abs(best[right]).clip(1)
            mean = float(100 * gaps.mean()) if right.any() else None
            spent = float(np.mean([taken for taken, _ in results]))
            hits = int((energies[name] == best).sum())
            about = {"family": family, "n": len(cases[0].A), "solver": name, "instances": instances}
            yield {**about, "cpu_seconds": spent, "allowed": int(right.sum()), "best": hits, "gap": mean}


def ours(case: Case, seconds: float) -> float:
    """Return the lowest energy of annealing with as many sweeps as fit."""
    A, limits = (
        torch.tensor(case.A, dtype=torch.float64)[None],
        [LinearConstraint(*each) for each in zip(case.a, case.b, strict=True)],
    )
    run = lambda sweeps: solve(A, SimulatedAnnealing(READS, sweeps, seed=0), 1, groups=case.groups, constraints=limits)  # noqa: E731
    return filled(lambda sweeps: float(run(sweeps).energies[0, 0]), 50, seconds)


def slack_bits(case: Case, seconds: float) -> float:
    """Return the lowest allowed energy of neal, with constraints as penalties of slack bits; infinity if there is none.

    A penalty exceeds what any one bit can gain. The slack of a·x <= b is written in binary, from 0 to b - min a·x.
    """
    n, A = len(case.A), case.A.astype(float)
    largest = (np.abs(A) + np.abs(A.T)).sum(1).max()
    rooms = case.b - np.minimum(case.a, 0).sum(1)
    blocks = [
        np.array([*(1 << np.arange(int(room).bit_length() - 1)), room - (1 << int(room).bit_length() - 1) + 1])
        for room in rooms
    ]
    width = sum(len(block) for block in blocks)
    rows, first = np.hstack([case.a, np.zeros((len(case.a), width), int)]).astype(float), n
    for row, block in zip(rows, blocks, strict=True):
        row[first : first + len(block)] = block
        first += len(block)
    whole = np.zeros((n + width, n + width))
    whole[:n, :n] = with_penalties(torch.tensor(A)[None], case.groups)[0][0].numpy()
    for row, bound in zip(rows, case.b, strict=True):
        whole += largest * (np.outer(row, row) - np.diag(2 * bound * row))
    bqm, sampler = to_bqm(torch.tensor(whole)), SimulatedAnnealingSampler()

    def lowest(sweeps: int) -> float:
        x = sampler.sample(bqm, num_reads=READS, num_sweeps=sweeps, seed=0).record.sample[:, :n]
        allowed = (x @ case.a.T <= case.b).all(1) & case.groups.allowed(torch.from_numpy(x.copy())).numpy()
        return float(np.einsum("si,ij,sj->s", x, A, x)[allowed].min(initial=np.inf))

    return filled(lowest, 10, seconds)


def cp_sat(case: Case, seconds: float) -> float:
    """Return the lowest energy that CP-SAT of OR-Tools finds with one worker; products of bits are new variables."""
    from ortools.sat.python import cp_model

    model, n = cp_model.CpModel(), len(case.A)
    x = [model.new_bool_var(str(i)) for i in range(n)]
    for group in case.groups.members:
        model.add_exactly_one(x[i] for i in group)
    for a, b in zip(case.a, case.b, strict=True):
        model.add(sum(int(value) * bit for value, bit in zip(a, x, strict=True) if value) <= int(b))
    terms = [int(case.A[i, i]) * x[i] for i in range(n)]
    for i, j in zip(*np.nonzero(np.triu(case.A, 1)), strict=True):
        both = model.new_bool_var(f"{i} {j}")
        model.add_multiplication_equality(both, [x[i], x[j]])
        terms.append(int(case.A[i, j]) * both)
    model.minimize(sum(terms))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds, solver.parameters.num_workers = seconds, 1
    status = solver.solve(model)
    return solver.objective_value if status in (cp_model.OPTIMAL, cp_model.FEASIBLE) else math.inf
