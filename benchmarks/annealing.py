"""Annealing against neal at equal reads and sweeps, and on a GPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import networkx
import numpy as np
import torch
from dwave.graphs import pegasus_graph
from dwave.samplers import SimulatedAnnealingSampler

import qubolearn as ql
from benchmarks import Record, random_qubos, seconds_of, threads, timed
from qubolearn.data import load_instance
from qubolearn.qubo import Qubo
from qubolearn.solvers import PopulationAnnealing, make_solver

BATCH, READS, SWEEPS = 141, 16, 1000
SIZES = {"dense": (64, 128, 256, 512, 1024, 2048), "3-regular": (512, 2048, 5000), "Pegasus": (6, 12, 16)}
GSET = [f"G{k}" for k in (*range(1, 58), 60, 61, 62, 65, 66, 67, 70, 72, 77, 81)]
READS_ON_GPU = {5000: 4096, 10**9: 2048}  # up to n bits


def small(quick: bool) -> Iterator[Record]:
    """Measure 100 reads of 1,000 sweeps, ours and neal's, on one thread."""
    with threads(1):
        yield from _solved((8, 15, 32), BATCH, quick, {"ours": "annealing:seed=0", "neal": "neal:seed=0"})


def quantum(quick: bool) -> Iterator[Record]:
    """Measure simulated quantum annealing and path-integral Monte Carlo."""
    solvers = {
        "quantum": "quantum:seed=0",
        "quantum, no control errors": "quantum:seed=0,h_error=0,J_error=0",
        "path-integral": "path-integral:seed=0",
    }
    yield from _solved((8, 10, 12, 15), 8 if quick else 32, quick, solvers)


def _solved(sizes: tuple[int, ...], batch: int, quick: bool, solvers: dict[str, str]) -> Iterator[Record]:
    for n in sizes[:1] if quick else sizes:
        A = random_qubos(batch, n)
        surely = ql.ExhaustiveSearch() if n <= 24 else ql.SimulatedAnnealing(400, 5000, seed=9)
        exact = surely(A, 2).energies
        for name, spec in solvers.items():
            solver = make_solver(spec)
            solver(A[:2], 2)
            seconds, solution = timed(partial(solver, A, 2))
            right = (solution.energies - exact).abs() <= 1e-4 * exact.abs().clamp_min(1)  # up to rounding
            success = solution.info["success_probability"].double()
            if not isinstance(solver, ql.QuantumAnnealing):  # reads at the best energy
                success = success * right[:, 0]
            found = {"x_star_found": right[:, 0], "x_plus_found": right.all(1)}
            shares = {"ground_state_probability": success, **found}
            means = {key: share.double().mean().item() for key, share in shares.items()}
            yield {"n": n, "solver": name, "us": 1e6 * seconds / batch, **means}


def large(quick: bool) -> Iterator[Record]:
    """Measure models from 64 bits on, ours and neal in turns, in CPU seconds.

    neal's time includes reading a dimod model. ``ratio`` is that of our solver on tensors,
    ``sampler_ratio`` that of ``QubolearnSampler``; both are medians over the turns.
    """
    for family, some in SIZES.items():
        for size in some[:1] if quick else some:
            with threads(1):
                yield _large(family, size, 2 if quick else 3 if size in (1024, 2048) else 5)


def spin_glass(family: str, size: int) -> Qubo:
    """Return a spin glass: normal couplings, or ±1 on a sparse graph."""
    random = np.random.default_rng(0)
    if family == "dense":
        edges = np.stack(np.triu_indices(size, 1))
        couplings = random.standard_normal(edges.shape[1]) / np.sqrt(size)
    else:
        regular = family == "3-regular"
        graph = networkx.random_regular_graph(3, size, seed=0) if regular else pegasus_graph(size)
        edges = np.sort(np.array(networkx.convert_node_labels_to_integers(graph).edges).T, 0)
        couplings = random.choice([-1.0, 1.0], edges.shape[1])
    fields = np.bincount(edges.ravel(), -2 * np.tile(couplings, 2))
    linear, quadratic = (torch.from_numpy(each)[None].float() for each in (fields, 4 * couplings))
    A = ql.SparseQubo(linear, torch.from_numpy(edges), quadratic)
    return A.dense() if family == "dense" else A


def _large(family: str, size: int, turns: int) -> Record:
    A = spin_glass(family, size)
    bqm = ql.to_bqm(A[0]).change_vartype("SPIN")
    solver, how = ql.SimulatedAnnealing(READS, SWEEPS), {"num_reads": READS, "num_sweeps": SWEEPS}
    sampler, neal = ql.QubolearnSampler(), SimulatedAnnealingSampler()
    calls: dict[str, Callable[[int], Any]] = {
        "ours": lambda seed: replace(solver, seed=seed).sample(A),
        "call": lambda seed: replace(solver, seed=seed)(A),
        "sampler": lambda seed: sampler.sample(bqm, seed=seed, **how),
        "neal": lambda seed: neal.sample(bqm, seed=seed, **how),
    }
    replace(solver, sweeps=1)(A)
    sampler.sample(bqm, num_reads=READS, num_sweeps=1)
    found = [
        {name: timed(partial(call, seed), time.process_time) for name, call in calls.items()}
        for seed in range(turns)
    ]
    times = {name: np.array([turn[name][0] for turn in found]) for name in calls}
    ratios = {"ratio": "ours", "call_ratio": "call", "sampler_ratio": "sampler"}
    medians = {name: float(np.median(times["neal"] / times[each])) for name, each in ratios.items()}
    seconds = {f"{name}_seconds": float(np.median(times[name])) for name in ("ours", "neal")}
    ours = [ql.energies(A.to(torch.float64), turn["ours"][1].double())[0].numpy() for turn in found]
    both = [np.concatenate(each) for each in (ours, [turn["neal"][1].record.energy for turn in found])]
    error = float(np.hypot(*(each.std(ddof=1) / np.sqrt(each.size) for each in both)))
    apart = float(both[0].mean() - both[1].mean()) / error if error > 0 else 0.0
    about = {"family": family, "n": A.shape[2], "couplings": bqm.num_interactions}
    return {**about, **seconds, **medians, "difference_in_errors": apart}


def on_gpu(quick: bool, device: str = "cuda", batch: int = 100) -> Iterator[Record]:
    """Measure 100 QUBOs on a GPU and on all cores, and the kernel alone."""
    for n in (64,) if quick else (64, 128, 256, 512, 1024):
        for sweeps in (100, 1000):
            solver = ql.SimulatedAnnealing(100, sweeps, seed=0)
            yield _on_both("dense", random_qubos(batch, n), solver, device)
    for m in (3,) if quick else (6, 16):
        A = spin_glass("Pegasus", m)
        linear = torch.randn(batch, A.shape[2], generator=torch.Generator().manual_seed(A.shape[2]))
        fields = A.with_values(linear, A.quadratic.expand(batch, -1).contiguous() / 4)
        yield _on_both("Pegasus", fields, ql.SimulatedAnnealing(100, 100, seed=0), device)


def _on_both(family: str, A: Qubo, solver: ql.SimulatedAnnealing, device: str) -> Record:
    """Measure all QUBOs on the GPU, and enough to keep every core busy."""
    n, cores = A.shape[2], torch.get_num_threads()
    there, here = A.to(device), A[: cores * max(1, 204_800 // (n * solver.reads))]
    gpu = seconds_of(lambda: solver(there).energies.tolist(), 5)
    cpu = seconds_of(lambda: solver(here).energies.tolist(), 2)
    kernel = _kernel_seconds(partial(solver.sample, there))
    rate = len(A) * solver.reads * n * solver.sweeps / gpu
    cpu_rate = len(here) * solver.reads * n * solver.sweeps / cpu
    size = {"family": family, "n": n, "reads": solver.reads, "sweeps": solver.sweeps, "threads": cores}
    seconds = {"kernel_seconds": kernel, "gpu_seconds": gpu, "over_kernel": gpu / kernel}
    rates = {"gpu_rate": rate, "cpu_rate": cpu_rate, "ratio": rate / cpu_rate}
    energies = (solver(some[: len(here)]).energies[:, 0].mean().item() for some in (there, here))
    return {**size, **seconds, **rates, **dict(zip(("gpu_energy", "cpu_energy"), energies, strict=True))}


def _kernel_seconds(work: Callable[[], object]) -> float:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        work()
        torch.cuda.synchronize()
    kernels = [event for event in profile.key_averages() if event.key.startswith("_anneal")]
    return 1e-6 * sum(event.device_time_total for event in kernels)


def gset_on_gpu(quick: bool, device: str = "cuda", limit: float = 290.0) -> Iterator[Record]:
    """Search all Gset graphs on a GPU within five minutes altogether.

    All graphs get a short search; those below the best known cut get the time that is left.
    """
    graphs = {name: load_instance(name) for name in (GSET[10:11] if quick else GSET)}
    began = time.perf_counter()
    records = [{"graph": name, "n": graph.A.shape[2], "cut": 0.0} for name, graph in graphs.items()]
    records.sort(key=lambda record: record["n"])
    for turn, share in enumerate((0.0, 0.35, 1.0)):
        missing = [record for record in records if record["cut"] < -graphs[record["graph"]].best]
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
    for record in records:
        best = -graphs[record["graph"]].best
        yield {**record, "best_known": best, "gap": 100 * (best - record["cut"]) / best}
