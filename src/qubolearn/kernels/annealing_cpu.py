"""Choose the compiled kernel that anneals a batch on a CPU, and share its reads among threads.

Reads come in groups. The random numbers of a group depend only on the seed and on its position, so the results do not
depend on how groups are divided among threads. Where there are more QUBOs than threads, threads take whole QUBOs;
otherwise they take groups of reads of one QUBO.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from qubolearn.kernels import (
    annealing_numba,
    beta_ranges_numba,
    dense_annealing_numba,
    exchanges_numba,
    harvest_numba,
    single_reads_numba,
    sparse_annealing_numba,
    sparse_harvest_numba,
)
from qubolearn.kernels.lanes import LANES
from qubolearn.kernels.parallel import progress, run_tasks, stop_flag

__all__ = ["Dense", "Schedule", "Sparse", "neighbour_lists"]

Floats = npt.NDArray[np.float64]
Bits = npt.NDArray[np.int8]

#: From these n on, dense QUBOs use the kernel that changes with the temperature: in general, and for few reads.
MIXED_BITS, ALONE_BITS = 256, 64


class Schedule(NamedTuple):
    """The settings that every annealing kernel takes."""

    betas: Floats  # [batch, 3]: the first β, its growth from sweep to sweep, at least 1, and its bound
    sweeps: int
    seeds: npt.NDArray[np.uint32]  # [batch]
    given: bool  # whether reads begin where they are, or from random bits

    def of(self, k: int) -> tuple[tuple[float, float, float], int, np.uint32]:
        """Betas, sweeps and seed of QUBO k."""
        first, growth, last = self.betas[k]
        return (first, growth, last), self.sweeps, self.seeds[k]


class Dense:
    """QUBOs A ``[batch, n, n]``, scaled so that float32 can hold their entries: ``scale [batch]`` is the largest."""

    def __init__(self, A: npt.NDArray[Any]) -> None:
        self.S, self.scale = np.empty(A.shape), np.empty(len(A))

        def work(start: int, end: int) -> None:
            part = slice(start, end)
            beta_ranges_numba.scale_dense(A[part], self.S[part], self.scale[part])

        run_tasks(work, len(A), A.size * 2e-9)

    def beta_ranges(self) -> Floats:
        """neal's first and last β ``[batch, 2]`` of the scaled QUBOs."""
        betas = np.empty((len(self.S), 2))

        def work(start: int, end: int) -> None:
            beta_ranges_numba.dense_beta_ranges(self.S[start:end], betas[start:end])

        run_tasks(work, len(betas), self.S.size * 2e-9)
        return betas

    def anneal(self, how: Schedule, reads: Bits) -> None:
        """Anneal reads ``[batch, r, n]`` in place."""
        quantiles, stop = annealing_numba.thresholds(), stop_flag()
        count, n = reads.shape[1:]
        mixed = how.given or n >= MIXED_BITS or (n >= ALONE_BITS and count <= n // ALONE_BITS)
        # About 0.1 ns for each update of a bit, and 1 ns more for every 100 bits: for the progress bar only.
        seconds = reads.size * how.sweeps * (1e-10 + 1e-11 * n)

        @lru_cache(maxsize=1)  # threads that share a QUBO also share its prepared form
        def prepare(k: int) -> Any:
            return dense_annealing_numba.prepare(self.S[k], count)

        def some(k: int, start: int, end: int) -> None:
            betas, sweeps, seed = how.of(k)
            part = reads[k, start:end]
            if mixed:
                dense_annealing_numba.anneal_dense(
                    prepare(k), betas, sweeps, quantiles, seed, start, how.given, part, stop
                )
            else:
                annealing_numba.anneal_blocks(self.S[k], betas, sweeps, seed, quantiles, start, part, stop)

        def whole(start: int, end: int) -> None:
            part = slice(start, end)
            betas, seeds = how.betas[part], how.seeds[part]
            annealing_numba.anneal(self.S[part], betas, how.sweeps, seeds, quantiles, reads[part], stop)

        _share(reads, seconds, LANES if mixed else annealing_numba.BLOCK, some, None if mixed else whole, stop)

    def harvest(self, reads: Bits, states: Bits, success: Floats, exchanges: bool = True) -> None:
        """Fill states ``[batch, count, n]`` with the lowest in and around the reads, and success ``[batch]``.

        Without ``exchanges`` no two or three bits are flipped at once.
        """
        stop = stop_flag()

        def work(start: int, end: int) -> None:
            part = slice(start, end)
            harvest_numba.harvest(self.S[part], reads[part], states[part], success[part], stop)
            if exchanges and n <= exchanges_numba.MOST_BITS:
                exchanges_numba.exchange(self.S[part], reads[part], states[part], stop)

        n = reads.shape[2]
        seconds = (
            reads.size * (1e-8 + 1e-10 * n) + len(reads) * n * n * 1e-8 + exchanges_numba.most_seconds(*reads.shape)
        )
        run_tasks(work, len(reads), seconds, stop=stop)


class Sparse:
    """Sparse QUBOs, linear ``[batch, n]`` and quadratic ``[batch, m]``, scaled like dense ones."""

    def __init__(self, linear: Floats, edges: npt.NDArray[np.int64], quadratic: Floats) -> None:
        largest = np.maximum(np.abs(linear).max(1), np.abs(quadratic).max(1, initial=0.0))
        self.scale = np.where(largest > 0, largest, 1.0)
        self.linear, self.quadratic = linear / self.scale[:, None], quadratic / self.scale[:, None]
        self.starts, self.neighbours, self.places = neighbour_lists(edges, linear.shape[1])

    def beta_ranges(self) -> Floats:
        """neal's first and last β ``[batch, 2]`` of the scaled QUBOs."""
        betas = np.empty((len(self.linear), 2))

        def work(start: int, end: int) -> None:
            part = slice(start, end)
            beta_ranges_numba.sparse_beta_ranges(
                self.linear[part], self.quadratic[part], self.starts, self.places, betas[part]
            )

        run_tasks(work, len(betas), self.quadratic.size * 1e-8)
        return betas

    def anneal(self, how: Schedule, reads: Bits) -> None:
        """Anneal reads ``[batch, r, n]`` in place."""
        quantiles, stop = annealing_numba.thresholds(), stop_flag()
        count, n = reads.shape[1:]
        # With many neighbours, annealing single reads with fields kept up to date is cheaper.
        alone = count == 1 and self.neighbours.size > 6 * n
        near = _near(self.starts, self.neighbours) if alone else np.empty(0, np.bool_)
        rows = np.empty(0, np.float32)

        def some(k: int, start: int, end: int) -> None:
            linear = self.linear[k].astype(np.float32)
            couplings = self.quadratic[k, self.places].astype(np.float32)
            lists = (self.starts, self.neighbours, couplings)
            betas, sweeps, seed = how.of(k)
            part = reads[k, start:end]
            if alone:
                single_reads_numba.anneal_reads(
                    linear, rows, *lists, near, betas, sweeps, seed, start, how.given, part, stop
                )
            else:
                sparse_annealing_numba.anneal_sparse(
                    linear, *lists, betas, sweeps, quantiles, seed, start, how.given, part, stop
                )

        per_update = 1e-10 + 2e-11 * self.neighbours.size / n
        unit = 4 * LANES if count >= 16 * LANES else LANES
        _share(reads, reads.size * how.sweeps * per_update, unit, some, None, stop)

    def harvest(self, reads: Bits, states: Bits, success: Floats, exchanges: bool = True) -> None:
        """:meth:`Dense.harvest`."""
        lists, stop = (self.starts, self.neighbours, self.places), stop_flag()

        def work(start: int, end: int) -> None:
            part = slice(start, end)
            linear, quadratic = self.linear[part], self.quadratic[part]
            sparse_harvest_numba.harvest_sparse(
                linear, quadratic, *lists, reads[part], states[part], success[part], stop
            )
            for k in range(start, end) if exchanges and reads.shape[2] <= exchanges_numba.MOST_BITS else ():
                one = slice(k, k + 1)
                exchanges_numba.exchange(self._dense(k), reads[one], states[one], stop)

        seconds = len(reads) * (reads.shape[1] + 10) * self.neighbours.size * 3e-9
        run_tasks(work, len(reads), seconds + exchanges_numba.most_seconds(*reads.shape), stop=stop)

    def _dense(self, k: int) -> Floats:
        """QUBO k as :class:`Dense` has it, ``[1, n, n]``."""
        S = np.diag(self.linear[k])
        S[np.repeat(np.arange(len(S)), np.diff(self.starts)), self.neighbours] = self.quadratic[k, self.places]
        return S[None]


def _share(
    reads: Bits,
    seconds: float,
    unit: int,
    some: Callable[[int, int, int], None],
    whole: Callable[[int, int], None] | None,
    stop: npt.NDArray[np.uint8],
) -> None:
    """Run ``some(QUBO, first read, last read)``, or ``whole(first QUBO, last QUBO)`` where given, over all reads."""
    batch, count, _ = reads.shape
    units = -(-count // unit)
    with progress("simulated annealing", batch * units, seconds) as advance:
        if whole is not None and (units == 1 or batch >= 16):
            run_tasks(whole, batch, seconds, lambda done: advance(done * units), stop=stop)
            return

        def work(start: int, end: int) -> None:
            """Units start ... end - 1 of all QUBOs in a row, cut where one QUBO ends."""
            while start < end and not stop[0]:
                k, first = divmod(start, units)
                last = min(units, first + end - start)
                some(k, first * unit, min(last * unit, count))
                start += last - first

        run_tasks(work, batch * units, seconds, advance, stop=stop)


def neighbour_lists(
    edges: npt.NDArray[np.int64], n: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    """For edges ``[2, m]``: where each bit's list starts ``[n + 1]``, its neighbours and its edges, each ``[2m]``.

    >>> starts, neighbours, places = neighbour_lists(np.array([[0, 0], [2, 1]]), 3)
    >>> starts.tolist(), neighbours.tolist(), places.tolist()
    ([0, 2, 3, 4], [1, 2, 0, 0], [1, 0, 1, 0])
    """
    bits, others = edges.reshape(-1), edges[::-1].reshape(-1)
    order = np.argsort(bits * n + others)
    starts = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(bits, minlength=n), out=starts[1:])
    return starts, others[order].astype(np.uint32), order % max(edges.shape[1], 1)


def _near(starts: npt.NDArray[np.int64], neighbours: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
    """Whether each bit has a neighbour after it within the same block of 16 bits."""
    bits = np.repeat(np.arange(starts.size - 1), np.diff(starts))
    near = np.zeros(starts.size - 1, np.bool_)
    near[bits[(bits // LANES == neighbours // LANES) & (neighbours > bits)]] = True
    return near
