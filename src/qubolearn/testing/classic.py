"""The QUBOs that people bring: integer, degenerate, sparse and constrained, where random ones are none of these.

>>> for name, family in FAMILIES.items():
...     A, lowest = family(6, numpy.random.default_rng(0))
...     assert A.shape == (6, 6), name

Each family is a function of n and a generator. It returns one QUBO ``[n, n]`` in float64, and the lowest energy where
that is known by construction or by an exact method that is fast at any n, otherwise None; :func:`proven_lowest` proves
that of sparse ones up to about 100 bits. Bits that a family has no use for cost 1 each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["FAMILIES", "Classic", "proven_lowest"]


class Classic(NamedTuple):
    """One QUBO of a family."""

    A: Tensor  # [n, n], float64, symmetric
    lowest: float | None


def _square(A: Tensor, bits: Tensor, factors: Tensor, target: float, weight: float = 1.0) -> None:
    """Add weight · (Σ factors · x - target)² without its constant, in place."""
    A[bits[:, None], bits[None]] += weight * factors[:, None] * factors[None]
    A[bits, bits] -= 2 * weight * target * factors


def _edges(n: int, rng: Generator) -> list[tuple[int, int]]:
    """A random graph of mean degree 4."""
    pairs = rng.integers(0, n, (2 * n, 2))
    return sorted({(int(min(pair)), int(max(pair))) for pair in pairs if pair[0] != pair[1]})


def _couple(A: Tensor, i: int, j: int, weight: float, each: float = 0.0) -> None:
    """Add 2 · weight · x_i x_j + each · (x_i + x_j), in place."""
    A[i, j] += weight
    A[j, i] += weight
    A[i, i] += each
    A[j, j] += each


def _cut(n: int, weights: Callable[[int], NDArray[numpy.float64]], rng: Generator) -> Classic:
    A = torch.zeros(n, n, dtype=torch.float64)
    edges = _edges(n, rng)
    for (i, j), weight in zip(edges, weights(len(edges)).tolist(), strict=True):
        _couple(A, i, j, weight, -weight)
    return Classic(A, None)


def max_cut(n: int, rng: Generator) -> Classic:
    """The largest cut of a random graph."""
    return _cut(n, lambda edges: numpy.ones(edges), rng)


def signed_cut(n: int, rng: Generator) -> Classic:
    """The same with weights of -1 and +1: a spin glass."""
    return _cut(n, lambda edges: rng.choice([-1.0, 1.0], edges), rng)


def weighted_cut(n: int, rng: Generator) -> Classic:
    """The same with weights from 1 to 10."""
    return _cut(n, lambda edges: rng.integers(1, 11, edges).astype(numpy.float64), rng)


def independent_set(n: int, rng: Generator) -> Classic:
    """The largest set of nodes without an edge among them, by penalties of 2."""
    A = -torch.eye(n, dtype=torch.float64)
    for i, j in _edges(n, rng):
        _couple(A, i, j, 1.0)
    return Classic(A, None)


def vertex_cover(n: int, rng: Generator) -> Classic:
    """The smallest set of nodes that touches every edge, by penalties of 2 (1 - x_i)(1 - x_j)."""
    A = torch.eye(n, dtype=torch.float64)
    for i, j in _edges(n, rng):
        _couple(A, i, j, 1.0, -2.0)
    return Classic(A, None)


def partitioning(n: int, rng: Generator) -> Classic:
    """Numbers from 1 to 20 in two heaps whose sums differ least; a table of all sums says by how much."""
    numbers = torch.from_numpy(rng.integers(1, 21, n).astype(numpy.float64))
    total = float(numbers.sum())
    A = torch.zeros(n, n, dtype=torch.float64)
    _square(A, torch.arange(n), numbers, total / 2, 4.0)
    best = _best_values(numbers, torch.zeros(n, dtype=torch.float64))
    sums = numpy.flatnonzero(best == 0)
    return Classic(A, float(((2 * sums - total) ** 2).min()) - total**2)


def _best_values(weights: Tensor, values: Tensor) -> NDArray[numpy.float64]:
    """For each total weight the largest value of items that weigh exactly that, -inf where there are none."""
    best = numpy.full(int(weights.sum()) + 1, -numpy.inf)
    best[0] = 0.0
    for weight, value in zip(weights.int().tolist(), values.tolist(), strict=True):
        best[weight:] = numpy.maximum(best[weight:], best[:-weight] + value)
    return best


def colouring(n: int, rng: Generator) -> Classic:
    """Three colours for a graph that has such a colouring, one bit for each node and colour."""
    nodes, penalty = n // 3, 4.0
    A = torch.diag((torch.arange(n) >= 3 * nodes).to(torch.float64))
    colours = rng.integers(0, 3, max(nodes, 1))
    for node in range(nodes):
        _square(A, torch.arange(3 * node, 3 * node + 3), torch.ones(3, dtype=torch.float64), 1.0, penalty)
    for i, j in _edges(nodes, rng) if nodes > 1 else []:
        if colours[i] != colours[j]:
            for colour in range(3):
                _couple(A, 3 * i + colour, 3 * j + colour, 1.0)
    return Classic(A, -penalty * nodes)


def assignment(n: int, rng: Generator) -> Classic:
    """m persons and m tasks, one each: bits in rows and columns with exactly one set, and small integer costs.

    A row or column that is broken costs more than any change of costs gains, so the lowest state is an assignment.
    """
    from scipy.optimize import linear_sum_assignment

    m, penalty = math.isqrt(n), 10.0
    A = torch.diag((torch.arange(n) >= m * m).to(torch.float64))
    place = torch.arange(m * m).view(m, m)
    costs = rng.integers(0, 5, m * m).astype(numpy.float64).reshape(m, m)
    A[place.flatten(), place.flatten()] += torch.from_numpy(costs.ravel())
    for group in [*place, *place.mT]:
        _square(A, group, torch.ones(m, dtype=torch.float64), 1.0, penalty)
    return Classic(A, float(costs[linear_sum_assignment(costs)].sum()) - 2 * m * penalty)


def knapsack(n: int, rng: Generator) -> Classic:
    """The most valuable items within a capacity, of which slack bits 1, 2, 4 ... take what is left."""
    slack, penalty = min(5, n // 2), 10.0
    items = n - slack
    weights = torch.from_numpy(rng.integers(1, 8, items).astype(numpy.float64))
    values = torch.from_numpy(rng.integers(1, 10, items).astype(numpy.float64))
    A = torch.zeros(n, n, dtype=torch.float64)
    A[torch.arange(items), torch.arange(items)] = -values
    factors = torch.cat([weights, 2.0 ** torch.arange(slack)])
    capacity = float(weights.sum() // 2)
    _square(A, torch.arange(n), factors, capacity, penalty)
    best = _best_values(weights, values)
    left = capacity - numpy.arange(best.size)  # what slack bits should fill, and can fill from 0 to 2**slack - 1
    broken = left - left.clip(0, 2**slack - 1)
    return Classic(A, float((penalty * broken**2 - best).min()) - penalty * capacity**2)


def set_packing(n: int, rng: Generator) -> Classic:
    """As many disjoint sets as possible of n random ones of three elements."""
    sets = [set(rng.integers(0, n + 2, 3).tolist()) for _ in range(n)]
    A = -torch.eye(n, dtype=torch.float64)
    holders: dict[int, list[int]] = {}
    for index, members in enumerate(sets):
        for member in members:
            for other in holders.setdefault(member, []):
                A[index, other] = A[other, index] = 1.0
            holders[member].append(index)
    return Classic(A, None)


def all_zero(n: int, rng: Generator) -> Classic:
    """Every state is a lowest one."""
    return Classic(torch.zeros(n, n, dtype=torch.float64), 0.0)


def all_equal(n: int, rng: Generator) -> Classic:
    """Every entry is -1: all bits are set."""
    return Classic(-torch.ones(n, n, dtype=torch.float64), -float(n * n))


def large_penalty(n: int, rng: Generator) -> Classic:
    """One bit of all, by a penalty of a million, and preferences of a millionth of one."""
    A = torch.diag(torch.from_numpy(rng.integers(0, 100, n).astype(numpy.float64)))
    least = float(A.diagonal().min())
    _square(A, torch.arange(n), torch.ones(n, dtype=torch.float64), 1.0, 1e6)
    return Classic(A, least - 1e6)


def planted(n: int, rng: Generator) -> Classic:
    """A ferromagnet with a weak field, turned around a random state, which is the lowest."""
    s = torch.from_numpy(rng.choice([-1.0, 1.0], n))
    J = torch.zeros(n, n, dtype=torch.float64)
    for i, j in _edges(n, rng):
        J[i, j] = J[j, i] = -0.5 * s[i] * s[j] * float(rng.integers(1, 4))
    A = 4 * J + torch.diag(-4 * J.sum(1) - 2 * s)  # sᵀJs - Σ s_i* s_i over s = 2x - 1, without its constant
    x = (s + 1) / 2
    return Classic(A, float(x @ A @ x))


FAMILIES: Mapping[str, Callable[[int, Generator], Classic]] = {
    "max-cut": max_cut,
    "max-cut, ±1": signed_cut,
    "max-cut, weighted": weighted_cut,
    "independent set": independent_set,
    "vertex cover": vertex_cover,
    "number partitioning": partitioning,
    "graph colouring": colouring,
    "assignment": assignment,
    "knapsack": knapsack,
    "set packing": set_packing,
    "all zero": all_zero,
    "all equal": all_equal,
    "large penalty": large_penalty,
    "planted": planted,
}


def proven_lowest(A: Tensor, seconds: float = 60.0) -> float | None:
    """The lowest energy of a QUBO ``[n, n]``, proven by scipy's mixed-integer solver; None where it runs out of time.

    A product of two bits is a number y between 0 and 1: at least x_i + x_j - 1 where it costs, at most x_i and x_j
    where it gains.

    >>> proven_lowest(torch.tensor([[1.0, -3.0], [0.0, 1.0]]))
    -1.0
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import eye_array, vstack

    n, S = len(A), (A + A.mT).double().numpy()
    i, j = numpy.nonzero(numpy.triu(S, 1))
    numbers = eye_array(n + len(i), format="csr")  # rows pick a bit or a product
    costs, gains, y = S[i, j] > 0, S[i, j] < 0, n + numpy.arange(len(i))
    x_i, x_j, both, gained = numbers[i], numbers[j], numbers[y[costs]], numbers[y[gains]]
    rows = vstack([x_i[costs] + x_j[costs] - both, gained - x_i[gains], gained - x_j[gains]])
    limits = numpy.repeat([1.0, 0.0], [costs.sum(), 2 * gains.sum()])
    found = milp(
        numpy.concatenate([S.diagonal() / 2, S[i, j]]),
        constraints=LinearConstraint(rows, -numpy.inf, limits) if len(limits) else None,
        bounds=Bounds(0, 1),
        integrality=numpy.repeat([1, 0], [n, len(i)]),
        options={"time_limit": seconds},
    )
    if found.status != 0:
        return None
    x = found.x[:n].round()
    return float(x @ A.double().numpy() @ x)
