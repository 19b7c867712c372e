"""Race our solvers against their peers on standard instances: equal CPU seconds, one thread, three seeds.

Every solver first runs for a moment to measure its speed, and then gets the effort that fills the seconds. Peers read
dimod models; building one is not counted. A gap is relative to the best known energy, or to the best of all solvers
if none is known (dense QUBOs).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch

from benchmarks import Record, filled, in_processes, timed
from qubolearn import AutoSolver, ParallelTempering, SimulatedAnnealing, solve, to_bqm
from qubolearn.data import load_instance
from qubolearn.qubo import as_dense
from qubolearn.solvers import PopulationAnnealing

SMALL = [f"G{k}" for k in (*range(1, 22), *range(43, 48), *range(51, 55))]  # 800 and 1,000 nodes
LARGE = ["G22", "G32", "G35", "G55", "G57", "G60", "G62", "G66", "G70", "G72"]
BEASLEY = [f"bqp{n}_{k}" for n in (500, 1000) for k in range(1, 6)]
DENSE = ["dense-2500-0", "dense-3000-0", "dense-3000-1"]
#: group -> names, CPU seconds
GROUPS = {
    "Gset, 800 and 1,000 nodes": (SMALL, 6.0),
    "Gset, 2,000 nodes and more": (LARGE, 6.0),
    "Beasley, 500 and 1,000 bits": (BEASLEY, 1.0),
    "planted loops": (["fl-p8"], 6.0),
    "dense": (DENSE, 10.0),
}
SEEDS = 3
#: Graphs on which constants of PopulationAnnealing were chosen.
TUNED = {"G10", "G14", "G17", "G18", "G21", "G35", "G55"}
#: One seed is enough if a solver is far from the best states, and for `auto` where it chooses population.
ONE_SEED = {
    "Gset": ("tabu", "simulated bifurcation", "tempering", "auto"),
    "dense": ("OpenJij", "simulated bifurcation", "tempering"),
}
#: Time to target: instances that were not used for tuning, CPU seconds of a run, and runs.
TARGETS, EFFORTS, RUNS = ["G2", "G12", "G15", "G44", "G53", "bqp1000_2", "fl-p8"], (0.1, 0.4, 1.6), 10


@cache
def instance(name: str) -> tuple[Any, float | None]:
    """Return a QUBO and its best known energy; dense-N-SEED has entries -100 ... 100, as Beasley's generator."""
    if name.startswith("dense"):
        n, seed = map(int, name.split("-")[1:])
        A = np.triu(np.random.default_rng(seed).integers(-100, 101, (n, n))).astype(np.float32)
        return torch.from_numpy(A)[None], None
    given = load_instance(name)
    return given.A, -3800.0 if name == "fl-p8" else given.best


@cache
def model(name: str) -> Any:
    """Return the dimod model of an instance."""
    return to_bqm(instance(name)[0][0])


def _ours(make: Callable[[int, int], Any], first: int, name: str, seconds: float, seed: int) -> float:
    """Return the lowest energy of a solver with as many sweeps as fit into the seconds."""
    A = instance(name)[0]
    return filled(lambda sweeps: float(solve(A, make(sweeps, seed), 1).energies[0, 0]), first, seconds)


def _auto(name: str, seconds: float | None, seed: int) -> float:
    return float(solve(instance(name)[0], AutoSolver(seed, seconds), 1).energies[0, 0])


def _sampler(package: str, sampler: str, reads: int, name: str, seconds: float, seed: int) -> float:
    sample = partial(getattr(import_module(package), sampler)().sample, model(name), num_reads=reads, seed=seed)
    return filled(lambda sweeps: float(sample(num_sweeps=sweeps).first.energy), 20, seconds)


def _tabu(name: str, seconds: float, seed: int) -> float:
    from dwave.samplers import TabuSampler

    return float(TabuSampler().sample(model(name), timeout=int(1000 * seconds), seed=seed).first.energy)


def _bifurcation(name: str, seconds: float, seed: int) -> float:
    import simulated_bifurcation

    torch.manual_seed(seed)
    search = partial(simulated_bifurcation.minimize, as_dense(instance(name)[0])[0].float(), domain="binary")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return filled(lambda steps: float(search(max_steps=steps, agents=32, verbose=False)[1]), 100, seconds)


#: name -> function of an instance, seconds and a seed, and its package
SOLVERS: dict[str, tuple[Callable[[str, float, int], float], str]] = {
    "population": (partial(_ours, lambda sweeps, seed: PopulationAnnealing(sweeps, seed=seed), 200), "qubolearn"),
    "annealing": (partial(_ours, lambda sweeps, seed: SimulatedAnnealing(16, sweeps, seed=seed), 20), "qubolearn"),
    "tempering": (partial(_ours, lambda sweeps, seed: ParallelTempering(sweeps=sweeps, seed=seed), 200), "qubolearn"),
    "auto": (_auto, "qubolearn"),
    "auto, default": (lambda name, seconds, seed: _auto(name, None, seed), "qubolearn"),
    "neal": (partial(_sampler, "dwave.samplers", "SimulatedAnnealingSampler", 8), "dwave"),
    "tabu": (_tabu, "dwave"),
    "OpenJij": (partial(_sampler, "openjij", "SASampler", 4), "openjij"),
    "simulated bifurcation": (_bifurcation, "simulated_bifurcation"),
}


def _work(task: tuple[str, str, float, int]) -> tuple[float, float]:
    """Return the lowest energy and the CPU seconds of a solver on an instance with a seed."""
    solver, name, seconds, seed = task
    work, package = SOLVERS[solver]
    if package != "qubolearn":
        model(name)
    spent, energy = timed(partial(work, name, seconds, seed), time.process_time)
    return energy, spent


def ours(quick: bool) -> Iterator[Record]:
    """Yield the same of population on the largest graphs, and of ``auto`` with its defaults, also on dense QUBOs."""
    for group, solvers in (("Gset, 2,000 nodes and more", ["population"]), ("dense", [])):
        yield from instances(quick, [*solvers, "auto, default"], {group: GROUPS[group]})


def instances(quick: bool, solvers: Sequence[str] = (), among: Mapping[str, Any] = GROUPS) -> Iterator[Record]:
    """Yield one record per instance and solver: the lowest energies of three seeds and what is best known."""
    present = [name for name, (_, package) in SOLVERS.items() if find_spec(package) and name in (solvers or SOLVERS)]
    groups = {"dense": (["dense-60-0"], 0.05)} if quick else among
    cells = [(group, name, seconds) for group, (names, seconds) in groups.items() for name in names]

    def seeds(group: str, solver: str) -> range:
        return range(1 if solver in ONE_SEED.get(group.split(",")[0], ()) and not quick else SEEDS)

    tasks = [(solver, name, s, seed) for g, name, s in cells for solver in present for seed in seeds(g, solver)]
    longest = sorted(tasks, key=lambda task: (-task[2], task[1]))  # the longest first, so that all cores end together
    found = in_processes(_work, longest, serial=quick)
    for group, name, seconds in cells:
        A, known = instance(name)
        answers = {s: [found[s, name, seconds, seed] for seed in seeds(group, s)] for s in present}
        best = min([energy for some in answers.values() for energy, _ in some] + ([known] if known is not None else []))
        for solver, some in answers.items():
            energies = [energy for energy, _ in some]
            about = {"group": group, "instance": name, "n": A.shape[2], "solver": solver, "seconds": seconds}
            hits = sum(energy <= best + 1e-6 * abs(best) for energy in energies)
            gap = 100 * (float(np.mean(energies)) - best) / abs(best)
            cpu = float(np.mean([taken for _, taken in some]))
            yield {**about, "best_known": known, "energies": energies, "hits": hits, "gap": gap, "cpu_seconds": cpu}


def time_to_target(quick: bool) -> Iterator[Record]:
    """Yield the CPU seconds to reach the best known energy with probability 0.99, for each instance and solver.

    Runs of a few lengths reach it with a measured probability p; t log(0.01) / log(1 - p) is the least of them. Its
    95 % interval is from 1,000 resamples of the runs; None is infinite: no run reached it.
    """
    names, efforts, runs = (["bqp50_1"], (0.01,), 3) if quick else (TARGETS, EFFORTS, RUNS)
    left_out = "auto", "auto, default", "tempering"
    present = [name for name, (_, package) in SOLVERS.items() if find_spec(package) and name not in left_out]
    tasks = [(s, name, t, seed) for t in efforts[::-1] for name in names for s in present for seed in range(runs)]
    found, rng = in_processes(_work, tasks, serial=quick), np.random.default_rng(0)
    for name in names:
        A, best = instance(name)
        assert best is not None
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
    """Return the least seconds to succeed with probability 0.99 over runs of several lengths: [efforts, ...]."""
    with np.errstate(divide="ignore"):
        repeats = np.maximum(1, np.log(0.01) / np.log1p(-np.minimum(success, 1 - 1e-12)))
    return (np.where(success > 0, repeats, np.inf).T * spent).T.min(0)


def summary(records: list[Record]) -> Iterator[tuple[str, str, dict[str, float]]]:
    """Yield group, solver and their instances, those at the best known energy in most seeds, and mean gap."""
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
    """Draw the mean gap of every solver on each group of instances."""
    from matplotlib import pyplot

    rows = list(summary(records))
    groups = list(dict.fromkeys(group for group, _, _ in rows))
    made, axes = pyplot.subplots(2, -(-len(groups) // 2), figsize=(10, 6), sharey=True, layout="constrained")
    for axis, group in zip(axes.flat, groups, strict=False):
        some = [(solver, values["gap"]) for each, solver, values in rows if each == group][::-1]
        colors = ["C0" if SOLVERS[solver][1] == "qubolearn" else "0.6" for solver, _ in some]
        axis.barh([solver for solver, _ in some], [max(gap, 1e-4) for _, gap in some], color=colors)
        axis.set(xscale="log", xlim=(1e-4, None), xlabel="mean gap, %")
        axis.set_title(group, fontsize=9)
    made.suptitle("Gap to the best known energy at equal CPU seconds (smaller is better)")
    return made
