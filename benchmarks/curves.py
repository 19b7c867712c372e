"""Time to a target energy against n, for our solvers and their peers: one thread each, the same QUBOs, one run.

A solver is called at efforts (sweeps) that grow by four, on each instance of a size, until its seconds are spent. At
each effort the share p of reads at the target tells how many reads reach it with a probability of 99 %; the time of
that many reads is the time to target, and the least over the efforts counts. A target is the lowest energy that any
solver found, a long annealing run among them, or 1 % above it. Each process is bound to one core. Times are CPU time.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from benchmarks import Record, in_processes, threads, timed
from benchmarks.models import FAMILIES, Case, cases
from qubolearn import (
    AutoSolver,
    ExhaustiveSearch,
    ParallelTempering,
    QubolearnError,
    SimulatedAnnealing,
    Solver,
    SparseQubo,
    solve,
)
from qubolearn.qubo import from_bqms

#: Reads per call of our solvers, which run together in vectors; of a peer; and agents of simulated bifurcation.
READS, PEER_READS, AGENTS = 16, 4, 128
#: Instances of a size; CPU seconds of a solver on all of them; the growth of the effort; the number of efforts.
INSTANCES, SECONDS, GROWTH, EFFORTS = 10, 8.0, 4, 7
#: How far above the lowest energy a target is, as a share of it; the first allows for rounding only.
TARGETS = {"best": 1e-6, "near": 0.01}
REFERENCE = "a long annealing run"

Energies = npt.NDArray[np.float64]


class Entrant(NamedTuple):
    """A solver at any effort: ``run(case, effort, seed)`` returns the energies of its reads.

    With ``split``, reads are independent and a call is charged per read. Reads that share vectors or rows of a matrix,
    as ours do, are charged by whole calls.
    """

    run: Callable[[Case, int, int], Energies]
    first: int  # the least effort: sweeps or their counterpart; 0 for solvers without a choice
    split: bool = False
    package: str = "qubolearn"


def _ours(make: Callable[[int, int], Solver]) -> Callable[[Case, int, int], Energies]:
    def run(case: Case, effort: int, seed: int) -> Energies:
        return solve(case.A, make(effort, seed), 1, groups=case.groups).energies[0].numpy() + case.offset

    return run


def _peer(sampler: str, parameters: Callable[[Case, int], Mapping[str, Any]]) -> Callable[[Case, int, int], Energies]:
    """Return the run function of a dimod sampler, named ``package:class``."""
    package, _, name = sampler.partition(":")

    def run(case: Case, effort: int, seed: int) -> Energies:
        made = getattr(import_module(package), name)()
        found = made.sample(case.bqm, seed=seed, num_reads=PEER_READS, **parameters(case, effort)).record
        return np.repeat(found.energy, found.num_occurrences).astype(np.float64)

    return run


def _sweeps(case: Case, effort: int) -> dict[str, Any]:
    return {"num_sweeps": effort}


def _openjij(case: Case, effort: int) -> dict[str, Any]:
    return {"num_sweeps": effort, "sparse": isinstance(case.A, SparseQubo)}


def _tabu(case: Case, effort: int) -> dict[str, Any]:
    """Return options for this many single flips from each of ten starts."""
    work = {"timeout": None, "num_restarts": 10, "lower_bound_z": effort}
    return {**work, "coefficient_z_first": 1, "coefficient_z_restart": 1}


def _bifurcation(case: Case, effort: int, seed: int) -> Energies:
    import simulated_bifurcation

    torch.manual_seed(seed)
    bits, offset = from_bqms([case.bqm])
    options = {"domain": "binary", "agents": AGENTS, "max_steps": effort, "best_only": False, "verbose": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one for every call whose agents have not settled
        _, energies = simulated_bifurcation.minimize(bits.dense()[0].float(), **options)
    return energies.double().numpy() + offset.item()


ENTRANTS = {
    "exhaustive": Entrant(_ours(lambda effort, seed: ExhaustiveSearch()), 0),
    "annealing": Entrant(_ours(lambda sweeps, seed: SimulatedAnnealing(READS, sweeps, seed=seed)), 16),
    "tempering": Entrant(_ours(lambda sweeps, seed: ParallelTempering(sweeps=sweeps, seed=seed)), 16),
    "auto": Entrant(_ours(lambda effort, seed: AutoSolver(seed)), 0),
    "neal": Entrant(_peer("dwave.samplers:SimulatedAnnealingSampler", _sweeps), 16, True),
    "tabu": Entrant(_peer("dwave.samplers:TabuSampler", _tabu), 16, True),
    "path-integral": Entrant(_peer("dwave.samplers:PathIntegralAnnealingSampler", _sweeps), 16, True),
    "OpenJij": Entrant(_peer("openjij:SASampler", _openjij), 16, True, "openjij"),
    "simulated bifurcation": Entrant(_bifurcation, 64, package="simulated_bifurcation"),
}


class Tried(NamedTuple):
    """All calls of a solver at one effort."""

    effort: int
    seconds: float  # mean of the calls
    energies: list[Energies]  # one array per call; call k is on instance k mod INSTANCES


def curves(quick: bool) -> Iterator[Record]:
    """Yield one record for each family, size and solver."""
    present = [name for name, entrant in ENTRANTS.items() if find_spec(entrant.package)]
    for name in ENTRANTS.keys() - present:
        yield {"solver": name, "missing": f"not installed; pip install {ENTRANTS[name].package}"}
    instances, seconds = (2, 0.2) if quick else (INSTANCES, SECONDS)
    cells = [(family, size) for family, (_, sizes) in FAMILIES.items() for size in (sizes[:1] if quick else sizes)]
    order = sorted(cells, key=lambda cell: -FAMILIES[cell[0]][1].index(cell[1]))  # the largest first
    tasks = [(cell, name, instances, seconds) for cell in order for name in (*present, REFERENCE)]
    with threads(1):
        found = {task[:2]: result for task, result in zip(tasks, in_processes(_work, tasks, quick), strict=True)}
    for cell in cells:
        yield from _cell(*cell, {name: found[cell, name] for name in present}, found[cell, REFERENCE])


def _work(task: tuple[tuple[str, int], str, int, float]) -> Any:
    cell, name, instances, seconds = task
    if name == REFERENCE:
        return lowest(*cell, instances, 2 * seconds)
    return attempt(*cell, name, instances, seconds)


def _cell(family: str, size: int, tried: dict[str, list[Tried]], reference: Energies) -> Iterator[Record]:
    """Yield the records of all solvers on one size."""
    lowest_found = reference.copy()
    for attempts in tried.values():
        for one in attempts:
            for call, energies in enumerate(one.energies):
                k = call % len(lowest_found)
                lowest_found[k] = min(lowest_found[k], energies.min())
    case = cases(family, size, 1)[0]
    about = {"family": family, "n": case.A.shape[2], "couplings": case.bqm.num_interactions}
    for name, attempts in tried.items():
        record: Record = {**about, "solver": name, "instances": len(lowest_found)}
        if ENTRANTS[name].package != "qubolearn":
            record["version"] = version(ENTRANTS[name].package)
        for target, above in TARGETS.items():
            times = {one.effort: _time(one, lowest_found, above, ENTRANTS[name].split) for one in attempts}
            seconds, effort = min(((taken, effort) for effort, taken in times.items()), default=(math.inf, 0))
            record |= {target: seconds, f"{target}_effort": effort} if math.isfinite(seconds) else {target: None}
        yield record


def _time(tried: Tried, lowest_found: Energies, above: float, split: bool) -> float:
    """Return the time to target of one effort."""
    limit = lowest_found + above * np.abs(lowest_found).clip(1e-9)
    hits = np.array([energies <= limit[call % len(limit)] for call, energies in enumerate(tried.energies)])
    if split:
        return time_to_target(float(hits.mean()), tried.seconds / hits.shape[1])
    return time_to_target(float(hits.any(1).mean()), tried.seconds)


def time_to_target(p: float, seconds: float) -> float:
    """Return the time of the calls that reach a target with 99 %, if each reaches it with probability p.

    >>> time_to_target(0.9, 1.0), time_to_target(1.0, 1.0), time_to_target(0.0, 1.0)
    (2.0, 1.0, inf)
    """
    if p <= 0:
        return math.inf
    calls = 1.0 if p >= 0.99 else math.log(0.01) / math.log1p(-p)
    return seconds * round(calls, 9)


def attempt(family: str, size: int, name: str, instances: int, budget: float) -> list[Tried]:
    """Call a solver at growing efforts on all instances of a size, for about ``budget`` seconds."""
    some, entrant, tried = cases(family, size, instances), ENTRANTS[name], list[Tried]()
    try:
        entrant.run(some[0], entrant.first, 0)
    except QubolearnError:  # too many states for exhaustive search
        return []
    effort, spent = entrant.first, 0.0
    for _ in range(EFFORTS if entrant.first else 1):
        began, energies = time.process_time(), []
        for call in range(3 * instances):  # several calls per instance if they are short
            energies.append(entrant.run(some[call % instances], effort, call))
            taken = time.process_time() - began
            if taken > 2 * budget:
                return tried  # too slow at this size, even at the least effort
            if call % instances == instances - 1 and taken > budget / 30:
                break
        tried.append(Tried(effort, taken / len(energies), energies))
        spent += taken
        if spent + GROWTH * taken * instances / len(energies) > budget:
            break
        effort *= GROWTH
    return tried


def lowest(family: str, size: int, instances: int, budget: float) -> Energies:
    """Return the energies ``[instances]`` that one long annealing run each finds in about ``budget`` seconds."""
    some, sweeps = cases(family, size, instances), 200
    solve(some[0].A, SimulatedAnnealing(16, 1), 1, groups=some[0].groups)
    work = partial(solve, some[0].A, SimulatedAnnealing(16, sweeps), 1, groups=some[0].groups)
    seconds, _ = timed(work, time.process_time)
    solver = SimulatedAnnealing(16, int(min(200_000, max(sweeps, sweeps * budget / instances / seconds))), seed=99)
    return np.array([solve(case.A, solver, 1, groups=case.groups).energies.item() + case.offset for case in some])


def figure(records: list[Record]) -> Any:
    """Draw time to target against n: a column per family, a row per target, a line per solver."""
    from matplotlib import pyplot

    records = [record for record in records if "family" in record]
    families, solvers = (list(dict.fromkeys(record[key] for record in records)) for key in ("family", "solver"))
    made, axes = pyplot.subplots(2, len(families), figsize=(3.2 * len(families), 6), layout="constrained")
    for (row, column), axis in np.ndenumerate(axes):
        target, family = list(TARGETS)[row], families[column]
        for number, solver in enumerate(solvers):
            some = [r for r in records if (r["family"], r["solver"]) == (family, solver) and r[target]]
            style = "-" if number < 4 else "--"  # ours, then the peers
            axis.plot([r["n"] for r in some], [r[target] for r in some], style, marker=".", label=solver)
        axis.set(xscale="log", yscale="log", title=family if row == 0 else "", xlabel="n")
        if column == 0:
            axis.set_ylabel(f"seconds to {'the lowest known energy' if target == 'best' else '1 % above it'}")
    made.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=len(solvers), fontsize=8)
    return made
