"""Inequalities in the moves of our solvers, against slack bits under neal and against CP-SAT, at equal CPU seconds."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import torch
from dwave.samplers import SimulatedAnnealingSampler
from scipy.linalg import block_diag
from scipy.optimize import quadratic_assignment as quadratic_assignment_scipy

from benchmarks import Record, filled, in_processes, timed
from qubolearn import AutoSolver, Groups, ParallelTempering, QubolearnError, SimulatedAnnealing, solve, to_bqm
from qubolearn.qubo import LinearConstraint, with_penalties
from qubolearn.solvers import PopulationAnnealing

#: CPU seconds of each solver on an instance, instances of a family, and reads of annealing.
SECONDS, INSTANCES, READS = 1.0, 3, 20


class Case(NamedTuple):
    """An integer QUBO ``[n, n]`` to minimize under groups and constraints (a ``[m, n]``, b ``[m]``)."""

    A: Any
    groups: Groups
    a: Any
    b: Any
    parts: Any = None  # flows and distances of quadratic assignment


def knapsack(rng: np.random.Generator, constraints: int = 1, n: int = 100, pairs: float = 0.0) -> Case:
    """Return items of values and sizes 10 to 99 and capacities of half of all sizes; with pairs, values of pairs."""
    sizes = rng.integers(10, 100, (constraints, n))
    values = np.diag(rng.integers(10, 100, n)) + np.triu(rng.integers(1, 100, (n, n)) * (rng.random((n, n)) < pairs), 1)
    return Case(-values, Groups(()), sizes, sizes.sum(1) // 2)


def assignment(rng: np.random.Generator, jobs: int = 40, machines: int = 5) -> Case:
    """Return generalized assignment, class C of the OR-Library: one machine per job, capacities of 80 %."""
    sizes, n = rng.integers(5, 26, (jobs, machines)), jobs * machines
    a = np.einsum("jk,km->kjm", sizes, np.eye(machines, dtype=int)).reshape(machines, n)
    A, limits = np.diag(rng.integers(10, 51, n)), (0.8 * sizes.sum(0) / machines).astype(int)
    return Case(A, Groups.consecutive(jobs, machines), a, limits)


def bin_packing(rng: np.random.Generator, items: int = 20, bins: int = 14) -> Case:
    """Return items of 20 to 69 for bins of 100, of which as few as possible are used."""
    n, sizes = items * bins + bins, rng.integers(20, 70, items)
    a = np.kron(np.append(sizes, -100), np.eye(bins, dtype=int))
    A = np.diag((np.arange(n) >= items * bins).astype(int))
    return Case(A, Groups.consecutive(items, bins), a, np.zeros(bins, int))


def clustering(rng: np.random.Generator, points: int = 40, clusters: int = 4) -> Case:
    """Return capacitated clustering: distances of points in the plane within clusters of limited weight."""
    places, weights = rng.integers(0, 100, (points, 2)), rng.integers(1, 10, points)
    distances = np.triu(np.abs(places[:, None] - places).sum(2), 1)
    a = np.kron(weights, np.eye(clusters, dtype=int))
    capacity = math.ceil(1.1 * weights.sum() / clusters)
    A = np.kron(distances, np.eye(clusters, dtype=int))
    return Case(A, Groups.consecutive(points, clusters), a, np.full(clusters, capacity))


def quadratic_assignment(rng: np.random.Generator, rows: int = 3, columns: int = 4) -> Case:
    """Return facilities with random flows for the places of a grid, as Nugent's: flow times distance, one each."""
    k = rows * columns
    flows = np.triu(rng.integers(1, 10, (k, k)) * (rng.random((k, k)) < 0.6), 1)
    places = np.stack(np.divmod(np.arange(k), columns), 1)
    distances = np.abs(places[:, None] - places).sum(2)
    a = np.kron(np.ones((1, k), int), np.eye(k, dtype=int))  # at most one facility per place
    return Case(np.kron(flows, distances), Groups.consecutive(k, k), a, np.ones(k, int), (flows, distances))


def capacities(rng: np.random.Generator, jobs: int = 60, machines: int = 5) -> Case:
    """Return jobs on machines of equal load: costs of 100 to 1,000, and 50 (load - mean load)² without its constant."""
    sizes, n = rng.integers(1, 10, jobs), jobs * machines
    A = np.triu(np.kron(100 * np.outer(sizes, sizes), np.eye(machines, dtype=int)), 1)
    linear = 50 * sizes**2 - 100 // machines * sizes.sum() * sizes
    A += np.diag(np.repeat(linear, machines) + rng.integers(100, 1001, n))
    return Case(A, Groups.consecutive(jobs, machines), np.zeros((0, n), int), np.zeros(0, int))


def coloring(rng: np.random.Generator, nodes: int = 60, colors: int = 4) -> Case:
    """Return a random graph of mean degree 8.4 whose neighbors should have different colors."""
    edges = np.triu(rng.random((nodes, nodes)) < 8.4 / nodes, 1).astype(int)
    A = np.kron(edges, np.eye(colors, dtype=int))
    return Case(A, Groups.consecutive(nodes, colors), np.zeros((0, len(A)), int), np.zeros(0, int))


FAMILIES = {
    "knapsack, 100 items": knapsack,
    "knapsack, 5 constraints": partial(knapsack, constraints=5),
    "quadratic knapsack": partial(knapsack, pairs=0.5),
    "assignment, 40 jobs on 5 machines": assignment,
    "assignment, 100 jobs on 10 machines": partial(assignment, jobs=100, machines=10),
    "bin packing, 20 items": bin_packing,
    "clustering, 40 points in 4": clustering,
    "quadratic assignment, 3 x 4 grid": quadratic_assignment,
    "quadratic assignment, 5 x 5 grid": partial(quadratic_assignment, rows=5, columns=5),
    "groups: equal loads, 60 jobs on 5": capacities,
    "groups: 4 colors of 60 nodes": coloring,
}


def constraints(quick: bool) -> Iterator[Record]:
    """Yield the mean gap to the best known energy for each family and solver, and the share of allowed answers."""
    instances, seconds = (1, 0.05) if quick else (INSTANCES, SECONDS)
    cells = [(family, name) for family in FAMILIES for name in SOLVERS if _runs(name, family)]
    tasks = [(*cell, k, seconds) for cell in cells for k in range(instances)]
    longest = sorted(tasks, key=lambda task: "long" not in task[1])
    found = in_processes(_work, longest, serial=quick)
    for family in FAMILIES:
        names = [name for each, name in cells if each == family]
        results = {name: [found[family, name, k, seconds] for k in range(instances)] for name in names}
        best = np.min([[energy for energy, _ in some] for some in results.values()], 0)
        for name, some in results.items():
            energies, spent = np.array(some).T
            right = np.isfinite(energies)
            gaps = (energies[right] - best[right]) / np.abs(best[right]).clip(1)
            about = {
                "family": family,
                "n": len(FAMILIES[family](np.random.default_rng(0)).A),
                "solver": name,
                "instances": instances,
            }
            counts = {"allowed": int(right.sum()), "best": int((energies == best).sum())}
            mean = float(100 * gaps.mean()) if right.any() else None
            yield {**about, "cpu_seconds": float(spent.mean()), **counts, "gap": mean}


def _runs(name: str, family: str) -> bool:
    only = {"scipy, 2-opt": "quadratic assignment", "tempering": "groups"}.get(name, "")
    written = HAS_ORTOOLS and "loads" not in family  # as products of bits, which is not how one writes loads for CP-SAT
    return family.startswith(only) and ("CP-SAT" not in name or written)


def _work(task: tuple[str, str, int, float]) -> tuple[float, float]:
    """Return the energy and the CPU seconds of a solver on an instance of a family."""
    family, name, seed, seconds = task
    case = FAMILIES[family](np.random.default_rng(seed))
    spent, energy = timed(partial(SOLVERS[name], case, seconds), time.process_time)
    return energy, spent


def ours(make: Callable[[int], Any], case: Case, seconds: float) -> float:
    """Return the lowest energy of a solver with as many sweeps as fit."""
    A = torch.tensor(case.A, dtype=torch.float64)[None]
    limits = [LinearConstraint(*each) for each in zip(case.a, case.b, strict=True)]

    def lowest(sweeps: int) -> float:
        try:
            return float(solve(A, make(sweeps), 1, groups=case.groups, constraints=limits).energies[0, 0])
        except QubolearnError:  # no allowed state yet
            return math.inf

    return filled(lowest, 50, seconds)


def two_opt(case: Case, seconds: float) -> float:
    """Return the lowest energy of SciPy's 2-opt, from random starts until the seconds are over."""
    (flows, distances), best, began, seed = case.parts, math.inf, time.process_time(), 0
    while time.process_time() < began + seconds:
        options = {"rng": np.random.default_rng(seed)}
        found = quadratic_assignment_scipy(flows + flows.T, distances, "2opt", options)
        best, seed = min(best, float(found.fun) / 2), seed + 1
    return best


def slack_bits(case: Case, seconds: float) -> float:
    """Return the lowest allowed energy of neal, with constraints as penalties of slack bits; infinity if there is none.

    A penalty exceeds what any one bit can gain. The slack of a·x <= b is written in binary, from 0 to b - min a·x.
    """
    n, A = len(case.A), case.A.astype(float)
    largest = (np.abs(A) + np.abs(A.T)).sum(1).max()
    rooms = [(int(room), 1 << int(room).bit_length() - 1) for room in case.b - np.minimum(case.a, 0).sum(1)]
    blocks = [[*(1 << np.arange(top.bit_length() - 1)), room - top + 1] for room, top in rooms]
    rows = np.hstack([case.a, block_diag(*blocks)]).astype(float) if blocks else case.a
    width = rows.shape[1] - n
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


HAS_ORTOOLS = find_spec("ortools") is not None
SOLVERS: dict[str, Callable[[Case, float], float]] = {
    "population": partial(ours, lambda sweeps: PopulationAnnealing(sweeps, seed=0)),
    "annealing": partial(ours, lambda sweeps: SimulatedAnnealing(READS, sweeps, seed=0)),
    "tempering": partial(ours, lambda sweeps: ParallelTempering(sweeps=sweeps, seed=0)),
    "auto": lambda case, seconds: ours(lambda sweeps: AutoSolver(seconds=0.9 * seconds), case, 0),  # one call
    "neal, slack bits": slack_bits,
    "CP-SAT": cp_sat,
    "CP-SAT, 10 times as long": lambda case, seconds: cp_sat(case, 10 * seconds),
    "scipy, 2-opt": two_opt,
}
