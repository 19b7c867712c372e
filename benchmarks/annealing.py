"""Annealing against neal, with the same reads and sweeps of the same QUBOs, and tempering of Sudoku puzzles."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
import torch
from dwave.samplers import SimulatedAnnealingSampler

import qubolearn as ql
from benchmarks import Record, random_qubos, seconds_of, threads, timed
from benchmarks.models import Model, as_qubo, pegasus, regular, sherrington_kirkpatrick
from qubolearn.data import load_instance
from qubolearn.problems.sudoku import hint_clamp, rule_groups, rule_qubo
from qubolearn.qubo import Qubo
from qubolearn.solvers import PopulationAnnealing, make_solver

BATCH, READS, SWEEPS = 141, 16, 1000
GSET = [f"G{k}" for k in (*range(1, 58), 60, 61, 62, 65, 66, 67, 70, 72, 77, 81)]
READS_ON_GPU = {5000: 4096, 10**9: 2048}  # up to n bits


def small(quick: bool) -> Iterator[Record]:
    """Measure 100 reads of 1,000 sweeps, ours and neal's, on one thread."""
    with threads(1):
        yield from _solved((8, 15, 32), BATCH, quick, {"ours": "annealing:seed=0", "neal": "neal:seed=0"})


def quantum(quick: bool) -> Iterator[Record]:
    """Measure simulated quantum annealing with and without control errors, and path-integral Monte Carlo."""
    solvers = {
        "quantum": "quantum:seed=0",
        "quantum, no control errors": "quantum:seed=0,h_error=0,J_error=0",
        "path-integral": "path-integral:seed=0",
    }
    yield from _solved((8, 10, 12, 15), 8 if quick else 32, quick, solvers)


def _solved(sizes: tuple[int, ...], batch: int, quick: bool, solvers: dict[str, str]) -> Iterator[Record]:
    """Compare the two best states of all solvers with the lowest ones."""
    for n in sizes[:1] if quick else sizes:
        A = random_qubos(batch, n)
        exact = (ql.ExhaustiveSearch() if n <= 24 else ql.SimulatedAnnealing(400, 5000, seed=9))(A, 2).energies
        for name, spec in solvers.items():
            solver = make_solver(spec)
            solver(A[:2], 2)
            seconds, solution = timed(partial(solver, A, 2))
            right = (solution.energies - exact).abs() <= 1e-4 * exact.abs().clamp_min(1)  # which rounding may move
            success = solution.info["success_probability"].double()
            if not isinstance(solver, ql.QuantumAnnealing):  # then it is the share of reads at the best energy found
                success = success * right[:, 0]
            shares = {"ground_state_probability": success, "x_star_found": right[:, 0], "x_plus_found": right.all(1)}
            means = {key: share.double().mean().item() for key, share in shares.items()}
            yield {"n": n, "solver": name, "us": 1e6 * seconds / batch, **means}


def large(quick: bool) -> Iterator[Record]:
    """Measure one model at a time from 64 bits on, ours and neal in turns, in CPU seconds of one thread.

    neal takes dimod models only, so its time includes reading one. ``ratio`` is that of our solver on tensors,
    ``sampler_ratio`` that of ``QubolearnSampler`` on the same model, and ``sweeps_ratio`` subtracts a call of neal with
    one read of one sweep. Ratios are medians over the turns.
    """
    sizes = {sherrington_kirkpatrick: (64, 128, 256, 512, 1024, 2048), regular: (512, 2048, 5000), pegasus: (6, 12, 16)}
    for make, some in sizes.items():
        for size in some[:1] if quick else some:
            with threads(1):
                yield _large(make(size), 2 if quick else 3 if size in (1024, 2048) else 5)


def _large(model: Model, turns: int) -> Record:
    (A, offset), bqm = as_qubo(model), model.bqm()
    solver, sampler, neal = ql.SimulatedAnnealing(READS, SWEEPS), ql.QubolearnSampler(), SimulatedAnnealingSampler()
    calls: dict[str, Callable[[int], Any]] = {
        "ours": lambda seed: replace(solver, seed=seed).sample(A),
        "call": lambda seed: replace(solver, seed=seed)(A),
        "sampler": lambda seed: sampler.sample(bqm, num_reads=READS, num_sweeps=SWEEPS, seed=seed),
        "neal": lambda seed: neal.sample(bqm, num_reads=READS, num_sweeps=SWEEPS, seed=seed),
        "one": lambda seed: replace(solver, reads=1, seed=seed).sample(A),
        "neal_one": lambda seed: neal.sample(bqm, num_reads=1, num_sweeps=SWEEPS, seed=seed),
        "setup": lambda seed: neal.sample(bqm, num_reads=1, num_sweeps=1, seed=seed),
    }
    replace(solver, sweeps=1)(A)
    sampler.sample(bqm, num_reads=READS, num_sweeps=1)
    found = [
        {name: timed(partial(call, seed), time.process_time) for name, call in calls.items()} for seed in range(turns)
    ]
    times = {name: np.array([turn[name][0] for turn in found]) for name in calls}
    times["sweeps"] = times["neal"] - times["setup"]
    ratios = {"ratio": ("neal", "ours"), "call_ratio": ("neal", "call"), "sampler_ratio": ("neal", "sampler")}
    ratios |= {"sweeps_ratio": ("sweeps", "ours"), "one_read_ratio": ("neal_one", "one")}
    medians = {name: float(np.median(times[above] / times[below])) for name, (above, below) in ratios.items()}
    seconds = {f"{name}_seconds": float(np.median(times[name])) for name in ("ours", "neal")}
    ours = [ql.energies(A.to(torch.float64), turn["ours"][1].double())[0].numpy() + offset for turn in found]
    both = [np.concatenate(each) for each in (ours, [turn["neal"][1].record.energy for turn in found])]
    error = float(np.hypot(*(each.std(ddof=1) / np.sqrt(each.size) for each in both)))
    apart = float(both[0].mean() - both[1].mean()) / error if error > 0 else 0.0
    size = {"family": model.family, "n": model.n, "couplings": model.edges.shape[1]}
    return {**size, **seconds, **medians, "difference_in_errors": apart}


def on_gpu(quick: bool, device: str = "cuda", batch: int = 100) -> Iterator[Record]:
    """Measure whole calls for the two best states of 100 QUBOs on a GPU and on all cores, and the kernel alone."""
    for n in (64,) if quick else (64, 128, 256, 512, 1024):
        for sweeps in (100, 1000):
            yield _on_both("dense", random_qubos(batch, n), ql.SimulatedAnnealing(100, sweeps, seed=0), device)
    for m in (3,) if quick else (6, 16):
        A = as_qubo(pegasus(m))[0]
        linear = torch.randn(batch, A.shape[2], generator=torch.Generator().manual_seed(A.shape[2]))
        fields = A.with_values(linear, A.quadratic.expand(batch, -1).contiguous() / 4)
        yield _on_both("Pegasus", fields, ql.SimulatedAnnealing(100, 100, seed=0), device)


def _on_both(family: str, A: Qubo, solver: ql.SimulatedAnnealing, device: str) -> Record:
    """Measure all QUBOs on the GPU, and enough of them on the cores to keep every core busy."""
    n, cores = A.shape[2], torch.get_num_threads()
    there, here = A.to(device), A[: cores * max(1, 204_800 // (n * solver.reads))]
    gpu_seconds = seconds_of(lambda: solver(there).energies.tolist(), 5)
    cpu_seconds = seconds_of(lambda: solver(here).energies.tolist(), 2)
    kernel_seconds = _kernel_seconds(partial(solver.sample, there))
    rate = len(A) * solver.reads * n * solver.sweeps / gpu_seconds
    cpu_rate = len(here) * solver.reads * n * solver.sweeps / cpu_seconds
    size = {"family": family, "n": n, "reads": solver.reads, "sweeps": solver.sweeps, "threads": cores}
    seconds = {
        "kernel_seconds": kernel_seconds,
        "gpu_seconds": gpu_seconds,
        "over_kernel": gpu_seconds / kernel_seconds,
    }
    rates = {"gpu_rate": rate, "cpu_rate": cpu_rate, "ratio": rate / cpu_rate}
    energies = (solver(some[: len(here)]).energies[:, 0].mean().item() for some in (there, here))
    return {**size, **seconds, **rates, **dict(zip(("gpu_energy", "cpu_energy"), energies, strict=True))}


def _kernel_seconds(work: Callable[[], object]) -> float:
    """Return how long the annealing kernel runs on the GPU during a call."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        work()
        torch.cuda.synchronize()
    return sum(event.device_time_total for event in profile.key_averages() if event.key.startswith("_anneal")) * 1e-6


def gset_on_gpu(quick: bool, device: str = "cuda", limit: float = 290.0) -> Iterator[Record]:
    """Search all Gset graphs on a GPU within five minutes altogether; a hit ends a search.

    Every graph gets a short search; those not at the best known cut get a longer one, and then all time that is left.
    """
    graphs = {name: load_instance(name) for name in (GSET[10:11] if quick else GSET)}
    began = time.perf_counter()
    graphs = dict(sorted(graphs.items(), key=lambda item: item[1].A.shape[2]))
    records: dict[str, Record] = {name: {"graph": name, "n": graphs[name].A.shape[2], "cut": 0.0} for name in graphs}
    for turn, share in enumerate((0.0, 0.35, 1.0)):
        missing = [record for name, record in records.items() if record["cut"] < -graphs[name].best]
        end = time.perf_counter() + share * (limit - (time.perf_counter() - began))
        for place, record in enumerate(missing):
            if time.perf_counter() - began > limit:
                break
            seconds = (end - time.perf_counter()) / (len(missing) - place)
            sweeps = max(100, int(seconds * record["rate"])) if turn else 100 if quick else 2000
            graph = graphs[record["graph"]]
            reads = next(reads for n, reads in READS_ON_GPU.items() if record["n"] < n)
            solver = PopulationAnnealing(sweeps, reads, seed=turn, target=graph.best)
            taken, found = timed(partial(solver, graph.A.to(device), 1))
            record["cut"] = max(record["cut"], -found.energies.item())
            record["rate"], record["reads"] = int(found.info["sweeps"]) / taken, reads
            record["seconds"] = record.get("seconds", 0.0) + taken
    for name, record in records.items():
        best = -graphs[name].best
        yield {**record, "best_known": best, "gap": 100 * (best - record["cut"]) / best}


def sudoku(quick: bool) -> Iterator[Record]:
    """Measure puzzles of 17 and of 24 hints of Recurrent Relational Networks, one per call, on one thread."""
    arrays = np.load(Path(os.environ["QUBOLEARN_DATA"]) / "sudoku/sudoku9.npz")
    puzzles = torch.tensor(arrays["rrn_test_puzzle"])  # [hints - 17, 500, 81]
    rules, groups = rule_qubo(9), rule_groups(9)
    solver = ql.ParallelTempering(sweeps=1_000_000, target=0.0)
    ql.solve(rules, replace(solver, sweeps=1), 1, clamp=hint_clamp(puzzles[0, :1]), groups=groups)
    for hints in (17, 24):
        found = []
        for number, puzzle in enumerate(puzzles[hints - 17, : 3 if quick else 100]):
            clamp, seeded = hint_clamp(puzzle[None]), replace(solver, seed=number)
            with threads(1):
                found.append(timed(partial(ql.solve, rules, seeded, 1, clamp=clamp, groups=groups)))
        seconds, solutions = zip(*found, strict=True)
        solved, sweeps = sum(s.energies.item() == 0 for s in solutions), fmean(int(s.info["sweeps"]) for s in solutions)
        means = {"seconds": fmean(seconds), "median": median(seconds), "longest": max(seconds), "sweeps": sweeps}
        yield {"hints": hints, "puzzles": len(found), "solved": solved, **means}
