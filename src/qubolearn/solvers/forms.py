"""QUBOs as kernels take them: dense, or neighbor lists with one-hot groups."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from qubolearn.kernels import kernel_call, native
from qubolearn.qubo import FREE, Groups, Qubo, as_sparse

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bits = npt.NDArray[np.int8]
Seeds = npt.NDArray[np.uint32]


class DenseForm:
    """QUBOs on the CPU, divided by their largest entries ``scale [batch]``.

    ``S`` is A + Aᵀ with A_ii on its diagonal; ``beta_ranges [batch, 2]`` are neal's.
    """

    def __init__(self, A: Tensor) -> None:
        values = (A if A.dtype in (torch.float32, torch.float64) else A.float()).contiguous().numpy()
        self.S, self.scale, self.beta_ranges = np.empty(A.shape), np.empty(len(A)), np.empty((len(A), 2))
        with kernel_call("scaling", values.size * 4e-9) as options:
            native().scale_dense(values, self.S, self.scale, self.beta_ranges, **options)

    def field_sizes(self) -> Floats:
        """Return the root mean square field ``[batch]`` of a bit among random bits."""
        return np.asarray(np.sqrt(np.einsum("bij,bij->b", self.S, self.S) / self.S.shape[1]))

    def anneal(self, betas: Floats, steps: int, sweeps: int, seeds: Seeds, given: bool, reads: Bits) -> None:
        """Anneal reads ``[batch, r, n]`` in place, from random bits unless ``given``.

        β grows from ``betas[:, 0]`` to ``betas[:, 1]`` over ``steps`` sweeps.
        """
        seconds = reads.size * sweeps * (1e-10 + 1e-11 * reads.shape[2])
        with kernel_call("simulated annealing", seconds) as options:
            native().anneal_dense(self.S, betas, steps, sweeps, seeds, given, reads, **options)

    def refine(self, reads: Bits, count: int, exchanges: bool = True) -> tuple[Bits, Floats]:
        """Return the lowest states around reads, and shares of the lowest reads."""
        batch, r, n = reads.shape
        states, success = np.zeros((batch, count, n), np.int8), np.zeros(batch)
        with kernel_call("local search", batch * n * (r * (1e-8 + 1e-10 * n) + 2e-8 * n)) as options:
            native().refine_dense(self.S, reads, states, success, exchanges, **options)
        return states, success


@dataclass(frozen=True)
class SparseForm:
    """QUBOs on one graph, linear ``[batch, n]`` and quadratic ``[batch, m]``, scaled.

    Bit i is coupled to ``neighbors[starts[i] : starts[i + 1]]`` by the edges ``places``. The bits
    of unit u are ``bits[first[u] : first[u + 1]]``: a one-hot group if ``group[u]``, else a single bit.
    """

    linear: Floats
    quadratic: Floats
    scale: Floats
    graph: tuple[Ints, npt.NDArray[np.uint32], Ints]  # starts, neighbors, places
    units: tuple[Ints, Ints, npt.NDArray[np.bool_]]  # first, bits [n], group

    @classmethod
    def make(cls, A: Qubo, groups: Groups = Groups(())) -> SparseForm:  # noqa: B008 - immutable
        sparse = as_sparse(A)
        linear, quadratic = sparse.linear.numpy(), sparse.quadratic.numpy()
        largest = np.maximum(np.abs(linear).max(1), np.abs(quadratic).max(1, initial=0.0))
        # A power of two changes no digit: energies of integer QUBOs stay exact.
        scale = np.exp2(np.floor(np.log2(np.where(largest > 0, largest, 1.0))))
        graph, units = _neighbor_lists(sparse.edges.numpy(), sparse.n), _units(groups, sparse.n)
        linear, quadratic = (np.ascontiguousarray(values / scale[:, None]) for values in (linear, quadratic))
        return cls(linear, quadratic, scale, graph, units)

    @property
    def qubos(self) -> tuple[Any, ...]:
        return self.linear, self.quadratic, *self.graph

    @cached_property
    def beta_ranges(self) -> Floats:
        betas = np.empty((len(self.linear), 2))
        native().sparse_beta_ranges(self.qubos, betas)
        return betas

    def field_sizes(self) -> Floats:
        squares = np.square(self.linear).sum(1) + 2 * np.square(self.quadratic).sum(1)
        return np.asarray(np.sqrt(squares / self.linear.shape[1]))

    def anneal(self, betas: Floats, steps: int, sweeps: int, seeds: Seeds, given: bool, reads: Bits) -> None:
        seconds = reads.size * sweeps * (1e-10 + 2e-11 * self.graph[1].size / reads.shape[2])
        with kernel_call("simulated annealing", seconds) as options:
            native().anneal_sparse(self.qubos, betas, steps, sweeps, seeds, given, reads, **options)

    def refine(self, reads: Bits, count: int, exchanges: bool = True) -> tuple[Bits, Floats]:
        batch, r, n = reads.shape
        states, success = np.zeros((batch, count, n), np.int8), np.zeros(batch)
        free = np.full((batch, n), FREE, np.int8)
        with kernel_call("local search", batch * (r + 10) * (n + self.graph[1].size) * 3e-9) as options:
            native().refine_sparse(self.qubos, self.units, free, reads, states, success, exchanges, **options)
        return states, success

    def energies(self, states: Bits) -> Floats:
        """Return the scaled energies of states ``[batch, count, n]``."""
        starts, neighbors, places = self.graph
        bits = np.repeat(np.arange(starts.size - 1), np.diff(starts))
        once = bits < neighbors
        i, j, edges = bits[once], neighbors[once], places[once]
        found: Floats = np.einsum("bi,bci->bc", self.linear, states)
        for b in range(len(states)):
            found[b] += (states[b][:, i] & states[b][:, j]) @ self.quadratic[b, edges]
        return found

    def tolerance(self) -> Floats:
        return np.asarray(1e-9 * (1 + np.abs(self.linear).sum(1) + np.abs(self.quadratic).sum(1)))

    def lower_bounds(self, clamp: Bits) -> Floats:
        """Return lower bounds ``[batch]``: each unit and coupling at its best."""
        first, bits, group = self.units
        chosen = np.where(clamp == 0, np.inf, self.linear)[:, bits]
        best = np.minimum.reduceat(chosen, first[:-1], axis=1)
        can_be_off = ~group & (clamp[:, bits[first[:-1]]] != 1)
        bounds: Floats = np.where(can_be_off, np.minimum(best, 0.0), best).sum(1)
        bounds += np.minimum(self.quadratic, 0.0).sum(1)
        return bounds


def with_second_best(A: Tensor, states: Tensor, count: int) -> Tensor:
    """Return states ``[batch, c, n]``, best first, and ``count`` around the best."""
    best = states[:, :1].to("cpu", torch.int8).contiguous().numpy()
    around = torch.from_numpy(DenseForm(A.cpu()).refine(best, count)[0])
    return torch.cat([states, around.to(states)], 1)


def _neighbor_lists(edges: Ints, n: int) -> tuple[Ints, npt.NDArray[np.uint32], Ints]:
    """Return the start of each bit's list ``[n + 1]``, its neighbors and its edges ``[2m]``.

    >>> starts, neighbors, places = _neighbor_lists(np.array([[0, 0], [2, 1]]), 3)
    >>> starts.tolist(), neighbors.tolist(), places.tolist()
    ([0, 2, 3, 4], [1, 2, 0, 0], [1, 0, 1, 0])
    """
    bits, others = edges.reshape(-1), edges[::-1].reshape(-1)
    order = np.argsort(bits * n + others)
    starts = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(bits, minlength=n), out=starts[1:])
    return starts, others[order].astype(np.uint32), order % max(edges.shape[1], 1)


def _units(groups: Groups, n: int) -> tuple[Ints, Ints, npt.NDArray[np.bool_]]:
    """Return the units of :class:`SparseForm`: all groups, then every other bit."""
    others = np.flatnonzero(groups.of_bits(n).numpy() < 0)
    sizes = [*map(len, groups.members), *[1] * len(others)]
    first = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=first[1:])
    bits = np.array([*(bit for group in groups.members for bit in group), *others], np.int64)
    return first, bits, np.arange(len(sizes)) < len(groups)
