"""Annealing and tempering on an NVIDIA GPU; annealing beside all cores of its machine, the same QUBOs, one run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import torch

from qubolearn.benchmarks import Record, random_qubos, timed
from qubolearn.benchmarks.large_annealing import pegasus
from qubolearn.benchmarks.solving import rrn_puzzles
from qubolearn.problems.sudoku import hint_clamp, rule_groups, rule_qubo
from qubolearn.qubo import Qubo, SparseQubo, energies
from qubolearn.randomness import stream
from qubolearn.solvers import solve
from qubolearn.solvers.annealing import SimulatedAnnealing
from qubolearn.solvers.tempering import ParallelTempering

__all__ = ["annealing", "sudoku"]

BATCH, SWEEPS = 100, 1000
#: Reads of each QUBO. 100 leave most of a large GPU idle; 1,000 fill it, and are timed up to this n.
READS, MANY_READS, MANY_UP_TO = 100, 1000, 512


def annealing(quick: bool, device: str = "cuda") -> Iterator[Record]:
    """One record for each family and size, with mean energies after the same reads of the same sweeps on both."""
    for n in (64,) if quick else (32, 62, 64, 128, 256, 512, 1024, 2048):
        for reads in (READS, MANY_READS) if 64 <= n <= MANY_UP_TO else (READS,):
            yield _record("dense", random_qubos(BATCH, n), reads, device)
    for m in (3,) if quick else (6, 16):
        yield _record("Pegasus", _pegasus(m), READS, device)


def _pegasus(m: int) -> SparseQubo:
    model = pegasus(m)
    edges = torch.from_numpy(np.sort(model.edges, 0))
    linear = torch.randn(BATCH, model.n, generator=stream(0, "benchmark", model.n))
    return SparseQubo(linear, edges, torch.from_numpy(model.couplings).float().expand(BATCH, -1).contiguous())


def _record(family: str, A: Qubo, reads: int, device: str) -> Record:
    """All QUBOs on the GPU, and so many on the cores beside it that all of them have equal work for some seconds."""
    n, threads = A.shape[2], torch.get_num_threads()
    there, here = A.to(device), A[: threads * max(1, 2048 * READS // (n * reads))]
    solver = SimulatedAnnealing(reads, SWEEPS, seed=0)
    for some in (here[:threads], there):
        replace(solver, sweeps=2)(some)  # compiles; for one sweep Triton would compile a kernel of its own
    cpu_seconds, cpu_reads = _best(partial(solver.sample, here))
    gpu_seconds, gpu_reads = _best(partial(solver.sample, there))
    call_seconds, _ = _best(lambda: solver(there).states)
    rates = [len(some) * reads * n * SWEEPS / taken for some, taken in ((there, gpu_seconds), (here, cpu_seconds))]
    size = {"family": family, "n": n, "batch": len(A), "cpu_batch": len(here), "reads": reads, "sweeps": SWEEPS}
    speed = {"gpu_updates_per_second": rates[0], "cpu_updates_per_second": rates[1], "ratio": rates[0] / rates[1]}
    seconds = {"gpu_seconds": gpu_seconds, "cpu_seconds": cpu_seconds, "gpu_call_seconds": call_seconds}
    means = {"gpu_energy": _mean(A, gpu_reads.cpu()), "cpu_energy": _mean(A, cpu_reads)}
    return {**size, **seconds, **speed, "threads": threads, **means}


def _there(made: torch.Tensor) -> torch.Tensor:
    """The tensor, once the GPU has made it."""
    made.flatten()[0].item()
    return made


def _best(work: Callable[[], torch.Tensor], repeats: int = 3, enough: float = 1.0) -> tuple[float, torch.Tensor]:
    """The best time until the tensor is there, of several calls or of as many as take a second; and the tensor."""
    times: list[float] = []
    while len(times) < repeats and sum(times) < enough:
        seconds, made = timed(lambda: _there(work()))
        times.append(seconds)
    return min(times), made


def _mean(A: Qubo, reads: torch.Tensor) -> float:
    """The mean energy of the reads of the first QUBOs."""
    return energies(A[:10], reads[:10]).double().mean().item()


def sudoku(quick: bool, device: str = "cuda") -> Iterator[Record]:
    """Puzzles of 17 to 34 hints, 500 of each number, by tempering the true rules: first all 9,000 in one call.

    Puzzles are the test set of Recurrent Relational Networks in ``$QUBOLEARN_DATA/sudoku/sudoku9.npz``.
    """
    puzzles = rrn_puzzles()
    each = 10 if quick else 500
    solver = ParallelTempering(sweeps=1_000 if quick else 200_000, target=0.0, seed=0)
    groups = rule_groups(9)
    some = puzzles[:18, :each].flatten(0, 1)
    solve(rule_qubo(9, 64).to(device), replace(solver, sweeps=1), 1, clamp=hint_clamp(some[:64]), groups=groups)
    for name, part in (("17 to 34", some), ("17", some[:each])):
        rules, clamp = rule_qubo(9, len(part)).to(device), hint_clamp(part)
        seconds, found = timed(partial(solve, rules, solver, 1, clamp=clamp, groups=groups))
        solved, sweeps = int((found.energies == 0).sum()), found.info["sweeps"].double()
        record = {"hints": name, "puzzles": len(part), "solved": solved, "seconds": seconds}
        yield {**record, "sweeps": sweeps.mean().item(), "most_sweeps": int(sweeps.max())}
