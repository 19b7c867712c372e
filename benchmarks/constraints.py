"""Inequalities in moves, slack bits and CP-SAT at equal CPU seconds."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from threading import Event, Thread
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import torch
from dwave.samplers import SimulatedAnnealingSampler
from scipy.optimize import quadratic_assignment as quadratic_assignment_scipy

from benchmarks import Record, filled, in_processes, timed
from qubolearn import AutoSolver, Groups, ParallelTempering, QubolearnError, SimulatedAnnealing, solve, to_bqm
from qubolearn.qubo import LinearConstraint, with_penalties
from qubolearn.solvers import PopulationAnnealing

#: CPU seconds per instance, and reads of annealing.
SECONDS, READS = 1.0, 20
LOADS = "groups: equal loads, 60 jobs on 5"


class Case(NamedTuple):
    """An integer QUBO ``[n, n]`` with groups and constraints a·x <= b."""

    A: Any
    groups: Groups
    a: Any
    b: Any
    parts: Any = None  # of quadratic assignment
    loads: Any = ()  # rows r with 50 (r·x)² in A
    offset: int = 0  # added to the energy for gaps


def knapsack(rng: np.random.Generator, constraints: int = 1, n: int = 100, pairs: float = 0.0) -> Case:
    """Return items of values and sizes 10 to 99, with half their size as capacity."""
    sizes, values = rng.integers(10, 100, (constraints, n)), rng.integers(10, 100, n)
    together = np.triu(rng.integers(1, 100, (n, n)) * (rng.random((n, n)) < pairs), 1)
    return Case(-np.diag(values) - together, Groups(()), sizes, sizes.sum(1) // 2)


def assignment(rng: np.random.Generator, jobs: int = 40, machines: int = 5) -> Case:
    """Return generalized assignment, class C of the OR-Library."""
    sizes, n = rng.integers(5, 26, (jobs, machines)), jobs * machines
    a = np.einsum("jk,km->kjm", sizes, np.eye(machines, dtype=int)).reshape(machines, n)
    A, limits = np.diag(rng.integers(10, 51, n)), (0.8 * sizes.sum(0) / machines).astype(int)
    return Case(A, Groups.consecutive(jobs, machines), a, limits)


def bin_packing(rng: np.random.Generator, items: int = 20, bins: int = 14) -> Case:
    """Return items of 20 to 69 for as few bins of 100 as possible."""
    n, sizes = items * bins + bins, rng.integers(20, 70, items)
    a = np.kron(np.append(sizes, -100), np.eye(bins, dtype=int))
    A = np.diag((np.arange(n) >= items * bins).astype(int))
    return Case(A, Groups.consecutive(items, bins), a, np.zeros(bins, int))


def clustering(rng: np.random.Generator, points: int = 40, clusters: int = 4) -> Case:
    """Return distances within clusters of limited weight."""
    places, weights = rng.integers(0, 100, (points, 2)), rng.integers(1, 10, points)
    distances = np.triu(np.abs(places[:, None] - places).sum(2), 1)
    a = np.kron(weights, np.eye(clusters, dtype=int))
    capacity = math.ceil(1.1 * weights.sum() / clusters)
    A = np.kron(distances, np.eye(clusters, dtype=int))
    return Case(A, Groups.consecutive(points, clusters), a, np.full(clusters, capacity))


def quadratic_assignment(rng: np.random.Generator, rows: int = 3, columns: int = 4) -> Case:
    """Return facilities with random flows on a grid, as Nugent's."""
    k = rows * columns
    flows = np.triu(rng.integers(1, 10, (k, k)) * (rng.random((k, k)) < 0.6), 1)
    places = np.stack(np.divmod(np.arange(k), columns), 1)
    distances = np.abs(places[:, None] - places).sum(2)
    a = np.kron(np.ones((1, k), int), np.eye(k, dtype=int))  # one facility per place at most
    return Case(np.kron(flows, distances), Groups.consecutive(k, k), a, np.ones(k, int), (flows, distances))


def capacities(rng: np.random.Generator, jobs: int = 60, machines: int = 5) -> Case:
    """Return jobs of costs 100 to 1,000 on machines, plus 50 (load - mean load)²."""
    sizes, n = rng.integers(1, 10, jobs), jobs * machines
    loads = np.kron(sizes, np.eye(machines, dtype=int))
    A = sum(map(_square, loads)) - np.diag(100 // machines * sizes.sum() * loads.sum(0))
    none, constant = np.zeros((0, n), int), 50 // machines * sizes.sum() ** 2
    groups = Groups.consecutive(jobs, machines)
    return Case(A + np.diag(rng.integers(100, 1001, n)), groups, none, none[:, 0], None, loads, constant)


def _square(row: Any) -> Any:
    return 50 * np.triu(np.outer(row, row) * (2 - np.eye(len(row), dtype=int)))


def coloring(rng: np.random.Generator, nodes: int = 60, colors: int = 4) -> Case:
    """Return a random graph of mean degree 8.4 to color."""
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
    LOADS: capacities,
    "groups: 4 colors of 60 nodes": coloring,
}


def constraints(quick: bool) -> Iterator[Record]:
    """Yield the mean gap and allowed answers of each solver on each family."""
    seconds = 0.05 if quick else SECONDS
    counts = {family: 1 if quick else 10 if family == LOADS else 3 for family in FAMILIES}
    cells = [(family, name) for family in counts for name in SOLVERS if _runs(name, family)]
    tasks = [(*cell, k) for cell in cells for k in range(counts[cell[0]])]
    longest = sorted(tasks, key=lambda task: "long" not in task[1])
    found = in_processes(partial(_work, seconds), longest, serial=quick)
    for family, count in counts.items():
        names = [name for each, name in cells if each == family]
        results = {name: np.array([found[family, name, k] for k in range(count)]).T for name in names}
        cases = [FAMILIES[family](np.random.default_rng(k)) for k in range(count)]
        best = np.min([energies for energies, _ in results.values()], 0)
        sizes = np.abs(best + [case.offset for case in cases]).clip(1)
        for name, (energies, spent) in results.items():
            right = np.isfinite(energies)
            about = {"family": family, "n": len(cases[0].A), "solver": name, "instances": count}
            answers = {"allowed": int(right.sum()), "best": int((energies == best).sum())}
            gap = float(100 * ((energies - best) / sizes)[right].mean()) if right.any() else None
            yield {**about, "cpu_seconds": float(spent.mean()), **answers, "gap": gap}


def _runs(name: str, family: str) -> bool:
    if "CP-SAT" in name and find_spec("ortools") is None:
        return False
    if "times" in name:
        return ("60 times" in name) == (family == LOADS)
    starts = {"scipy, 2-opt": "quadratic assignment", "tempering": "groups"}
    return family.startswith(starts.get(name, ""))


def _work(seconds: float, family: str, name: str, seed: int) -> tuple[float, float]:
    case = FAMILIES[family](np.random.default_rng(seed))
    spent, energy = timed(partial(SOLVERS[name], case, seconds), time.process_time)
    return energy, spent


def ours(make: Callable[[int], Any], case: Case, seconds: float) -> float:
    A = torch.tensor(case.A, dtype=torch.float64)[None]
    limits = [LinearConstraint(*each) for each in zip(case.a, case.b, strict=True)]

    def lowest(sweeps: int) -> float:
        try:
            return float(solve(A, make(sweeps), 1, groups=case.groups, constraints=limits).energies[0, 0])
        except QubolearnError:  # no allowed state yet
            return math.inf

    return filled(lowest, 50, seconds)


def two_opt(case: Case, seconds: float) -> float:
    """Return the lowest energy of SciPy's 2-opt from random starts."""
    (flows, distances), best, began, seed = case.parts, math.inf, time.process_time(), 0
    while time.process_time() < began + seconds:
        options = {"rng": np.random.default_rng(seed)}
        found = quadratic_assignment_scipy(flows + flows.T, distances, "2opt", options)
        best, seed = min(best, float(found.fun) / 2), seed + 1
    return best


def slack_bits(case: Case, seconds: float) -> float:
    """Return the lowest allowed energy of neal; slack is binary, a penalty exceeds any gain."""
    n, A, sampler = len(case.A), case.A.astype(float), SimulatedAnnealingSampler()
    largest = (np.abs(A) + np.abs(A.T)).sum(1).max()
    bqm = to_bqm(with_penalties(torch.tensor(A)[None], case.groups)[0][0])
    for k, (row, bound) in enumerate(zip(case.a, case.b, strict=True)):
        terms = [(int(i), int(row[i])) for i in np.flatnonzero(row)]
        bqm.add_linear_inequality_constraint(terms, largest, str(k), ub=int(bound))

    def lowest(sweeps: int) -> float:
        x = sampler.sample(bqm, num_reads=READS, num_sweeps=sweeps, seed=0).record.sample[:, :n]
        allowed = (x @ case.a.T <= case.b).all(1) & case.groups.allowed(torch.from_numpy(x.copy())).numpy()
        return float(np.einsum("si,ij,sj->s", x, A, x)[allowed].min(initial=np.inf))

    return filled(lowest, 10, seconds)


def cp_sat(case: Case, seconds: float) -> float:
    """Return the lowest energy of CP-SAT; new variables are loads, or products of bits."""
    from ortools.sat.python import cp_model

    model, n = cp_model.CpModel(), len(case.A)
    x = [model.new_bool_var(str(i)) for i in range(n)]
    for group in case.groups.members:
        model.add_exactly_one(x[i] for i in group)
    for a, b in zip(case.a, case.b, strict=True):
        model.add(sum(int(value) * bit for value, bit in zip(a, x, strict=True) if value) <= int(b))
    A, terms = case.A, []
    for row in case.loads:
        load, square = model.new_int_var(0, int(row.sum()), ""), model.new_int_var(0, int(row.sum()) ** 2, "")
        model.add(load == sum(int(size) * bit for size, bit in zip(row, x, strict=True) if size))
        model.add_multiplication_equality(square, [load, load])
        terms.append(50 * square)
        A = A - _square(row)
    terms += [int(A[i, i]) * x[i] for i in range(n)]
    for i, j in zip(*np.nonzero(np.triu(A, 1)), strict=True):
        both = model.new_bool_var(f"{i} {j}")
        model.add_multiplication_equality(both, [x[i], x[j]])
        terms.append(int(A[i, j]) * both)
    model.minimize(sum(terms))
    solver, ended, limit = cp_model.CpSolver(), Event(), time.process_time() + seconds
    solver.parameters.num_workers = 1

    def stop_in_time() -> None:  # CP-SAT's own limit is wall time
        while not ended.wait(0.01):
            if time.process_time() > limit:
                solver.stop_search()

    Thread(target=stop_in_time, daemon=True).start()
    status = solver.solve(model)
    ended.set()
    return solver.objective_value if status in (cp_model.OPTIMAL, cp_model.FEASIBLE) else math.inf


SOLVERS: dict[str, Callable[[Case, float], float]] = {
    "population": partial(ours, lambda sweeps: PopulationAnnealing(sweeps, seed=0)),
    "annealing": partial(ours, lambda sweeps: SimulatedAnnealing(READS, sweeps, seed=0)),
    "tempering": partial(ours, lambda sweeps: ParallelTempering(sweeps=sweeps, seed=0)),
    "auto": patch("time.perf_counter", time.process_time)(  # which it keeps, in one call
        lambda case, seconds: ours(lambda _: AutoSolver(seconds=0.9 * seconds), case, 0)
    ),
    "neal, slack bits": slack_bits,
    "CP-SAT": cp_sat,
    "CP-SAT, 10 times as long": lambda case, seconds: cp_sat(case, 10 * seconds),
    "CP-SAT, 60 times as long": lambda case, seconds: cp_sat(case, 60 * seconds),
    "scipy, 2-opt": two_opt,
}
