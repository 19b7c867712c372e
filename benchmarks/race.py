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
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

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


def workloads() -> dict[str, Callable[[], Callable[[], object]]]:
    """Return functions that prepare a workload and return the call to measure."""
    from benchmarks.models import as_case, pegasus, regular, sherrington_kirkpatrick

    return (
        {f"exact, n={n}": lambda n=n: _exact(n) for n in (8, 12, 15, 20, 24)}
        | {f"log Z, n={n}": lambda n=n: _log_z(n) for n in (8, 15, 20)}
        | {f"annealing, dense n={n}": lambda n=n: _small_annealing(n) for n in (8, 15, 32)}
        | {
            f"annealing, dense n={n}": lambda n=n: _annealing(as_case(sherrington_kirkpatrick(n)))
            for n in (64, 256, 1024, 2048)
        }
        | {
            f"annealing, 3-regular n={n}": lambda n=n: _annealing(as_case(regular(n)))
            for n in (512, 2048, 5000, 20_000)
        }
        | {f"annealing, Pegasus P{m}": lambda m=m: _annealing(as_case(pegasus(m))) for m in (6, 16)}
        | {"annealing, Zephyr Z8": _zephyr}
        | {"tempering, 3-regular n=512": lambda: _tempering(as_case(regular(512)))}
        | {"tempering, Sudoku of 17 hints": _sudoku}
        | {f"quantum, n={n}": lambda n=n: _quantum(n) for n in (10, 15, 18, 20)}
        | {
            f"fit, {name}": lambda name=name: _fit(name)
            for name in ("likelihood", "gap", "hinge", "own module", "shared")
        }
    )


def _exact(n: int) -> Callable[[], object]:
    from benchmarks import random_qubos
    from qubolearn import ExhaustiveSearch

    A = random_qubos(max(8, min(141, 2**26 >> n)), n)
    return lambda: ExhaustiveSearch()(A, 2)


def _log_z(n: int) -> Callable[[], object]:
    from benchmarks import random_qubos
    from qubolearn import log_partition

    A = random_qubos(max(8, min(141, 2**26 >> n)), n)
    return lambda: log_partition(A, 1.0)


def _small_annealing(n: int) -> Callable[[], object]:
    from benchmarks import random_qubos
    from qubolearn import SimulatedAnnealing

    A = random_qubos(32, n)
    return lambda: SimulatedAnnealing(100, 1000, seed=0)(A, 2)


def _annealing(case: Any) -> Callable[[], object]:
    from qubolearn import SimulatedAnnealing

    return lambda: SimulatedAnnealing(16, 1000 if case.A.shape[2] < 1000 else 200, seed=0).sample(case.A)


def _zephyr() -> Callable[[], object]:
    import dwave.graphs
    import networkx

    from benchmarks.models import _signs, as_case

    return _annealing(
        as_case(_signs("Zephyr", networkx.convert_node_labels_to_integers(dwave.graphs.zephyr_graph(8)), 0))
    )


def _tempering(case: Any) -> Callable[[], object]:
    from qubolearn import ParallelTempering

    return lambda: ParallelTempering(sweeps=400, seed=0)(case.A, 1)


def _sudoku() -> Callable[[], object]:
    """Return a fixed number of sweeps over the rules of a puzzle without its solution as a target."""
    import torch

    from qubolearn import ParallelTempering, solve
    from qubolearn.problems.sudoku import hint_clamp, rule_groups, rule_qubo

    puzzle = "000000010400000000020000000000050407008000300001090000300400200050100000000806000"
    clamp = hint_clamp(torch.tensor([[int(digit) for digit in puzzle]], dtype=torch.uint8))
    rules, groups = rule_qubo(9), rule_groups(9)
    betas = tuple(0.5 + 0.25 * k for k in range(16))
    solver = ParallelTempering(sweeps=500, betas=betas, seed=0)
    return lambda: solve(rules, solver, 1, clamp=clamp, groups=groups)


def _quantum(n: int) -> Callable[[], object]:
    from benchmarks import random_qubos
    from qubolearn import QuantumAnnealing

    A = random_qubos(4 if n < 18 else 1, n)
    return lambda: QuantumAnnealing(seed=0)(A, 1)


def _fit(name: str) -> Callable[[], object]:
    """Return 40 steps of 141 instances of RandGraph k=4."""
    import torch

    from benchmarks.training import Own
    from qubolearn import MLP, Adam, ExhaustiveSearch, Gap, Hinge, Likelihood, QuboNetwork, SharedQubo, fit, topology
    from qubolearn.problems.randgraph import RandGraph

    problem = RandGraph(k=4)
    drawn, graph = problem.sample(5640, torch.Generator().manual_seed(0)), topology("chimera", problem.bits)
    loss = {"gap": Gap(1e-3), "hinge": Hinge(0.5)}.get(name, Likelihood(6.0))
    bodies = {"own module": lambda: QuboNetwork(Own(problem.input_size, graph.size), graph)}
    bodies["shared"] = lambda: SharedQubo(problem.bits)
    make = bodies.get(name, lambda: QuboNetwork(MLP(problem.input_size, graph.size, 5, 78), graph))
    how = {"epochs": 1, "batch_size": 141, "validation": None, "seed": 0, "solver": ExhaustiveSearch()}
    return lambda: fit(make(), (drawn.p, drawn.x_true), loss, optimizer=Adam(1e-3), **how)


def serve() -> None:
    """Measure the workloads whose names arrive on stdin; each answer is the CPU seconds of one call."""
    import torch

    torch.set_num_threads(1)
    every, ready = workloads(), dict[str, tuple[Callable[[], object], int]]()
    for line in sys.stdin:
        name = line.strip()
        if name not in ready:
            call = every[name]()
            call()
            began = time.process_time()
            call()
            ready[name] = call, max(1, int(0.15 / max(time.process_time() - began, 1e-6)))
        call, repeats = ready[name]
        began = time.process_time()
        for _ in range(repeats):
            call()
        print((time.process_time() - began) / repeats, flush=True)


def environment(checkout: Path, **more: str) -> dict[str, str]:
    """Return an environment in which ``import qubolearn`` finds a checkout and ``import benchmarks`` finds ours.

    Python must start with -S: the finder of an editable install comes before this path.
    """
    path = os.pathsep.join([str(checkout / "src"), str(HERE), *sys.path])
    return {**os.environ, "PYTHONPATH": path, **more}


class Side:
    """A checkout, with a process that measures in it."""

    def __init__(self, checkout: Path) -> None:
        words = [sys.executable, "-S", "-m", "benchmarks.race", "--serve", "."]
        self._process = subprocess.Popen(
            words, env=environment(checkout), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=checkout
        )

    def seconds(self, name: str) -> float:
        """Return the CPU seconds of one call of a workload."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(name, file=self._process.stdin, flush=True)
        return float(self._process.stdout.readline())


def start_seconds(checkout: Path, words: list[str]) -> float:
    """Return the seconds of a fresh process with an empty Numba cache, or those that it prints."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        where = environment(checkout, NUMBA_CACHE_DIR=folder)
        done = subprocess.run(
            [sys.executable, "-S", *words], env=where, capture_output=True, text=True, check=True, cwd=folder
        )
        taken = time.perf_counter() - began
    return float(done.stdout) if words[-1] == FIRST_CALLS else taken


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
    if args.start:
        measure = {side: lambda name, path=path: start_seconds(path, STARTS[name]) for side, path in checkouts.items()}
    else:
        sides = {side: Side(path) for side, path in checkouts.items()}
        measure = {side: made.seconds for side, made in sides.items()}
    records = {}
    for name in [
        each for each in (STARTS if args.start else workloads()) if each.startswith(tuple(args.names or [""]))
    ]:
        times: dict[str, list[float]] = {side: [] for side in measure}
        for turn in range(args.rounds):
            for side in list(measure)[:: 1 if turn % 2 else -1]:
                times[side].append(measure[side](name))
        ratio = median(a / b for a, b in zip(times["this"], times["other"], strict=True))
        records[name] = {side: median(taken) for side, taken in times.items()} | {"ratio": ratio, "rounds": args.rounds}
        print(name, *(f"{key}={value:.4g}" for key, value in records[name].items()), flush=True)
    if args.write:
        write(records, args.other)


def write(records: dict[str, dict[str, float]], other: Path) -> None:
    """Store records, next to those of other workloads that were measured before."""
    from qubolearn.provenance import code, provenance

    path = HERE / "benchmarks/results/race.json"
    before = json.loads(path.read_text())["records"] if path.is_file() else []
    mine = {"commit": code().get("commit")}
    every = {one["workload"]: one for one in before} | {k: {"workload": k, **one, **mine} for k, one in records.items()}
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=other, capture_output=True, text=True, check=True).stdout
    when = {"date": datetime.now(UTC).isoformat(timespec="seconds"), "other": head.strip(), **code()}
    result = {"benchmark": "race", "records": list(every.values()), **when, **provenance()}
    path.write_text(json.dumps(result, indent=2, allow_nan=False) + "\n")


if __name__ == "__main__":
    main()
