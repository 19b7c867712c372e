"""Our kernels without AVX-512: the same work in processes whose compiler knows this CPU, and one with AVX2 only.

numba compiles for the CPU that ``NUMBA_CPU_NAME`` names; haswell is the first one with AVX2 and fused multiply-add. The
processes take turns, one thread each; times are CPU seconds, the best of all turns.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial

import torch

from qubolearn.benchmarks import Record, random_qubos, seconds_of
from qubolearn.benchmarks.large_annealing import Model, as_bqm, regular
from qubolearn.qubo import SparseQubo, from_bqms
from qubolearn.solvers import ExhaustiveSearch, SimulatedAnnealing, log_partition
from qubolearn.solvers.tempering import ParallelTempering

__all__ = ["records"]

#: name -> environment of a process
COMPILERS = {"seconds": {}, "avx2_seconds": {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": ""}}
TURNS, REPEATS = 2, 20


def records(quick: bool) -> Iterator[Record]:
    """One record for each kind of work: seconds, seconds with AVX2 only, and their ratio."""
    best: dict[str, dict[str, float]] = {}
    for _ in range(1 if quick else TURNS):
        for column, environment in COMPILERS.items():
            words = [sys.executable, "-m", "qubolearn.benchmarks.avx2", *(["quick"] if quick else [])]
            done = subprocess.run(words, env={**os.environ, **environment}, capture_output=True, text=True, check=True)
            for name, seconds in json.loads(done.stdout).items():
                known = best.setdefault(name, {})
                known[column] = min(seconds, known.get(column, seconds))
    for name, times in best.items():
        yield {"work": name, **times, "ratio": times["avx2_seconds"] / times["seconds"]}


def works(quick: bool) -> dict[str, Callable[[], object]]:
    """What is measured, by name."""
    A, large = random_qubos(16, 20), random_qubos(1, 256)
    if quick:
        return {"exhaustive search, n=20": partial(ExhaustiveSearch(), A, 2)}
    glass = _sparse(regular(2048))
    return {
        "exhaustive search, n=20": partial(ExhaustiveSearch(), A, 2),
        "log Z, n=20": partial(log_partition, A, 1.0),
        "annealing, dense n=32": partial(SimulatedAnnealing(seed=0).sample, random_qubos(16, 32)),
        "annealing, dense n=256": partial(SimulatedAnnealing(16, 1000, seed=0).sample, large),
        "annealing, 3-regular n=2048": partial(SimulatedAnnealing(16, 1000, seed=0).sample, glass),
        "tempering, 3-regular n=2048": partial(ParallelTempering(sweeps=400, seed=0), glass, 1),
    }


def _sparse(model: Model) -> SparseQubo:
    return from_bqms([as_bqm(model)])[0].to(torch.float32)


if __name__ == "__main__":
    torch.set_num_threads(1)
    found = {name: seconds_of(work, REPEATS, time.process_time) for name, work in works("quick" in sys.argv).items()}
    print(json.dumps(found))
