"""Classic QUBOs: integer, degenerate, sparse and constrained.

>>> for name, family in FAMILIES.items():
...     A, lowest = family(6, numpy.random.default_rng(0))
...     assert A.shape == (6, 6), name

Each family returns one QUBO ``[n, n]`` in float64, and the lowest
energy if it is known by construction or by a fast exact method.
:func:`proven_lowest` proves that of sparse QUBOs up to 100 bits,
:func:`eliminated_lowest` that of QUBOs on narrow graphs. Bits that
a family does not use cost 1 each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import numpy
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["FAMILIES", "Classic", "capacities", "eliminated_lowest", "proven_lowest"]


class Classic(NamedTuple):
    """One QUBO of a family."""

    A: Tensor  # [n, n], float64, symmetric
    lowest: float | None


def capacities(jobs: int, machines: int, rng: Generator) -> tuple[Tensor, float]:
    """Return jobs on machines of equal load, and a constant.

    Bit ``job * machines + m`` puts a job on machine m at a cost of
    U(1, 10); 0.5 (load - mean load)² is added per machine. Energies
    plus the constant are costs.
    """
    costs = torch.from_numpy(rng.uniform(1, 10, (jobs, machines)))
    sizes = torch.from_numpy(rng.integers(1, 10, jobs).astype(numpy.float64))
    A, mean = torch.diag(costs.flatten()), float(sizes.sum()) / machines
    A += torch.kron(0.5 * sizes[:, None] * sizes, torch.eye(machines, dtype=A.dtype))
    A -= torch.diag(mean * sizes.repeat_interleave(machines))
    return A, 0.5 * machines * mean**2


def _square(A: Tensor, bits: Tensor, factors: Tensor, target: float, weight: float = 1.0) -> None:
    """Add weight · (Σ factors · x - target)² without its constant, in place."""
    A[bits[:, None], bits[None]] += weight * factors[:, None] * factors[None]
    A[bits, bits] -= 2 * weight * target * factors


def _one_hot(A: Tensor, bits: Iterable[int], weight: float) -> None:
    """Add weight · (Σ x - 1)² without its constant, in place."""
    some = torch.tensor(list(bits))
    _square(A, some, torch.ones(len(some), dtype=A.dtype), 1.0, weight)


def _spare(n: int, used: int) -> Tensor:
    """Return a QUBO in which the bits from ``used`` on cost 1 each."""
    return torch.diag((torch.arange(n) >= used).to(torch.float64))


def _edges(n: int, rng: Generator) -> list[tuple[int, int]]:
    """Return a random graph of mean degree 4."""
    pairs = rng.integers(0, n, (2 * n, 2))
    return sorted({(int(min(pair)), int(max(pair))) for pair in pairs if pair[0] != pair[1]})


def _couple(A: Tensor, i: int, j: int, weight: float, each: float = 0.0) -> None:
    """Add 2 · weight · x_i x_j + each · (x_i + x_j), in place."""
    A[i, j] += weight
    A[j, i] += weight
    A[i, i] += each
    A[j, j] += each


def _cut(n: int, edges: Sequence[tuple[int, int]], weights: Iterable[float]) -> Tensor:
    """Return the QUBO of the largest cut."""
    A = torch.zeros(n, n, dtype=torch.float64)
    for (i, j), weight in zip(edges, weights, strict=True):
        _couple(A, i, j, weight, -weight)
    return A


def _random_cut(n: int, rng: Generator, weights: Sequence[float]) -> Classic:
    edges = _edges(n, rng)
    return Classic(_cut(n, edges, rng.choice(weights, len(edges)).tolist()), None)


def _independent(n: int, edges: Iterable[tuple[int, int]]) -> Tensor:
    """Return the QUBO of the largest independent set."""
    A = -torch.eye(n, dtype=torch.float64)
    for i, j in edges:
        _couple(A, i, j, 1.0)
    return A


def cycle(n: int, rng: Generator) -> Classic:
    """Return the largest independent set of a cycle: every other node."""
    edges = [*pairwise(range(n)), *([(n - 1, 0)] if n > 2 else [])]
    return Classic(_independent(n, edges), -float(max(n // 2, 1)))


def tree(n: int, rng: Generator) -> Classic:
    """Return small integers on a random tree, with ties and zeros."""
    A = torch.diag(torch.from_numpy(rng.integers(-2, 3, n).astype(numpy.float64)))
    for i in range(1, n):
        _couple(A, int(rng.integers(0, i)), i, float(rng.integers(-1, 2)))
    return Classic(A, eliminated_lowest(A))


def cliques(n: int, rng: Generator) -> Classic:
    """Return the largest independent set of cliques of 2 or 3 nodes."""
    size = int(rng.integers(2, 4))
    edges = [(i, j) for i, j in combinations(range(n), 2) if i // size == j // size]
    return Classic(_independent(n, edges), -float(math.ceil(n / size)))


def vertex_cover(n: int, rng: Generator) -> Classic:
    """Return the smallest cover, with penalties of 2 (1 - x_i)(1 - x_j)."""
    A = torch.eye(n, dtype=torch.float64)
    for i, j in _edges(n, rng):
        _couple(A, i, j, 1.0, -2.0)
    return Classic(A, None)


def partitioning(n: int, rng: Generator) -> Classic:
    """Return the most even split of numbers, known from a table of sums."""
    numbers = torch.from_numpy(rng.integers(1, 21, n).astype(numpy.float64))
    total = float(numbers.sum())
    A = torch.zeros(n, n, dtype=torch.float64)
    _square(A, torch.arange(n), numbers, total / 2, 4.0)
    best = _best_values(numbers, torch.zeros(n, dtype=torch.float64))
    sums = numpy.flatnonzero(best == 0)
    return Classic(A, float(((2 * sums - total) ** 2).min()) - total**2)


def _best_values(weights: Tensor, values: Tensor) -> NDArray[numpy.float64]:
    """Return the largest value of items by total weight, or -inf."""
    best = numpy.full(int(weights.sum()) + 1, -numpy.inf)
    best[0] = 0.0
    for weight, value in zip(weights.int().tolist(), values.tolist(), strict=True):
        best[weight:] = numpy.maximum(best[weight:], best[:-weight] + value)
    return best


def coloring(n: int, rng: Generator) -> Classic:
    """Return the 3-coloring of a graph that has one."""
    nodes, penalty = n // 3, 4.0
    A = _spare(n, 3 * nodes)
    colors = rng.integers(0, 3, max(nodes, 1))
    for node in range(nodes):
        _one_hot(A, range(3 * node, 3 * node + 3), penalty)
    for i, j in _edges(nodes, rng) if nodes > 1 else []:
        if colors[i] != colors[j]:
            for color in range(3):
                _couple(A, 3 * i + color, 3 * j + color, 1.0)
    return Classic(A, -penalty * nodes)


def assignment(n: int, rng: Generator) -> Classic:
    """Return the cheapest assignment of m persons to m tasks.

    A broken row or column costs more than any change of costs gains.
    """
    from scipy.optimize import linear_sum_assignment

    m, penalty = math.isqrt(n), 10.0
    A = _spare(n, m * m)
    place = torch.arange(m * m).view(m, m)
    costs = rng.integers(0, 5, m * m).astype(numpy.float64).reshape(m, m)
    A[place.flatten(), place.flatten()] += torch.from_numpy(costs.ravel())
    for group in [*place, *place.mT]:
        _one_hot(A, group.tolist(), penalty)
    return Classic(A, float(costs[linear_sum_assignment(costs)].sum()) - 2 * m * penalty)


def knapsack(n: int, rng: Generator) -> Classic:
    """Return the most valuable items; slack bits take the rest."""
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
    left = capacity - numpy.arange(best.size)  # slack bits fill up to 2**slack - 1
    broken = left - left.clip(0, 2**slack - 1)
    return Classic(A, float((penalty * broken**2 - best).min()) - penalty * capacity**2)


def capacitated(n: int, rng: Generator) -> Classic:
    """Return jobs on two machines of equal load; a table is exact."""
    jobs, penalty = n // 2, 20.0
    sizes, costs = rng.integers(1, 6, jobs), rng.integers(0, 5, (jobs, 2)).astype(numpy.float64)
    A, mean = _spare(n, 2 * jobs), float(sizes.sum() / 2)
    A[range(2 * jobs), range(2 * jobs)] += torch.from_numpy(costs.ravel())
    for bin_ in (0, 1):
        _square(A, torch.arange(jobs) * 2 + bin_, torch.from_numpy(sizes.astype(numpy.float64)), mean, 0.5)
    loads = numpy.arange(int(sizes.sum()) + 1)
    balance = 0.5 * loads**2 - mean * loads
    return Classic(A, _two_bins(A, sizes, costs, penalty, balance))


def bin_packing(n: int, rng: Generator) -> Classic:
    """Return items for two bins of 7: a bin costs 1, slack bits fill it."""
    items, penalty = max(0, (n - 8) // 2), 2.0
    used = 2 * items + 8 if n >= 8 else 0
    A = _spare(n, used)
    if not used:
        return Classic(A, 0.0)
    sizes = rng.integers(1, 5, items)
    factors = torch.cat([torch.from_numpy(sizes.astype(numpy.float64)), torch.tensor([1.0, 2.0, 4.0, -7.0])])
    for bin_ in (0, 1):
        own = 2 * items + 4 * bin_ + torch.arange(4)  # slack, then 1 if in use
        A[own[3], own[3]] += 1.0
        _square(A, torch.cat([torch.arange(items) * 2 + bin_, own]), factors, 0.0, penalty)
    loads = numpy.arange(int(sizes.sum()) + 1)[:, None]
    closed, opened = (penalty * (loads + numpy.arange(8) - 7 * y) ** 2 + y for y in (0, 1))
    filling = numpy.minimum(closed, opened).min(1)
    return Classic(A, _two_bins(A, sizes, numpy.zeros((items, 2)), penalty, filling))


def _two_bins(A: Tensor, sizes: Any, costs: Any, penalty: float, of_load: NDArray[Any]) -> float:
    """Add penalties for items not in one bin; return the lowest energy.

    A table of both loads holds the lowest cost of all items so far.
    """
    best = numpy.full((of_load.size, of_load.size), numpy.inf)
    best[0, 0] = 0.0
    for item, size in enumerate(sizes.tolist()):
        _one_hot(A, (2 * item, 2 * item + 1), penalty)
        first, second = best[:-size, :] + costs[item, 0], best[:, :-size] + costs[item, 1]
        both = best[:-size, :-size] + costs[item].sum() + penalty
        best = best + penalty  # in no bin
        best[size:, :] = numpy.minimum(best[size:, :], first)
        best[:, size:] = numpy.minimum(best[:, size:], second)
        best[size:, size:] = numpy.minimum(best[size:, size:], both)
    return float((best + of_load[:, None] + of_load).min()) - penalty * len(sizes)


def set_packing(n: int, rng: Generator) -> Classic:
    """Return the most disjoint sets out of n random sets of three."""
    sets = [set(rng.integers(0, n + 2, 3).tolist()) for _ in range(n)]
    return Classic(_independent(n, [(i, j) for i, j in combinations(range(n), 2) if sets[i] & sets[j]]), None)


def large_penalty(n: int, rng: Generator) -> Classic:
    """Return the choice of one bit by a penalty of a million."""
    A = torch.diag(torch.from_numpy(rng.integers(0, 100, n).astype(numpy.float64)))
    least = float(A.diagonal().min())
    _one_hot(A, range(n), 1e6)
    return Classic(A, least - 1e6)


def planted(n: int, rng: Generator) -> Classic:
    """Return a ferromagnet reflected at a random state, the lowest one."""
    s = torch.from_numpy(rng.choice([-1.0, 1.0], n))
    J = torch.zeros(n, n, dtype=torch.float64)
    for i, j in _edges(n, rng):
        J[i, j] = J[j, i] = -0.5 * s[i] * s[j] * float(rng.integers(1, 4))
    A = 4 * J + torch.diag(-4 * J.sum(1) - 2 * s)  # sᵀJs - Σ s_i* s_i over s = 2x - 1, less a constant
    x = (s + 1) / 2
    return Classic(A, float(x @ A @ x))


FAMILIES: Mapping[str, Callable[[int, Generator], Classic]] = {
    "max-cut": lambda n, rng: _random_cut(n, rng, [1.0]),
    "max-cut, ±1": lambda n, rng: _random_cut(n, rng, [-1.0, 1.0]),
    "max-cut, weighted": lambda n, rng: _random_cut(n, rng, range(1, 11)),
    "independent set": lambda n, rng: Classic(_independent(n, _edges(n, rng)), None),
    "path": lambda n, rng: Classic(_cut(n, list(pairwise(range(n))), [1.0] * (n - 1)), 1.0 - n),
    "cycle": cycle,
    "tree": tree,
    "disjoint cliques": cliques,
    "vertex cover": vertex_cover,
    "number partitioning": partitioning,
    "graph coloring": coloring,
    "assignment": assignment,
    "assignment with capacities": capacitated,
    "bin packing": bin_packing,
    "knapsack": knapsack,
    "set packing": set_packing,
    "all zero": lambda n, rng: Classic(torch.zeros(n, n, dtype=torch.float64), 0.0),
    "all equal": lambda n, rng: Classic(-torch.ones(n, n, dtype=torch.float64), -float(n * n)),
    "large penalty": large_penalty,
    "planted": planted,
}


def eliminated_lowest(A: Tensor, clamp: Mapping[int, int] | None = None) -> float:
    """Return the lowest energy of a QUBO ``[n, n]`` by bucket elimination.

    Each step minimizes over the bit of the fewest neighbors, which
    leaves a table over these: linear in n on paths, trees and cycles,
    at most 2**24 entries elsewhere. It shares no code with the solvers.

    >>> eliminated_lowest(torch.tensor([[1.0, -3.0], [0.0, 1.0]])), eliminated_lowest(torch.eye(3), {1: 1})
    (-1.0, 1.0)
    """
    n, S = len(A), (A + A.mT).double().numpy()
    tables: list[tuple[tuple[int, ...], Any]] = [((i,), numpy.array([0.0, S[i, i] / 2])) for i in range(n)]
    for i, j in zip(*numpy.triu(S, 1).nonzero(), strict=True):
        tables.append(((i, j), numpy.array([[0.0, 0.0], [0.0, S[i, j]]])))
    for bit, value in (clamp or {}).items():
        tables.append(((bit,), numpy.where(numpy.arange(2) == value, 0.0, numpy.inf)))
    left, total = set(range(n)), 0.0
    while left:
        near = {bit: set().union(*(bits for bits, _ in tables if bit in bits)) for bit in left}
        bit = min(left, key=lambda bit: (len(near[bit]), bit))
        bits = sorted(near[bit])
        if len(bits) > 24:
            raise ValueError(f"the graph of n={n} bits is too wide: {len(bits)} bits in one table (limit 24)")
        some = [(own, table) for own, table in tables if bit in own]
        joined = sum(table.reshape([2 if b in own else 1 for b in bits]) for own, table in some)
        lowest = numpy.broadcast_to(joined, [2] * len(bits)).min(bits.index(bit))
        tables = [(own, table) for own, table in tables if bit not in own]
        left.remove(bit)
        if len(bits) > 1:
            tables.append((tuple(b for b in bits if b != bit), lowest))
        else:
            total += float(lowest)
    return total


def proven_lowest(A: Tensor, seconds: float = 60.0) -> float | None:
    """Return the lowest energy by scipy's MILP solver, or None on timeout.

    A product of two bits is a number y between 0 and 1: at least
    x_i + x_j - 1 if its coefficient is positive, else at most x_i and x_j.

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
