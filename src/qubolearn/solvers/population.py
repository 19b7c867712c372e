"""Population annealing: elimination of bits, annealing in integers, partition crossover."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from qubolearn.errors import QubolearnError, check_counts, check_numbers
from qubolearn.gpu.annealing import available, takes_lists
from qubolearn.kernels import kernel_call, native
from qubolearn.qubo import Groups, Inequalities, Qubo, SparseQubo, as_sparse, energies
from qubolearn.qubo.sparse import check_memory, on_checked_graph
from qubolearn.solvers.contract import QuboSolver, SearchResult, instance_seeds, lowest_around, search_for
from qubolearn.solvers.forms import Floats, Seeds, SparseForm
from qubolearn.solvers.inequalities import anneal_constrained

__all__ = ["PopulationAnnealing"]

#: Reads per population: the bytes of one vector.
READS = 64
#: Reads per population under groups and inequalities.
COLONY = 16
#: Bits with at most this many neighbors, field included, are eliminated.
MAX_NEIGHBORS = 3


@dataclass(frozen=True)
class PopulationAnnealing(QuboSolver):
    """Improve 64 reads generation by generation, for sparse QUBOs of hundreds of bits and more.

    A generation reheats and anneals every read, and crosses the result with the original read
    (partition crossover; Tinós, Whitley and Chicano, FOGA 2015): of the uncoupled components in
    which the two differ, those that do not raise the energy are kept. Reads are never resampled,
    unlike in Hukushima and Iba's method (AIP Conference Proceedings 690, 200, 2003). With
    ``count=1``, bits with at most three neighbors are eliminated first, which is exact.

    Args:
        sweeps: how often each bit of a read is updated, over all generations.
        reads: reads per QUBO, rounded up to a multiple of 64, each a population with its own
            thread. On an NVIDIA GPU they are one population; thousands keep it busy.
        seed: fixes the result; instance i draws from a stream of (seed, i) alone.
        seconds: a time limit for the batch instead of ``sweeps``. The result then depends on the machine.
        target: an energy that ends the search of a QUBO early.

    ``info`` has the number of ``eliminated`` bits and ``sweeps``, ``[batch]`` each. On dense QUBOs
    :class:`SimulatedAnnealing` is better. With groups or inequalities, populations have 16 reads.

    >>> A = torch.tensor([[[1.0, -3.0], [0.0, 1.0]]])
    >>> PopulationAnnealing(seed=0)(A).states.tolist()
    [[[1.0, 1.0], [0.0, 0.0]]]
    >>> PopulationAnnealing(seed=0)(A, count=1).info["eliminated"].tolist()
    [2]
    """

    sweeps: int = 4000
    reads: int = READS
    seed: int | None = None
    seconds: float | None = None
    target: float | None = None
    takes_sparse: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_counts(sweeps=self.sweeps, reads=self.reads)
        if self.seconds is not None:
            check_numbers(seconds=self.seconds)
        if self.target is not None and not math.isfinite(self.target):
            raise QubolearnError(f"target={self.target}; expected an energy, or None to use all sweeps")
        instance_seeds(self.seed, 0)

    def search(self, A: Qubo, count: int) -> SearchResult:
        if self.seconds is not None:
            return search_for(self.seconds, lambda sweeps: self._with_sweeps(sweeps).search(A, count))
        sparse = as_sparse(A)
        if count > 1 or not _has_few_neighbors(sparse):
            return self._search(sparse, count, instance_seeds(self.seed, len(A)), self.target, A.device)
        found = [self._search_eliminated(sparse, row, A.device) for row in range(len(A))]
        swept = torch.cat([each.info["sweeps"] for each in found])
        eliminated = torch.cat([each.info["eliminated"] for each in found])
        source = "exhaustive" if bool((eliminated == A.shape[2]).all()) else "simulated"
        info = {"source": source, "sweeps": swept, "eliminated": eliminated}
        return SearchResult(torch.cat([each.states for each in found]), info)

    def search_limited(
        self, A: Qubo, count: int, clamp: Tensor, groups: Groups, limits: Inequalities
    ) -> SearchResult:
        where = A, count, clamp, groups, limits
        if self.seconds is not None:
            return search_for(self.seconds, lambda sweeps: self._with_sweeps(sweeps).search_limited(*where))
        reads = -(-self.reads // READS) * COLONY
        return anneal_constrained(*where, reads, self.sweeps, self.seed, COLONY, self.target)

    def _with_sweeps(self, sweeps: int) -> Self:
        return replace(self, sweeps=sweeps, seconds=None)

    def _search_eliminated(self, A: SparseQubo, row: int, device: torch.device) -> SearchResult:
        one, seeds = A[row], instance_seeds(self.seed, row + 1)[row:]
        arrays = (one.linear[0], one.edges, one.quadratic[0])
        elimination = native().Elimination(*(np.ascontiguousarray(array.numpy()) for array in arrays))
        n, m, states = elimination.bits, elimination.edges, np.zeros((1, one.n), np.int8)
        info = {"sweeps": torch.zeros(1, dtype=torch.int64), "eliminated": torch.tensor([one.n - n])}
        if n:
            kept, linear = np.zeros(n, np.int64), np.zeros(n)
            edges, quadratic = np.zeros((2, m), np.int64), np.zeros(m)
            elimination.write(kept, linear, edges, quadratic)
            left = on_checked_graph(*map(torch.from_numpy, (linear[None], edges, quadratic[None])))
            elimination.restore(states)  # the energy of the eliminated bits
            offset = energies(one, torch.from_numpy(states).double()[None]).item()
            target = None if self.target is None else self.target - offset
            found = self._search(left, 1, seeds, target, device)
            states[:, kept] = found.states[:, 0].cpu().numpy()
            info["sweeps"] = found.info["sweeps"]
        elimination.restore(states)
        return SearchResult(torch.from_numpy(states[None]), info)

    def _search(
        self, A: SparseQubo, count: int, seeds: Seeds, target: float | None, device: torch.device
    ) -> SearchResult:
        batch, n, islands = len(A), A.n, -(-self.reads // READS)
        check_memory(batch * islands * READS * n, A, islands * READS)
        if available(device) and takes_lists(A.linear, A.edges) and count <= n:
            return self._search_on_gpu(A.to(device), count, torch.from_numpy(seeds.astype(np.int64)), target)
        form = SparseForm.make(A)
        annealed, widths = _in_units(form)
        targets = (-np.inf if target is None else target) / annealed.scale + 1e-6
        reads, first = np.zeros((batch, islands, READS, n), np.int8), np.zeros(batch, np.int64)
        swept, degree = np.zeros((batch, islands), np.int64), form.graph[1].size / n
        work = batch * islands * n * (5 + 0.5 * degree) * widths.mean() * 1e-9 * self.sweeps
        found = first, swept, reads
        with kernel_call("population annealing", work) as options:
            native().search_population(annealed.qubos, widths, self.sweeps, targets, seeds, *found, **options)
        later = np.arange(islands) > first[:, None]  # these ended when threads allowed
        reads[later], swept[later] = np.repeat(reads[:, :1], islands, 1)[later], 0
        info = {"source": "simulated", "sweeps": torch.from_numpy(swept.sum(1))}
        info["eliminated"] = torch.zeros(batch, dtype=torch.int64)
        states = form.refine(reads.reshape(batch, -1, n), count)[0]
        return SearchResult(torch.from_numpy(states), info, distinct=True)

    def _search_on_gpu(self, A: SparseQubo, count: int, seeds: Tensor, target: float | None) -> SearchResult:
        from qubolearn.gpu.population_triton import Population

        scale = torch.cat([A.linear, A.quadratic], 1).abs().amax(1).clamp(min=1e-300)
        scale = scale.log2().floor().exp2()  # a power of two changes no digit
        scaled = A.with_values(A.linear / scale[:, None], A.quadratic / scale[:, None])
        population = Population(scaled, seeds.to(A.device), self.reads)
        population.search(self.sweeps, None if target is None else target / scale + 1e-6)
        order = population.energies().argsort(dim=1, stable=True)[:, : count + READS]
        states = population.states().gather(1, order[:, :, None].expand(-1, -1, A.n))
        swept = torch.full((len(A),), population.sweeps)
        info = {"source": "simulated", "sweeps": swept, "eliminated": torch.zeros_like(swept)}
        states, energy, _ = lowest_around(A, states, count)
        return SearchResult(states, info, energies=energy)


def _has_few_neighbors(A: SparseQubo) -> bool:
    ends, couplings = A.edges.flatten(), A.quadratic.repeat(1, 2)
    fields = A.linear + torch.zeros_like(A.linear).index_add(1, ends, couplings) / 2
    neighbors = (fields != 0).long().index_add(1, ends, (couplings != 0).long())
    return bool((neighbors <= MAX_NEIGHBORS).any())


def _in_units(form: SparseForm) -> tuple[SparseForm, npt.NDArray[np.int64]]:
    """Return QUBOs as small integers if possible, and the bytes of each, else 4."""
    starts, _, places = form.graph
    linear, quadratic, scale = form.linear.copy(), form.quadratic.copy(), form.scale.copy()
    widths = np.full(len(linear), 4)
    bits = np.repeat(np.arange(starts.size - 1), np.diff(starts))
    for row in range(len(linear)):
        unit = _common_unit(np.concatenate([linear[row], quadratic[row]]))
        if unit is None:
            continue
        whole, couplings = np.rint(linear[row] / unit), np.rint(quadratic[row] / unit)
        low, high = (
            whole + np.bincount(bits, part[places], minlength=whole.size)
            for part in (np.minimum(couplings, 0), np.maximum(couplings, 0))
        )
        largest = max(-low.min(), high.max(), np.abs(couplings).max(initial=0))
        if largest <= np.iinfo(np.int16).max:
            widths[row] = 1 if largest <= np.iinfo(np.int8).max else 2
            linear[row], quadratic[row], scale[row] = whole, couplings, scale[row] * unit
    return replace(form, linear=linear, quadratic=quadratic, scale=scale), widths


def _common_unit(values: Floats) -> float | None:
    """Return the largest number that all values are multiples of, if any.

    >>> _common_unit(np.array([0.3, -0.5, 0.0])), _common_unit(np.array([0.3, np.pi]))
    (0.1, None)
    """
    sizes = np.unique(np.abs(values))
    sizes = sizes[sizes > 0]
    if not sizes.size:
        return 1.0
    unit, largest = float(sizes[0]), float(sizes[-1])
    while unit > largest / np.iinfo(np.int16).max:  # Euclid's algorithm
        rest = np.abs(sizes - unit * np.rint(sizes / unit))
        rest = rest[rest > 1e-7 * largest]
        if not rest.size:
            return largest / round(largest / unit)
        unit = float(rest.min())
    return None
