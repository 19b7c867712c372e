"""Annealing from 64 to thousands of bits against neal: one model each, the same reads and sweeps, one thread.

Times are CPU seconds of the whole process, so that other work on the machine counts little. Ours and neal's calls take
turns; ratios are medians over the turns. neal takes dimod models only, so its time includes reading one: ``ratio`` is
that of our solver on tensors, ``sampler_ratio`` that of ``QubolearnSampler`` on the same model, and ``sweeps_ratio``
compares with neal's time less that of a call with one read of one sweep.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from qubolearn.benchmarks import Record, threads, timed
from qubolearn.chips.topologies import chip_graph
from qubolearn.qubo import Qubo, energies, from_bqms
from qubolearn.solvers.annealing import SimulatedAnnealing

__all__ = ["records"]

READS, SWEEPS, SEED = 16, 1000, 0


class Model(NamedTuple):
    """A spin glass without fields."""

    family: str
    n: int
    edges: Any  # [2, m]
    couplings: Any  # [m]


def sherrington_kirkpatrick(n: int, seed: int = SEED) -> Model:
    """All pairs, normal couplings."""
    edges = np.stack(np.triu_indices(n, 1))
    return Model("dense", n, edges, np.random.default_rng(seed).standard_normal(edges.shape[1]) / np.sqrt(n))


def regular(n: int, seed: int = SEED) -> Model:
    """Three random neighbours each, couplings of -1 and 1."""
    import networkx

    return _signs("3-regular", n, np.array(networkx.random_regular_graph(3, n, seed=seed).edges).T, seed)


def pegasus(m: int, seed: int = SEED) -> Model:
    """A whole Pegasus chip, couplings of -1 and 1."""
    import networkx

    graph = networkx.convert_node_labels_to_integers(chip_graph("pegasus", m, coordinates=False))
    return _signs("Pegasus", len(graph), np.array(graph.edges).T, seed)


def _signs(family: str, n: int, edges: Any, seed: int) -> Model:
    return Model(family, n, edges, np.random.default_rng(seed).choice([-1.0, 1.0], edges.shape[1]))


def records(quick: bool) -> Iterator[Record]:
    """One record for each model."""
    models: list[tuple[Callable[[int], Model], tuple[int, ...]]] = [
        (sherrington_kirkpatrick, (64, 128, 256, 512, 1024, 2048)),
        (regular, (512, 2048, 5000)),
        (pegasus, (6, 12, 16)),
    ]
    for make, sizes in models:
        for size in sizes[:1] if quick else sizes:
            with threads(1):
                yield _record(make(size), 2 if quick else 3 if size in (1024, 2048) else 5)


def as_bqm(model: Model) -> Any:
    """The spin glass as a dimod model."""
    import dimod

    couplings = (*model.edges, model.couplings)
    return dimod.BinaryQuadraticModel.from_numpy_vectors(np.zeros(model.n), couplings, 0.0, dimod.SPIN)


def _record(model: Model, turns: int) -> Record:
    from dwave.samplers import SimulatedAnnealingSampler

    from qubolearn.solvers.dimod_sampler import QubolearnSampler

    bqm = as_bqm(model)
    sparse, offset = from_bqms([bqm])
    A: Qubo = sparse.dense() if model.family == "dense" else sparse
    solver, sampler = SimulatedAnnealing(READS, SWEEPS), QubolearnSampler()
    neal = SimulatedAnnealingSampler()  # type: ignore[no-untyped-call]
    replace(solver, sweeps=1)(A)  # compiles
    sampler.sample(bqm, num_reads=READS, num_sweeps=1)
    times: dict[str, list[float]] = {}
    _timed(times, "setup", neal.sample, bqm, num_reads=1, num_sweeps=1)
    ours, theirs = [], []
    for turn in range(turns):
        options: dict[str, Any] = {"num_sweeps": SWEEPS, "seed": turn}
        seeded = replace(solver, seed=turn)
        reads = _timed(times, "ours", seeded.sample, A)
        ours.append(energies(A, reads)[0].numpy() + offset.item())
        _timed(times, "call", seeded, A)
        _timed(times, "sampler", sampler.sample, bqm, num_reads=READS, **options)
        found = _timed(times, "neal", neal.sample, bqm, num_reads=READS, **options)
        theirs.append(found.record.energy)
        _timed(times, "one", replace(seeded, reads=1).sample, A)
        _timed(times, "neal_one", neal.sample, bqm, num_reads=1, **options)
    times["sweeps"] = [seconds - times["setup"][0] for seconds in times["neal"]]
    ratios = {
        "ratio": ("neal", "ours"),
        "call_ratio": ("neal", "call"),
        "sampler_ratio": ("neal", "sampler"),
        "sweeps_ratio": ("sweeps", "ours"),
        "one_read_ratio": ("neal_one", "one"),
    }
    size = {"family": model.family, "n": model.n, "couplings": model.edges.shape[1]}
    effort = {"reads": READS, "sweeps": SWEEPS, "turns": turns, "seed": SEED}
    seconds = {f"{name}_seconds": float(np.median(times[name])) for name in ("ours", "neal")}
    medians = {name: float(np.median(np.divide(times[above], times[below]))) for name, (above, below) in ratios.items()}
    return {**size, **effort, **seconds, **medians, **_quality(np.concatenate(ours), np.concatenate(theirs))}


def _timed(times: dict[str, list[float]], name: str, work: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    seconds, result = timed(partial(work, *args, **kwargs), time.process_time)
    times.setdefault(name, []).append(seconds)
    return result


def _quality(ours: Any, theirs: Any) -> Record:
    """Mean energies of all reads, and their difference (ours less neal's) in standard errors."""
    error = np.hypot(ours.std(ddof=1) / np.sqrt(ours.size), theirs.std(ddof=1) / np.sqrt(theirs.size))
    difference = float(ours.mean() - theirs.mean())
    return {
        "energy": float(ours.mean()),
        "neal_energy": float(theirs.mean()),
        "difference_in_errors": difference / float(error) if error > 0 else 0.0,
    }
