"""One QUBO at a time on one core and on all: how much sooner the lowest energy known is found.

Annealing has 16 reads for each core, tempering a ladder for each. Both are called at growing efforts as in ``benchmark
curves``, and the least time to target counts, in seconds of the clock.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch

from qubolearn.benchmarks import Record, threads, timed
from qubolearn.benchmarks.curve_cases import Case, cases
from qubolearn.benchmarks.curves import time_to_target
from qubolearn.benchmarks.entrants import READS, Energies
from qubolearn.solvers import Solver, solve
from qubolearn.solvers.annealing import SimulatedAnnealing
from qubolearn.solvers.tempering import ParallelTempering

__all__ = ["records"]

#: Families and sizes of ``benchmark curves``; sweeps to try; QUBOs of a size, and calls for each of them.
CASES, SWEEPS, INSTANCES, CALLS = (("dense", 256), ("3-regular max-cut", 512), ("Pegasus", 6)), (256, 1024, 4096), 5, 3
#: name -> (cores, sweeps, seed) -> solver
SOLVERS: dict[str, Callable[[int, int, int], Solver]] = {
    "annealing": lambda cores, sweeps, seed: SimulatedAnnealing(READS * cores, sweeps, seed=seed),
    "tempering": lambda cores, sweeps, seed: ParallelTempering(sweeps=sweeps, seed=seed, ladders=cores),
}


def records(quick: bool) -> Iterator[Record]:
    """One record for each size and solver: seconds to target on one core and on all, and their ratio."""
    cores = torch.get_num_threads()
    efforts, sizes = ((16,), CASES[2:]) if quick else (SWEEPS, CASES)
    for family, size in sizes:
        some = cases(family, size, INSTANCES)
        tried = {
            (name, count): [_called(some, make, count, sweeps) for sweeps in efforts]
            for name, make in SOLVERS.items()
            for count in (1, cores)
        }
        lowest = np.min([energies for effort in tried.values() for _, energies in effort], (0, 1))
        for name in SOLVERS:
            one, several = (min(_time(*effort, lowest) for effort in tried[name, count]) for count in (1, cores))
            times = {"one": one, "all": several, "ratio": one / several if math.isfinite(several) else math.inf}
            finite = {key: value if math.isfinite(value) else None for key, value in times.items()}
            yield {"family": family, "n": some[0].A.shape[2], "solver": name, "cores": cores, **finite}


def _called(
    some: list[Case], make: Callable[[int, int, int], Solver], cores: int, sweeps: int
) -> tuple[float, Energies]:
    """The mean seconds of a call on so many cores, and the lowest energies ``[calls, instances]``."""
    energies = np.empty((CALLS, len(some)))
    with threads(cores):
        solve(some[0].A, make(cores, 1, 0), 1)  # compiles
        seconds = 0.0
        for call, k in np.ndindex(energies.shape):
            taken, found = timed(partial(solve, some[k].A, make(cores, sweeps, call), 1))
            seconds, energies[call, k] = seconds + taken, found.energies.item()
    return seconds / energies.size, energies


def _time(seconds: float, energies: Energies, lowest: Energies) -> float:
    """The time to target of one effort."""
    return time_to_target(float((energies <= lowest + 1e-6 * np.abs(lowest)).mean()), seconds)
