"""Exhaustive search and log Z, with and without groups."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import dimod
from torch import Tensor

from benchmarks import Record, in_turns, random_qubos, seconds_of, threads
from qubolearn import ExhaustiveSearch, Groups, log_partition, solve, to_bqm

BATCH = 141  # the batch size of QuAnt


def exact(quick: bool) -> Iterator[Record]:
    """Measure the search for the best two states against dimod.ExactSolver, and log Z, on one thread."""
    peer, search = dimod.ExactSolver(), ExhaustiveSearch()
    for n in (8, 15) if quick else (8, 12, 15, 18, 20, 22, 24):
        batch = max(8, min(BATCH, 2**26 >> n))
        A = random_qubos(batch, n)
        with threads(1):
            ours = seconds_of(partial(search, A, 2), 15) / batch
            partition = seconds_of(partial(log_partition, A, 1.0)) / batch
        record = {"n": n, "batch": batch, "us": 1e6 * ours, "ns_per_state": 1e9 * ours / 2**n}
        more = random_qubos(max(8, int(0.05 / ours)), n)  # about 50 ms
        times = in_turns({str(count): partial(_on_threads, count, more) for count in (1, 2)}, 10)
        record |= {"partition_over_search": partition / ours, "two_threads": min(times["1"]) / min(times["2"])}
        if n <= 18:
            models = [to_bqm(a) for a in A[:3]]
            theirs = min(seconds_of(partial(peer.sample, model), 1 if n > 12 else 3) for model in models)
            record |= {"dimod_us": 1e6 * theirs, "ratio": theirs / ours}
        yield record


def _on_threads(count: int, A: Tensor) -> None:
    with threads(count):
        ExhaustiveSearch()(A, 2)


def exact_on_gpu(quick: bool) -> Iterator[Record]:
    """Measure exhaustive search on a GPU up to n = 32."""
    for n in (20, 24) if quick else (20, 24, 28, 32):
        A = random_qubos(1, n).cuda()
        seconds = seconds_of(lambda A=A: ExhaustiveSearch()(A, 2).energies.tolist(), 3)
        yield {"n": n, "seconds": seconds, "states_per_second": 2**n / seconds}


def exact_with_groups(quick: bool) -> Iterator[Record]:
    """Measure search and log Z over the states that groups of five bits allow, on one thread."""
    for count in (2, 4) if quick else (2, 4, 6, 8, 10):
        n, batch = 5 * count, 16 if count < 8 else 2
        A, groups = random_qubos(batch, n).double(), Groups.consecutive(count, 5)
        with threads(1):
            search = seconds_of(partial(solve, A, ExhaustiveSearch(), 2, groups=groups), 3) / batch
            partition = seconds_of(partial(log_partition, A, 1.0, groups=groups), 3) / batch
            record = {"groups": count, "n": n, "states": 5**count, "us": 1e6 * search, "log_z_us": 1e6 * partition}
            if n <= 20:
                record["plain_us"] = 1e6 * seconds_of(partial(ExhaustiveSearch(), A, 2), 3) / batch
        yield {**record, "ns_per_state": 1e3 * record["us"] / 5**count}
