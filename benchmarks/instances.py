"""Race our solvers against peers on standard instances at equal CPU seconds.

Short runs set the effort that fills the seconds, on one thread. Building dimod models is
not counted. A gap is relative to the best known energy, or to the best of all solvers.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import torch
from dwave.samplers import TabuSampler

from benchmarks import Record, filled, in_processes, timed
from qubolearn import AutoSolver, ParallelTempering, SimulatedAnnealing, solve, to_bqm
from qubolearn.data import load_instance
from qubolearn.qubo import as_dense
from qubolearn.solvers import PopulationAnnealing

SMALL = [f"G{k}" for k in (*range(1, 22), *range(43, 48), *range(51, 55))]  # up to 1,000 nodes
LARGE = ["G22", "G32", "G35", "G55", "G57", "G60", "G62", "G66", "G70", "G72"]
BEASLEY = [f"bqp{n}_{k}" for n in (500, 1000) for k in range(1, 6)]
DENSE = ["dense-2500-0", "dense-3000-0", "dense-5000-0"]
SEEDS = 3


class Group(NamedTuple):
    """Instances, CPU seconds, solvers with one seed, and solvers left out."""

    names: Sequence[str]
    seconds: float
    once: Sequence[str] = ()
    without: Sequence[str] = ()


#: One seed is enough far from the best states. OpenJij needs minutes to read dense QUBOs.
FAR = ("OpenJij", "simulated bifurcation", "tempering")
GROUPS = {
    "Gset, 800 and 1,000 nodes": Group(SMALL, 6.0, ("auto", "tabu", *FAR), ("tempering",)),
    "Gset, 2,000 nodes and more": Group(LARGE, 6.0, ("neal", "tabu", *FAR)),
    "Beasley, 500 and 1,000 bits": Group(BEASLEY, 1.0, FAR),
    "planted loops": Group(["fl-p8"], 6.0),
    "dense, 2,500 and 5,000 bits": Group(DENSE[::2], 10.0, ("neal", *FAR), ("OpenJij",)),
    "dense, 3,000 bits": Group(DENSE[1:2], 60.0, ("neal",), FAR),
}
#: Graphs on which PopulationAnnealing was tuned.
TUNED = {"G10", "G14", "G17", "G18", "G21", "G35", "G55"}
#: Time to target: instances not used for tuning, CPU seconds, and runs.
TARGETS, EFFORTS, RUNS = ["G2", "G12", "G15", "G44", "G53", "bqp1000_2", "fl-p8"], (0.1, 0.4, 1.6), 10


@cache
def instance(name: str) -> tuple[Any, float | None]:
    """Return a QUBO and its best known energy; dense-N-SEED is random."""
    if name.startswith("dense"):
        n, seed = map(int, name.split("-")[1:])
        A = np.triu(np.random.default_rng(seed).integers(-100, 101, (n, n))).astype(np.float32)
        return torch.from_numpy(A)[None], None
    given = load_instance(name)
    return given.A, -3800.0 if name == "fl-p8" else given.best


@cache
def model(name: str) -> Any:
    return to_bqm(instance(name)[0][0])


def _lowest(name: str, solver: Any) -> float:
    return float(solve(instance(name)[0], solver, 1).energies[0, 0])


def _ours(make: Callable[..., Any], first: int, name: str, seconds: float, seed: int) -> float:
    return filled(lambda sweeps: _lowest(name, make(sweeps=sweeps, seed=seed)), first, seconds)


def _sampler(package: str, sampler: str, reads: int, name: str, seconds: float, seed: int) -> float:
    sample = getattr(import_module(package), sampler)().sample
    how = {"bqm": model(name), "num_reads": reads, "seed": seed}
    return filled(lambda sweeps: float(sample(num_sweeps=sweeps, **how).first.energy), 20, seconds)


def _tabu(name: str, seconds: float, seed: int) -> float:
    return float(TabuSampler().sample(model(name), timeout=int(1000 * seconds), seed=seed).first.energy)


def _bifurcation(name: str, seconds: float, seed: int) -> float:
    import simulated_bifurcation

    torch.manual_seed(seed)
    search = partial(simulated_bifurcation.minimize, as_dense(instance(name)[0])[0].float(), domain="binary")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return filled(lambda steps: float(search(max_steps=steps, agents=32, verbose=False)[1]), 100, seconds)


OURS: dict[str, Callable[[str, float, int], float]] = {
    "population": partial(_ours, PopulationAnnealing, 200),
    "annealing": partial(_ours, partial(SimulatedAnnealing, 16), 20),
    "tempering": partial(_ours, ParallelTempering, 200),
    "auto": lambda name, seconds, seed: _lowest(name, AutoSolver(seed, seconds)),
    "auto, default": lambda name, _, seed: _lowest(name, AutoSolver(seed)),
}
PEERS: dict[str, Callable[[str, float, int], float]] = {
    "neal": partial(_sampler, "dwave.samplers", "SimulatedAnnealingSampler", 8),
    "tabu": _tabu,
    "OpenJij": partial(_sampler, "openjij", "SASampler", 4),
    "simulated bifurcation": _bifurcation,
}
INSTALLED = {"OpenJij": find_spec("openjij"), "simulated bifurcation": find_spec("simulated_bifurcation")}
SOLVERS = OURS | {name: peer for name, peer in PEERS.items() if INSTALLED.get(name, True)}


def _work(solver: str, name: str, seconds: float, seed: int) -> tuple[float, float]:
    """Return the lowest energy and CPU seconds of a solver on an instance."""
    if solver in PEERS:
        model(name)
    spent, energy = timed(partial(SOLVERS[solver], name, seconds, seed), time.process_time)
    return energy, spent


def instances(quick: bool) -> Iterator[Record]:
    """Yield the lowest energies of each solver on each instance."""
    groups = {"dense": Group(["dense-60-0"], 0.05)} if quick else GROUPS
    cells: dict[tuple[str, str], dict[str, list[tuple[str, str, float, int]]]] = {}
    for group, (names, seconds, once, without) in groups.items():
        seeds = {each: range(1 if each in once else SEEDS) for each in SOLVERS if each not in without}
        for name in names:
            cells[group, name] = {s: [(s, name, seconds, k) for k in some] for s, some in seeds.items()}
    tasks = [task for cell in cells.values() for several in cell.values() for task in several]
    # the longest first
    found = in_processes(_work, sorted(tasks, key=lambda task: (-task[2], task[1])), serial=quick)
    for (group, name), cell in cells.items():
        A, known = instance(name)
        answers = {solver: np.array([found[task] for task in some]).T for solver, some in cell.items()}
        best = min([known or 0.0, *(energies.min() for energies, _ in answers.values())])
        for solver, (energies, spent) in answers.items():
            about = {"group": group, "instance": name, "n": A.shape[2], "solver": solver}
            about |= {"seconds": groups[group].seconds, "best_known": known, "energies": energies.tolist()}
            hits = int((energies <= best + 1e-6 * abs(best)).sum())
            gap = float(100 * (energies.mean() - best) / abs(best))
            yield {**about, "hits": hits, "gap": gap, "cpu_seconds": float(spent.mean())}


def time_to_target(quick: bool) -> Iterator[Record]:
    """Yield the CPU seconds to reach the best known energy with probability 0.99.

    It is the least t log(0.01) / log(1 - p) over runs of several lengths that succeed with
    probability p. The 95 % interval is from 1,000 resamples; None is infinite.
    """
    names, efforts, runs = (["bqp50_1"], (0.01,), 3) if quick else (TARGETS, EFFORTS, RUNS)
    present = [name for name in SOLVERS if name not in ("auto", "auto, default", "tempering")]
    tasks = [
        (s, name, t, seed) for t in efforts[::-1] for name in names for s in present for seed in range(runs)
    ]
    found, rng = in_processes(_work, tasks, serial=quick), np.random.default_rng(0)
    for name in names:
        A, best = instance(name)
        for solver in present:
            some = np.array([[found[solver, name, t, seed] for seed in range(runs)] for t in efforts])
            hits, spent = some[..., 0] <= best + 1e-6 * abs(best), some[..., 1].mean(1)
            drawn = hits[:, rng.integers(0, runs, (1000, runs))].mean(2)
            low, high = np.quantile(_seconds(drawn, spent), [0.025, 0.975], method="nearest")
            times = {"seconds": _seconds(hits.mean(1), spent), "low": low, "high": high}
            finite = {key: float(value) if np.isfinite(value) else None for key, value in times.items()}
            shares = {"cpu_seconds": spent.tolist(), "success": hits.mean(1).tolist()}
            yield {"instance": name, "n": A.shape[2], "solver": solver, "runs": runs, **finite, **shares}


def _seconds(success: Any, spent: Any) -> Any:
    """Return the least seconds to succeed with probability 0.99."""
    with np.errstate(divide="ignore"):
        repeats = np.maximum(1, np.log(0.01) / np.log1p(-np.minimum(success, 1 - 1e-12)))
    return (np.where(success > 0, repeats, np.inf).T * spent).T.min(0)


def summary(records: list[Record]) -> Iterator[tuple[str, str, dict[str, float]]]:
    """Yield group, solver, and their instances, hits in most seeds, mean gap."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(record["group"], []).append(record)
        if record["instance"].startswith("G") and record["instance"] not in TUNED:
            groups.setdefault("Gset, graphs not used for tuning", []).append(record)
    for group, both in groups.items():
        for solver in dict.fromkeys(record["solver"] for record in both):
            some = [record for record in both if record["solver"] == solver]
            values = {"instances": len(some), "hit": sum(2 * r["hits"] > len(r["energies"]) for r in some)}
            means = {key: float(np.mean([r[key] for r in some])) for key in ("gap", "cpu_seconds")}
            yield group, solver, {**values, **means}


def figure(records: list[Record]) -> Any:
    from matplotlib import pyplot

    rows = list(summary(records))
    groups = list(dict.fromkeys(group for group, _, _ in rows))
    made, axes = pyplot.subplots(2, 4, figsize=(10, 6), sharex=True, sharey=True, layout="constrained")
    axes[1, 3].remove()  # seven groups
    for axis, group in zip(axes.flat, groups, strict=False):
        some = [(solver, values["gap"]) for each, solver, values in rows if each == group][::-1]
        colors = ["C0" if solver in OURS else "0.6" for solver, _ in some]
        axis.barh([solver for solver, _ in some], [max(gap, 1e-4) for _, gap in some], color=colors)
        for solver in (solver for solver, gap in some if gap < 1e-4):
            axis.text(1.2e-4, solver, "0", va="center")
        axis.set(xscale="log", xlim=(1e-4, 100), xlabel="mean gap, %")
        axis.set_title(group, fontsize=9)
    made.suptitle("Gap to the best known energy at equal CPU seconds (smaller is better)")
    return made
