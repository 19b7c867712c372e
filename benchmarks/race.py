"""Race this checkout against another one in one run: ``python -m benchmarks.race OTHER [NAME ...]``.

Both run in a process with one thread and take turns, so that a busy moment of the machine affects both. Times are CPU
seconds of a call; the ratio is the median over the rounds of this checkout's time over the other's. Workloads use only
names that both checkouts have. ``--start`` measures ``import qubolearn``, ``--help`` and the first calls of solvers and
``fit`` with empty caches instead. ``--write`` stores the records of this run in benchmarks/results/race.json.

The other checkout shares this environment; what it needs more, such as Numba, may come from a folder on PYTHONPATH.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch

import qubolearn as ql
from benchmarks import random_qubos, seconds_of, timed, write
from benchmarks.models import as_qubo, pegasus, regular, sherrington_kirkpatrick
from benchmarks.training import Own
from qubolearn.problems.randgraph import RandGraph
from qubolearn.problems.sudoku import hint_clamp, rule_groups, rule_qubo

HERE = Path(__file__).resolve().parent.parent
FIRST_CALLS = """
import torch, time; torch.set_num_threads(1); began = time.perf_counter()
from qubolearn import ExhaustiveSearch, Likelihood, MLP, ParallelTempering, QuboNetwork, SimulatedAnnealing, SparseQubo
from qubolearn import fit, topology
A = torch.randn(4, 20, 20)
ExhaustiveSearch()(A), SimulatedAnnealing(seed=0)(A), ParallelTempering(sweeps=100, seed=0)(A)
SimulatedAnnealing(seed=0)(SparseQubo.from_dense(torch.diag_embed(torch.ones(1, 300)).roll(1, 2)))
p = torch.randn(64, 4); graph = topology("dense", 4)
fit(QuboNetwork(MLP(4, graph.size), graph), (p, p > 0), Likelihood(), epochs=1)
print(time.perf_counter() - began)
"""
STARTS = {
    "import qubolearn": ["-c", "import qubolearn"],
    "qubolearn --help": ["-m", "qubolearn", "--help"],
    "first calls": ["-c", FIRST_CALLS],
}
PUZZLE = "000000010400000000020000000000050407008000300001090000300400200050100000000806000"
Call = Callable[[], object]


def workloads() -> dict[str, Callable[[], Call]]:
    """Return functions that prepare a workload and return the call to measure."""
    few, quantum = ql.SimulatedAnnealing(100, 1000, seed=0), lambda A, _: ql.QuantumAnnealing(seed=0)(A, 1)
    return (
        {f"exact, n={n}": partial(_batch, ql.ExhaustiveSearch(), n) for n in (8, 12, 15, 20, 24)}
        | {f"log Z, n={n}": partial(_batch, lambda A, _: ql.log_partition(A, 1.0), n) for n in (8, 15, 20)}
        | {f"annealing, dense n={n}": partial(_batch, few, n, 32) for n in (8, 15, 32)}
        | {f"annealing, dense n={n}": partial(_annealing, sherrington_kirkpatrick, n) for n in (64, 256, 1024, 2048)}
        | {f"annealing, 3-regular n={n}": partial(_annealing, regular, n) for n in (512, 2048, 5000, 20_000)}
        | {f"annealing, Pegasus P{m}": partial(_annealing, pegasus, m) for m in (6, 16)}
        | {"annealing, Zephyr Z8": partial(_annealing, partial(pegasus, family="Zephyr"), 8)}
        | {"tempering, 3-regular n=512": _tempering, "tempering, Sudoku of 17 hints": _sudoku}
        | {f"quantum, n={n}": partial(_batch, quantum, n, 4 if n < 18 else 1) for n in (10, 15, 18, 20)}
        | {f"fit, {name}": partial(_fit, name) for name in ("likelihood", "gap", "hinge", "own module", "shared")}
    )


def _batch(solver: Any, n: int, batch: int | None = None) -> Call:
    return partial(solver, random_qubos(batch or max(8, min(141, 2**26 >> n)), n), 2)


def _annealing(make: Callable[[int], Any], size: int) -> Call:
    A = as_qubo(make(size))[0]
    return lambda: ql.SimulatedAnnealing(16, 1000 if A.shape[2] < 1000 else 200, seed=0).sample(A)


def _tempering() -> Call:
    return partial(ql.ParallelTempering(sweeps=400, seed=0), as_qubo(regular(512))[0], 1)


def _sudoku() -> Call:
    """Return a fixed number of sweeps over the rules of a puzzle without its solution as a target."""
    clamp = hint_clamp(torch.tensor([[int(digit) for digit in PUZZLE]], dtype=torch.uint8))
    solver = ql.ParallelTempering(sweeps=500, betas=tuple(0.5 + 0.25 * k for k in range(16)), seed=0)
    return partial(ql.solve, rule_qubo(9), solver, 1, clamp=clamp, groups=rule_groups(9))


def _fit(name: str) -> Call:
    """Return 40 steps of 141 instances of RandGraph k=4."""
    problem = RandGraph(k=4)
    drawn, graph = problem.sample(5640, torch.Generator().manual_seed(0)), ql.topology("chimera", problem.bits)
    loss = {"gap": ql.Gap(1e-3), "hinge": ql.Hinge(0.5)}.get(name, ql.Likelihood(6.0))
    bodies = {"own module": lambda: ql.QuboNetwork(Own(problem.input_size, graph.size), graph)}
    bodies["shared"] = lambda: ql.SharedQubo(problem.bits)
    make = bodies.get(name, lambda: ql.QuboNetwork(ql.MLP(problem.input_size, graph.size, 5, 78), graph))
    how = {"epochs": 1, "batch_size": 141, "validation": None, "seed": 0, "solver": ql.ExhaustiveSearch()}
    return lambda: ql.fit(make(), (drawn.p, drawn.x_true), loss, optimizer=ql.Adam(1e-3), **how)


def serve() -> None:
    """Measure the workloads whose names arrive on stdin; each answer is the CPU seconds of one call."""
    torch.set_num_threads(1)
    every, ready = workloads(), dict[str, tuple[Call, int]]()
    for name in map(str.strip, sys.stdin):
        if name not in ready:
            call = every[name]()
            ready[name] = call, max(1, int(0.15 / max(seconds_of(call, 1, time.process_time), 1e-6)))
        call, repeats = ready[name]
        print(timed(lambda: [call() for _ in range(repeats)], time.process_time)[0] / repeats, flush=True)  # noqa: B023


def environment(checkout: Path, **more: str) -> dict[str, str]:
    """Return an environment in which ``import qubolearn`` finds a checkout and ``import benchmarks`` finds ours.

    Python must start with -S: the finder of an editable install comes before this path.
    """
    path = os.pathsep.join([str(checkout / "src"), str(HERE), *sys.path])
    return {**os.environ, "PYTHONPATH": path, **more}


def served(checkout: Path) -> Callable[[str], float]:
    """Start a process that measures in a checkout; return the function of its answers."""
    words = [sys.executable, "-S", "-m", "benchmarks.race", "--serve", "."]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process: Any = subprocess.Popen(words, env=environment(checkout), cwd=checkout, **pipes)

    def seconds(name: str) -> float:
        print(name, file=process.stdin, flush=True)
        return float(process.stdout.readline())

    return seconds


def start_seconds(checkout: Path, name: str) -> float:
    """Return the seconds of a fresh process with an empty Numba cache, or those that it prints."""
    with tempfile.TemporaryDirectory() as folder:
        how: Any = {"env": environment(checkout, NUMBA_CACHE_DIR=folder), "cwd": folder, "text": True, "check": True}
        taken, done = timed(partial(subprocess.run, [sys.executable, "-S", *STARTS[name]], capture_output=True, **how))
    return float(done.stdout) if name == "first calls" else taken


def main() -> None:
    """Race and print one line per workload."""
    parser = argparse.ArgumentParser("python -m benchmarks.race", description=__doc__.splitlines()[0])
    parser.add_argument("other", type=Path, help="the other checkout")
    parser.add_argument("names", nargs="*", help="workloads, or how their names begin [all]")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--start", action="store_true", help="measure start-up times")
    parser.add_argument("--write", action="store_true", help="add the records to benchmarks/results/race.json")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve()
        return
    checkouts = {"this": HERE, "other": args.other.resolve()}
    measure: dict[str, Callable[[str], float]] = {
        side: partial(start_seconds, path) if args.start else served(path) for side, path in checkouts.items()
    }
    records = {}
    every = [*(STARTS if args.start else workloads())]
    for name in (each for each in every if each.startswith(tuple(args.names or [""]))):
        times: dict[str, list[float]] = {side: [] for side in measure}
        for turn in range(args.rounds):
            for side in list(measure)[:: 1 if turn % 2 else -1]:
                times[side].append(measure[side](name))
        ratio = median(a / b for a, b in zip(times["this"], times["other"], strict=True))
        records[name] = {side: median(taken) for side, taken in times.items()} | {"ratio": ratio, "rounds": args.rounds}
        print(name, *(f"{key}={value:.4g}" for key, value in records[name].items()), flush=True)
    if args.write:  # next to records of other workloads that were measured before
        from qubolearn.provenance import code

        path = HERE / "benchmarks/results/race.json"
        stored = {one["workload"]: one for one in json.loads(path.read_text())["records"]}
        mine = {"commit": code().get("commit")}
        stored |= {name: {"workload": name, **one, **mine} for name, one in records.items()}
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=args.other, capture_output=True, text=True, check=True)
        write("race", list(stored.values()), other=head.stdout.strip())


if __name__ == "__main__":
    main()
