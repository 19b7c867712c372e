"""Standard instances with best known values: ours against neal, tabu, OpenJij, simulated bifurcation and CP-SAT.

Every solver gets the same CPU seconds on one thread: its effort (sweeps, restarts, steps) is fitted by short runs.
``QUBOLEARN_INSTANCES`` limits the race to some instances, as in ``G22,bqp500_1,dense-3000,capacities-0``.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import torch
from dwave.samplers import SimulatedAnnealingSampler, TabuSampler

from benchmarks import Record, in_processes, threads
from qubolearn import Groups, SimulatedAnnealing, SparseQubo, energies, solve
from qubolearn.data import load_instance
from qubolearn.qubo import Qubo, to_bqm, with_penalties
from qubolearn.solvers import AutoSolver, PopulationAnnealing, make_solver

SEEDS = 3
SMALL = [f"G{k}" for k in (*range(1, 22), *range(43, 48), *range(51, 55))]
LARGE = ["G22", "G32", "G35", "G55", "G57", "G60", "G62", "G66", "G70", "G72"]
BEASLEY = [f"bqp{n}_{k}" for n in (500, 1000) for k in range(1, 6)]
OTHERS = ["fl-p8", "dense-3000", *(f"capacities-{seed}" for seed in range(10))]


def capacities(jobs: int, machines: int, rng: np.random.Generator) -> tuple[torch.Tensor, float]:
    """Return jobs of integer sizes on machines of equal load, and a constant; the bits of a job are a one-hot group.

    Bit ``job * machines + m`` puts a job on machine m at a cost of U(1, 10); 0.5 (load - mean load)² is added per
    machine. Energies plus the constant are costs.
    """
    costs = torch.from_numpy(rng.uniform(1, 10, (jobs, machines)))
    sizes = torch.from_numpy(rng.integers(1, 10, jobs).astype(np.float64))
    A, mean = torch.diag(costs.flatten()), float(sizes.sum()) / machines
    A += torch.kron(0.5 * sizes[:, None] * sizes, torch.eye(machines, dtype=A.dtype))
    A -= torch.diag(mean * sizes.repeat_interleave(machines))
    return A, 0.5 * machines * mean**2


class Case(NamedTuple):
    """One QUBO, its groups, its best known energy or None, and the CPU seconds that solvers get."""

    A: Qubo
    groups: Groups | None
    best: float | None
    seconds: float
    number: int = 0  # of the generator
    offset: float = 0.0


def dense(n: int, seed: int = 0) -> torch.Tensor:
    """Return integers from -100 to 100 on and above the diagonal, as Palubeckis draws them."""
    return torch.from_numpy(np.triu(np.random.default_rng(seed).integers(-100, 101, (1, n, n)))).double()


@cache
def case(name: str) -> Case:
    family, _, number = name.partition("-")
    if family == "dense":
        return Case(dense(int(number)), None, None, 60.0)
    if family == "capacities":
        A, offset = capacities(60, 5, np.random.default_rng(int(number)))
        return Case(A[None], Groups.consecutive(60, 5), None, 1.0, int(number), offset)
    instance = load_instance(name)
    best = -3800.0 if name == "fl-p8" else instance.best
    return Case(instance.A, None, best, 1.0 if name.startswith("bqp") else 6.0)


def _ours(solver: Any, given: Case, effort: int, seed: int) -> float:
    how = replace(solver, sweeps=effort, seed=seed) if hasattr(solver, "sweeps") else solver.with_seed(seed)
    return solve(given.A, how, 1, groups=given.groups).energies.item()


def _model(given: Case) -> tuple[Any, float]:
    penalized, offset = with_penalties(given.A, given.groups) if given.groups else (given.A, torch.zeros(1))
    return to_bqm(penalized if isinstance(penalized, SparseQubo) else penalized[0]), offset.item()


def _sampled(make: Callable[[], Any], key: str, given: Case, effort: int, seed: int, **options: Any) -> float:
    """Return the lowest energy of a dimod sampler; states that break a group count as its penalty makes them."""
    model, offset = _model(given)
    return float(make().sample(model, seed=seed, **{key: effort}, **options).first.energy) + offset


def _openjij(given: Case, effort: int, seed: int) -> float:
    from openjij import SASampler

    return _sampled(SASampler, "num_sweeps", given, effort, seed, num_reads=16)


def _bifurcation(given: Case, effort: int, seed: int) -> float:
    import simulated_bifurcation as sb

    torch.manual_seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options: dict[str, Any] = {"domain": "binary", "agents": 128, "early_stopping": False, "verbose": False}
        state = sb.minimize(_dense(given.A)[0].float(), max_steps=effort, **options)[0]
    return energies(given.A.to(torch.float64), torch.as_tensor(state).double()[None, None]).item()


def _dense(A: Qubo) -> torch.Tensor:
    return A.dense() if isinstance(A, SparseQubo) else A


def _cp_sat(given: Case, effort: int, seed: int) -> float:
    """Return the lowest cost of jobs on machines found in ``effort`` seconds, with costs rounded to 0.001."""
    from ortools.sat.python import cp_model

    rng, model = np.random.default_rng(given.number), cp_model.CpModel()
    costs, sizes = rng.uniform(1, 10, (60, 5)), rng.integers(1, 10, 60).tolist()  # as capacities draws them
    x = np.array([[model.new_bool_var(f"{job},{machine}") for machine in range(5)] for job in range(60)])
    goal = sum(round(2000 * cost) * bit for cost, bit in zip(costs.ravel(), x.ravel(), strict=True))
    for job in x:
        model.add_exactly_one(job.tolist())
    for machine in range(5):
        load, square = model.new_int_var(0, sum(sizes), ""), model.new_int_var(0, sum(sizes) ** 2, "")
        model.add(load == sum(size * bit for size, bit in zip(sizes, x[:, machine], strict=True)))
        model.add_multiplication_equality(square, [load, load])
        goal += 1000 * square - 400 * sum(sizes) * load
    model.minimize(goal)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds, solver.parameters.num_workers = float(effort), 1
    solver.parameters.random_seed = seed
    solver.solve(model)
    state = [[[float(solver.value(bit)) for bit in x.ravel()]]]
    return energies(_dense(given.A), torch.tensor(state).double()).item()


#: Name -> function of (case, effort, seed), and the package that it needs.
ENTRANTS: dict[str, tuple[Callable[[Case, int, int], float], str]] = {
    "population": (partial(_ours, PopulationAnnealing()), "qubolearn"),
    "annealing": (partial(_ours, SimulatedAnnealing(reads=32)), "qubolearn"),
    "tempering": (partial(_ours, make_solver("tempering")), "qubolearn"),
    "auto": (partial(_ours, AutoSolver()), "qubolearn"),
    "neal": (partial(_sampled, SimulatedAnnealingSampler, "num_sweeps", num_reads=16), "dwave"),
    "tabu": (partial(_sampled, TabuSampler, "num_restarts", num_reads=1, timeout=None), "dwave"),
    "OpenJij": (_openjij, "openjij"),
    "simulated bifurcation": (_bifurcation, "simulated_bifurcation"),
    "CP-SAT, 60 s": (_cp_sat, "ortools"),
}


def _fits(name: str, solver: str) -> bool:
    """Return True if a solver takes part: CP-SAT with groups alone, simulated bifurcation if its matrix is small."""
    if not find_spec(ENTRANTS[solver][1]) or (solver == "CP-SAT, 60 s") > name.startswith("capacities"):
        return False
    given = case(name)
    return solver != "simulated bifurcation" or (given.groups is None and given.A.shape[2] <= 3000)


def raced(task: tuple[str, str], seconds: float | None = None) -> list[Record]:
    """Return the energy and the CPU seconds of a solver on an instance, for each seed."""
    (name, solver), records = task, []
    given, run = case(name), ENTRANTS[solver][0]
    budget = given.seconds if seconds is None else seconds
    with threads(1):
        effort = 60 if solver == "CP-SAT, 60 s" else _effort(partial(run, given, seed=99), budget, solver == "auto")
        for seed in range(1 if solver == "CP-SAT, 60 s" else SEEDS):
            began = time.process_time()
            energy = run(given, effort, seed) + given.offset
            taken = time.process_time() - began
            some = {"instance": name, "n": given.A.shape[2], "solver": solver, "seed": seed, "budget": budget}
            records.append({**some, "effort": effort, "cpu_seconds": taken, "energy": energy, "best_known": given.best})
    return records


def _effort(run: Callable[[int], float], seconds: float, fixed: bool) -> int:
    """Return the effort that takes some CPU seconds: doubled until it takes 20 % of them, then in proportion."""
    effort, taken = 1, 0.0
    run(1)
    while not fixed:
        began = time.process_time()
        run(effort)
        taken = time.process_time() - began
        if taken > 0.2 * seconds:
            return max(1, int(effort * 0.95 * seconds / taken))
        effort *= 2
    return effort


def instances(quick: bool) -> Iterator[Record]:
    """Race all solvers on all instances; with ``quick`` some on one of each generator, for a moment."""
    named = os.environ.get("QUBOLEARN_INSTANCES")
    names = named.split(",") if named else [*SMALL, *LARGE, *BEASLEY, *OTHERS]
    names = ["dense-60", "capacities-0"] if quick else names
    solvers = ("population", "annealing", "tempering", "auto", "neal") if quick else tuple(ENTRANTS)
    tasks = [(name, solver) for name in names for solver in solvers if _fits(name, solver)]
    for records in in_processes(partial(raced, seconds=0.05 if quick else None), tasks, serial=quick):
        yield from records
