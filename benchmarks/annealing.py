"""Annealing against neal, with the same reads and sweeps of the same QUBOs, and tempering of Sudoku puzzles."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from dwave.samplers import SimulatedAnnealingSampler
from torch import Tensor

import qubolearn as ql
from benchmarks import Record, random_qubos, threads, timed
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
    for n in sizes[:1] if quick else sizes:
        A = random_qubos(batch, n)
        best = ql.ExhaustiveSearch()(A, 2) if n <= 24 else ql.SimulatedAnnealing(400, 5000, seed=9)(A, 2)
        for name, spec in solvers.items():
            yield {"n": n, "solver": name, **_scored(make_solver(spec), A, best.energies)}


def _scored(solver: Any, A: Tensor, exact: Tensor) -> Record:
    """Measure a solver on all QUBOs and compare its two best states with the exact energies ``[batch, 2]``."""
    solver(A[:2], 2)
    seconds, solution = timed(partial(solver, A, 2))
    right = (solution.energies - exact).abs() <= 1e-4 * exact.abs().clamp_min(1)  # which rounding may move
    success = solution.info["success_probability"].double()
    if not isinstance(solver, ql.QuantumAnnealing):  # then it is the share of reads at the best energy found
        success = success * right[:, 0]
    return {
        "us": 1e6 * seconds / len(A),
        "ground_state_probability": success.mean().item(),
        "x_star_found": right[:, 0].double().mean().item(),
        "x_plus_found": right.all(1).double().mean().item(),
    }


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
    replace(solver, sweeps=1)(A)
    sampler.sample(bqm, num_reads=READS, num_sweeps=1)
    times: dict[str, list[float]] = {}

    def clocked(name: str, work: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        seconds, result = timed(partial(work, *args, **kwargs), time.process_time)
        times.setdefault(name, []).append(seconds)
        return result

    clocked("setup", neal.sample, bqm, num_reads=1, num_sweeps=1)
    ours, theirs = [], []
    for turn in range(turns):
        options: dict[str, Any] = {"num_sweeps": SWEEPS, "seed": turn}
        seeded = replace(solver, seed=turn)
        ours.append(ql.energies(A.to(torch.float64), clocked("ours", seeded.sample, A).double())[0].numpy() + offset)
        clocked("call", seeded, A)
        clocked("sampler", sampler.sample, bqm, num_reads=READS, **options)
        theirs.append(clocked("neal", neal.sample, bqm, num_reads=READS, **options).record.energy)
        clocked("one", replace(seeded, reads=1).sample, A)
        clocked("neal_one", neal.sample, bqm, num_reads=1, **options)
    times["sweeps"] = [seconds - times["setup"][0] for seconds in times["neal"]]
    ratios = {"ratio": ("neal", "ours"), "call_ratio": ("neal", "call"), "sampler_ratio": ("neal", "sampler")}
    ratios |= {"sweeps_ratio": ("sweeps", "ours"), "one_read_ratio": ("neal_one", "one")}
    size = {"family": model.family, "n": model.n, "couplings": model.edges.shape[1]}
    effort = {"reads": READS, "sweeps": SWEEPS, "turns": turns}
    seconds = {f"{name}_seconds": float(np.median(times[name])) for name in ("ours", "neal")}
    medians = {name: float(np.median(np.divide(times[above], times[below]))) for name, (above, below) in ratios.items()}
    both = [np.concatenate(ours), np.concatenate(theirs)]
    energy, peer = (float(each.mean()) for each in both)
    error = float(np.hypot(*(each.std(ddof=1) / np.sqrt(each.size) for each in both)))
    apart = (energy - peer) / error if error > 0 else 0.0  # in standard errors
    quality = {"energy": energy, "neal_energy": peer, "difference_in_errors": apart}
    return {**size, **effort, **seconds, **medians, **quality}


def on_gpu(quick: bool, device: str = "cuda", batch: int = 100) -> Iterator[Record]:
    """Measure whole calls for the two best states of 100 QUBOs on a GPU and on all cores, and the kernel alone."""
    for n in (64,) if quick else (64, 128, 256, 512, 1024):
        for sweeps in (100, 1000):
            yield _on_both("dense", random_qubos(batch, n), ql.SimulatedAnnealing(100, sweeps, seed=0), device)
    for m in (3,) if quick else (6, 16):
        model = pegasus(m)
        edges = torch.from_numpy(np.sort(model.edges, 0))
        linear = torch.randn(batch, model.n, generator=torch.Generator().manual_seed(model.n))
        couplings = torch.from_numpy(model.couplings).float().expand(batch, -1).contiguous()
        solver = ql.SimulatedAnnealing(100, 100, seed=0)
        yield _on_both("Pegasus", ql.SparseQubo(linear, edges, couplings), solver, device)


def _on_both(family: str, A: Qubo, solver: ql.SimulatedAnnealing, device: str) -> Record:
    """Measure all QUBOs on the GPU, and enough of them on the cores to keep every core busy."""
    n, cores = A.shape[2], torch.get_num_threads()
    there, here = A.to(device), A[: cores * max(1, 204_800 // (n * solver.reads))]
    for _ in range(2):
        solver(there)
    gpu_seconds, gpu_lowest = _best(lambda: solver(there).energies[:, 0], 10)
    cpu_seconds, cpu_lowest = _best(lambda: solver(here).energies[:, 0], 2)
    kernel_seconds = _kernel_seconds(partial(solver.sample, there))
    updates = solver.reads * n * solver.sweeps
    size = {"family": family, "n": n, "batch": len(A), "cpu_batch": len(here)}
    effort = {"reads": solver.reads, "sweeps": solver.sweeps, "threads": cores}
    seconds = {"kernel_seconds": kernel_seconds, "gpu_seconds": gpu_seconds, "cpu_seconds": cpu_seconds}
    rates = {"gpu_rate": len(A) * updates / gpu_seconds, "cpu_rate": len(here) * updates / cpu_seconds}
    ratios = {"over_kernel": gpu_seconds / kernel_seconds, "ratio": rates["gpu_rate"] / rates["cpu_rate"]}
    means = {"gpu_energy": gpu_lowest[: len(here)].mean().item(), "cpu_energy": cpu_lowest.mean().item()}
    return {**size, **effort, **seconds, **rates, **ratios, **means}


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


def _best(work: Callable[[], Tensor], repeats: int = 3, enough: float = 1.0) -> tuple[float, Tensor]:
    """Return the best time of several calls, or of as many as take a second, and the last result."""
    times: list[float] = []
    while len(times) < repeats and sum(times) < enough:
        began = time.perf_counter()
        made = work()
        made.flatten()[0].item()  # waits for a GPU
        times.append(time.perf_counter() - began)
    return min(times), made


def sudoku(quick: bool) -> Iterator[Record]:
    """Measure puzzles of 17 and of 24 hints of Recurrent Relational Networks, one per call, on one thread."""
    arrays = np.load(Path(os.environ["QUBOLEARN_DATA"]) / "sudoku/sudoku9.npz")
    puzzles, rules, groups = (
        torch.tensor(arrays["rrn_test_puzzle"]),
        rule_qubo(9),
        rule_groups(9),
    )  # [hints - 17, 500, 81]
    solver = ql.ParallelTempering(sweeps=1_000_000, target=0.0)
    ql.solve(rules, replace(solver, sweeps=1), 1, clamp=hint_clamp(puzzles[0, :1]), groups=groups)
    for hints in (17, 24):
        seconds, sweeps, solved = [], [], 0
        for number, puzzle in enumerate(puzzles[hints - 17, : 3 if quick else 100]):
            clamp, seeded = hint_clamp(puzzle[None]), replace(solver, seed=number)
            with threads(1):
                taken, found = timed(partial(ql.solve, rules, seeded, 1, clamp=clamp, groups=groups))
            seconds.append(taken)
            sweeps.append(int(found.info["sweeps"]))
            solved += int(found.energies.item() == 0)
        means = {"seconds": float(np.mean(seconds)), "median": float(np.median(seconds)), "longest": max(seconds)}
        yield {"hints": hints, "puzzles": len(seconds), "solved": solved, **means, "sweeps": float(np.mean(sweeps))}
