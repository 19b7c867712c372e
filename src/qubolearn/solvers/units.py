"""QUBOs in the form that the kernels for clamped bits and groups take."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from qubolearn.errors import QubolearnError
from qubolearn.kernels.parallel import run_tasks
from qubolearn.qubo import Groups, Qubo, SparseQubo

__all__ = ["Units", "as_units", "best_around", "lower_bounds"]

Ints = npt.NDArray[np.int64]


class Units(NamedTuple):
    """A batch on one graph, as :mod:`qubolearn.kernels.units_numba` takes it; numbers are below 2 in size."""

    linear: npt.NDArray[np.float64]  # [batch, n]
    quadratic: npt.NDArray[np.float64]  # [batch, m]
    scale: npt.NDArray[np.float64]  # [batch]: the power of two
    graph: tuple[Ints, Ints, Ints]  # first [n + 1], to [2m], edge [2m]
    members: tuple[Ints, Ints, npt.NDArray[np.bool_]]  # first, bits, in_group

    def problem(self, some: slice) -> tuple[Any, ...]:
        """What kernels take of some instances."""
        return self.linear[some], self.quadratic[some], self.graph, self.members

    def of(self, rows: Ints) -> Units:
        """Some instances."""
        return self._replace(linear=self.linear[rows], quadratic=self.quadratic[rows], scale=self.scale[rows])

    def dense(self, b: int) -> npt.NDArray[np.float64]:
        """Instance b as a symmetric matrix ``[1, n, n]``, linear terms on its diagonal."""
        first, to, edge = self.graph
        S = np.diag(self.linear[b])
        S[np.repeat(np.arange(first.size - 1), np.diff(first)), to] = self.quadratic[b, edge]
        return S[None]

    def energies(self, states: npt.NDArray[np.int8]) -> npt.NDArray[np.float64]:
        """Energies ``[batch, count]`` of states ``[batch, count, n]``, in these units."""
        first, to, edge = self.graph
        bits = np.repeat(np.arange(first.size - 1), np.diff(first))
        once = bits < to
        i, j, edges = bits[once], to[once], edge[once]
        found: npt.NDArray[np.float64] = np.einsum("bi,bci->bc", self.linear, states)
        for b in range(len(states)):
            found[b] += (states[b][:, i] & states[b][:, j]) @ self.quadratic[b, edges]
        return found

    def tolerance(self) -> npt.NDArray[np.float64]:
        """What rounding may change of an energy ``[batch]``."""
        sizes: npt.NDArray[np.float64] = np.abs(self.linear).sum(1) + np.abs(self.quadratic).sum(1)
        return 1e-9 * (1 + sizes)


def as_units(A: Qubo, groups: Groups) -> Units:
    """A, dense or sparse, with its groups."""
    from qubolearn.kernels.annealing_cpu import neighbour_lists

    sparse = (A if isinstance(A, SparseQubo) else SparseQubo.from_dense(A.double())).to("cpu", torch.float64)
    linear, quadratic = sparse.linear.numpy(), sparse.quadratic.numpy()
    largest = np.maximum(np.abs(linear).max(1), np.abs(quadratic).max(1, initial=0.0))
    if not np.isfinite(largest).all():  # A_ij + A_ji
        raise QubolearnError("the entries of A are so large that A_ij + A_ji overflows float64; divide A by 10")
    # A power of two changes no digit: energies of integer QUBOs stay exact.
    scale = np.exp2(np.floor(np.log2(np.where(largest > 0, largest, 1.0))))
    first, to, edge = neighbour_lists(sparse.edges.numpy(), sparse.n)
    graph, members = (first, to.astype(np.int64), edge), _members(groups, sparse.n)
    return Units(linear / scale[:, None], quadratic / scale[:, None], scale, graph, members)


def best_around(
    units: Units, clamp: npt.NDArray[np.int8], reads: npt.NDArray[np.int8], count: int
) -> npt.NDArray[np.int8]:
    """The ``count`` lowest allowed states ``[batch, count, n]`` in and around reads ``[batch, r, n]``."""
    from qubolearn.kernels.units_numba import harvest_units

    best = np.zeros((len(reads), count, reads.shape[2]), np.int8)

    def work(first: int, last: int) -> None:
        some = slice(first, last)
        linear, quadratic, graph, members = units.problem(some)
        harvest_units(linear, quadratic, graph, clamp[some], members, reads[some], best[some])

    run_tasks(work, len(reads), clamp.size * 1e-6)
    return best


def lower_bounds(units: Units, clamp: npt.NDArray[np.int8]) -> npt.NDArray[np.float64]:
    """Energies ``[batch]`` that no allowed state is below: each unit at its best, each negative coupling felt."""
    first, bits, in_group = units.members
    chosen = np.where(clamp == 0, np.inf, units.linear)[:, bits]
    best = np.minimum.reduceat(chosen, first[:-1], axis=1)
    alone = bits[first[:-1]]  # of a group its first bit, which is not looked at
    can_be_off = ~in_group & (clamp[:, alone] != 1)
    bounds: npt.NDArray[np.float64] = np.where(can_be_off, np.minimum(best, 0.0), best).sum(1)
    bounds += np.minimum(units.quadratic, 0.0).sum(1)
    return bounds


def _members(groups: Groups, n: int) -> tuple[Any, Any, Any]:
    """The bits of every group, then every other bit by itself."""
    others = np.flatnonzero(groups.of_bits(n).numpy() < 0)
    parts = [*map(list, groups.members), *others[:, None].tolist()]
    first = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(part) for part in parts], out=first[1:])
    return first, np.concatenate(parts).astype(np.int64), np.arange(len(parts)) < len(groups)
