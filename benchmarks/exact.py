"""Exhaustive search and log Z."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import dimod

from benchmarks import Record, random_qubos, seconds_of, threads
from qubolearn import ExhaustiveSearch, log_partition, to_bqm

BATCH = 141  # the batch size of QuAnt


def exact(quick: bool) -> Iterator[Record]:
    """Measure the best two states against dimod.ExactSolver, and log Z."""
    peer, search = dimod.ExactSolver(), ExhaustiveSearch()
    for n in (8, 15) if quick else (8, 12, 15, 18, 20, 22, 24):
        batch = max(8, min(BATCH, 2**26 >> n))
        A = random_qubos(batch, n)
        with threads(1):
            ours = seconds_of(partial(search, A, 2), 15) / batch
            partition = seconds_of(partial(log_partition, A, 1.0)) / batch
        record = {"n": n, "batch": batch, "us": 1e6 * ours, "ns_per_state": 1e9 * ours / 2**n}
        record["partition_over_search"] = partition / ours
        if n <= 18:
            models = [to_bqm(a) for a in A[:3]]
            theirs = min(seconds_of(partial(peer.sample, model), 1 if n > 12 else 3) for model in models)
            record |= {"dimod_us": 1e6 * theirs, "ratio": theirs / ours}
        yield record


def exact_on_gpu(quick: bool) -> Iterator[Record]:
    """Measure exhaustive search on a GPU up to n = 32."""
    for n in (20, 24) if quick else (20, 24, 28, 32):
        A = random_qubos(1, n).cuda()
        seconds = seconds_of(lambda A=A: ExhaustiveSearch()(A, 2).energies.tolist(), 3)
        yield {"n": n, "seconds": seconds, "states_per_second": 2**n / seconds}
