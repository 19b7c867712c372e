"""Annealing and tempering on an NVIDIA GPU; annealing beside all cores of its machine, the same QUBOs, one run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch

from qubolearn.benchmarks import Record, random_qubos
from qubolearn.benchmarks.large_annealing import pegasus
from qubolearn.problems.data import data_folder, load_npz
from qubolearn.problems.sudoku import hint_clamp, rule_groups, rule_qubo
from qubolearn.qubo import Qubo, SparseQubo, energies
from qubolearn.randomness import stream
from qubolearn.solvers import solve
from qubolearn.solvers.annealing import SimulatedAnnealing
from qubolearn.solvers.tempering import ParallelTempering

__all__ = ["annealing", "sudoku"]

BATCH, READS, SWEEPS = 100, 100, 1000


def annealing(quick: bool, device: str = "cuda") -> Iterator[Record]:
    """One record for each family and size, with mean energies after the same number of sweeps on both."""
    for n in (64,) if quick else (32, 62, 64, 128, 256, 512, 1024, 2048):
        yield _record("dense", random_qubos(BATCH if n < 2048 else 20, n), device)
    for m in (3,) if quick else (6, 16):
        yield _record("Pegasus", _pegasus(m), device)


def _pegasus(m: int) -> SparseQubo:
    model = pegasus(m)
    edges = torch.from_numpy(np.sort(model.edges, 0))
    linear = torch.randn(BATCH, model.n, generator=stream(0, "benchmark", model.n))
    return SparseQubo(linear, edges, torch.from_numpy(model.couplings).float().expand(BATCH, -1).contiguous())


def _record(family: str, A: Qubo, device: str) -> Record:
    """The same reads and sweeps on the GPU and on all cores beside it."""
    there, solver = A.to(device), SimulatedAnnealing(READS, SWEEPS, seed=0)
    for given in (A[:2], there):
        replace(solver, sweeps=1)(given)  # compiles
    cpu_seconds, here_reads = _timed(solver, A)
    gpu_seconds, there_reads = _timed(solver, there)
    call_seconds = _call_seconds(solver, there)
    updates = len(A) * READS * A.shape[2] * SWEEPS
    size = {"family": family, "n": A.shape[2], "batch": len(A), "reads": READS, "sweeps": SWEEPS}
    speed = {"gpu_updates_per_second": updates / gpu_seconds, "cpu_updates_per_second": updates / cpu_seconds}
    more = {"ratio": cpu_seconds / gpu_seconds, "threads": torch.get_num_threads(), "gpu_call_seconds": call_seconds}
    means = {"gpu_energy": _mean(A, there_reads.cpu()), "cpu_energy": _mean(A, here_reads)}
    return {**size, "gpu_seconds": gpu_seconds, "cpu_seconds": cpu_seconds, **speed, **more, **means}


def _timed(solver: SimulatedAnnealing, A: Qubo) -> tuple[float, torch.Tensor]:
    """Seconds until all reads are there, and they."""
    began = time.perf_counter()
    reads = solver.sample(A)
    reads[0, 0, 0].item()  # waits for the GPU
    return time.perf_counter() - began, reads


def _call_seconds(solver: SimulatedAnnealing, A: Qubo) -> float:
    """Seconds of the whole call, which also looks for the lowest states around the reads."""
    began = time.perf_counter()
    solver(A)
    return time.perf_counter() - began


def _mean(A: Qubo, reads: torch.Tensor) -> float:
    """The mean energy of the reads of the first QUBOs."""
    return energies(A[:10], reads[:10]).double().mean().item()


def sudoku(quick: bool, device: str = "cuda") -> Iterator[Record]:
    """Puzzles of 17 to 34 hints, 500 of each number, by tempering the true rules: first all 9,000 in one call.

    Puzzles are the test set of Recurrent Relational Networks in ``$QUBOLEARN_DATA/sudoku/sudoku9.npz``.
    """
    path = data_folder("sudoku") / "sudoku9.npz"
    puzzles = torch.tensor(load_npz(path, {"rrn_test_puzzle": ("u", 3)})["rrn_test_puzzle"])
    each = 10 if quick else 500
    solver = ParallelTempering(sweeps=1_000 if quick else 200_000, target=0.0, seed=0)
    groups = rule_groups(9)
    some = puzzles[:18, :each].flatten(0, 1)
    solve(rule_qubo(9, 64).to(device), replace(solver, sweeps=1), 1, clamp=hint_clamp(some[:64]), groups=groups)
    for name, part in (("17 to 34", some), ("17", some[:each])):
        began = time.perf_counter()
        found = solve(rule_qubo(9, len(part)).to(device), solver, 1, clamp=hint_clamp(part), groups=groups)
        solved = int((found.energies == 0).sum())
        seconds, sweeps = time.perf_counter() - began, found.info["sweeps"].double()
        record = {"hints": name, "puzzles": len(part), "solved": solved, "seconds": seconds}
        yield {**record, "sweeps": sweeps.mean().item(), "most_sweeps": int(sweeps.max())}
