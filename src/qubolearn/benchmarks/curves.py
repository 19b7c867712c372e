"""Time to a target energy against n, for ours and the peers: each on one thread, on the same QUBOs, in one run.

An entrant is called at efforts (sweeps) that grow by four, on each instance of a size, until its seconds are spent. At
each effort the share p of reads at the target says how many reads find it with a probability of 99 %, and the time
of so many is the time to target; the least over the efforts is recorded. A target is the lowest energy that anybody
found, a long annealing among them, or 1 % above it.

A process is bound to a core of its own, as many as there are cores; times are CPU seconds.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np

from qubolearn.benchmarks import Record, threads
from qubolearn.benchmarks.curve_cases import FAMILIES, cases
from qubolearn.benchmarks.entrants import ENTRANTS, Energies, installed
from qubolearn.benchmarks.processes import in_processes
from qubolearn.errors import QubolearnError
from qubolearn.solvers import SimulatedAnnealing, solve

__all__ = ["records", "time_to_target"]

#: Instances of a size; CPU seconds of an entrant on all of them; how effort grows; the most efforts.
INSTANCES, SECONDS, GROWTH, EFFORTS = 10, 8.0, 4, 7
#: How far above the lowest energy a target is, as a share of it; energies of one state differ by less than the first.
TARGETS = {"best": 1e-6, "near": 0.01}
REFERENCE = "a long annealing"


class Tried(NamedTuple):
    """All calls of an entrant at one effort."""

    effort: int
    seconds: float  # of a call, on average
    energies: list[Energies]  # one array for each call; call k is on instance k mod INSTANCES


def records(quick: bool) -> Iterator[Record]:
    """One record for each family, size and entrant."""
    present = [name for name, entrant in ENTRANTS.items() if installed(entrant)]
    for name in ENTRANTS.keys() - present:
        yield {"solver": name, "missing": f"not installed; pip install {ENTRANTS[name].package}"}
    instances, seconds = (2, 0.2) if quick else (INSTANCES, SECONDS)
    cells = [(family, size) for family, kind in FAMILIES.items() for size in (kind.sizes[:1] if quick else kind.sizes)]
    # the largest first, so that none of them is left for the end
    order = sorted(cells, key=lambda cell: -FAMILIES[cell[0]].sizes.index(cell[1]))
    tasks = [(cell, name, instances, seconds) for cell in order for name in (*present, REFERENCE)]
    with threads(1):
        done = in_processes(_work, tasks, 1 if quick else None, bound=not quick)
        found = {task[:2]: result for task, result in zip(tasks, done, strict=True)}
    for cell in cells:
        yield from _cell(*cell, {name: found[cell, name] for name in present}, found[cell, REFERENCE])


def _work(task: tuple[tuple[str, int], str, int, float]) -> Any:
    """What an entrant does with the QUBOs of a size, or the lowest energies that a long annealing finds."""
    cell, name, instances, seconds = task
    if name == REFERENCE:
        return lowest(*cell, instances, 2 * seconds)
    return attempt(*cell, name, instances, seconds)


def _cell(family: str, size: int, tried: dict[str, list[Tried]], reference: Energies) -> Iterator[Record]:
    """The records of all entrants on one size."""
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
    """The time to target of one effort."""
    limit = lowest_found + above * np.abs(lowest_found).clip(1e-9)
    hits = np.array([energies <= limit[call % len(limit)] for call, energies in enumerate(tried.energies)])
    if split:
        return time_to_target(float(hits.mean()), tried.seconds / hits.shape[1])
    return time_to_target(float(hits.any(1).mean()), tried.seconds)


def time_to_target(p: float, seconds: float) -> float:
    """The time of as many calls as reach the target with 99 %, of which each reaches it with p; at least one call's.

    >>> time_to_target(0.9, 1.0), time_to_target(1.0, 1.0), time_to_target(0.0, 1.0)
    (2.0, 1.0, inf)
    """
    if p <= 0:
        return math.inf
    calls = 1.0 if p >= 0.99 else math.log(0.01) / math.log1p(-p)
    return seconds * round(calls, 9)


def attempt(family: str, size: int, name: str, instances: int, budget: float) -> list[Tried]:
    """Call an entrant at growing efforts on all instances of a size, for about so many seconds."""
    some, entrant, tried = cases(family, size, instances), ENTRANTS[name], list[Tried]()
    try:
        entrant.run(some[0], entrant.first, 0)  # compiles
    except QubolearnError:  # too many states for exhaustive search
        return []
    effort, spent = entrant.first, 0.0
    for _ in range(EFFORTS if entrant.first else 1):
        began, energies = time.process_time(), []
        for call in range(3 * instances):  # more than one call each where that is quick
            energies.append(entrant.run(some[call % instances], effort, call))
            taken = time.process_time() - began
            if taken > 2 * budget:
                return tried  # too slow at this size, even with the least effort
            if call % instances == instances - 1 and taken > budget / 30:
                break
        tried.append(Tried(effort, taken / len(energies), energies))
        spent += taken
        if spent + GROWTH * taken * instances / len(energies) > budget:
            break
        effort *= GROWTH
    return tried


def lowest(family: str, size: int, instances: int, budget: float) -> Energies:
    """The energies ``[instances]`` that one long annealing each finds in about so many seconds."""
    some, sweeps = cases(family, size, instances), 200
    solve(some[0].A, SimulatedAnnealing(16, 1), 1, groups=some[0].groups)  # compiles
    began = time.process_time()
    solve(some[0].A, SimulatedAnnealing(16, sweeps), 1, groups=some[0].groups)
    seconds = time.process_time() - began
    solver = SimulatedAnnealing(16, int(min(200_000, max(sweeps, sweeps * budget / instances / seconds))), seed=99)
    return np.array([solve(case.A, solver, 1, groups=case.groups).energies.item() + case.offset for case in some])
