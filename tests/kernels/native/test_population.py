"""Population annealing and elimination."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from native_kernels import all_energies, dense_of, kernels, on_all_builds, random_graph

READS, QUANTILES, MASK = 64, 4096, 2**64 - 1


class Stream:
    """The kernels' generator: xorshift64 of a mixed seed."""

    def __init__(self, seed: int, number: int) -> None:
        self.state = self.mix((self.mix(seed) + number) & MASK)

    @staticmethod
    def mix(z: int) -> int:
        z = (z + 1) * 0x9E3779B97F4A7C15 & MASK
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
        z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
        return z ^ z >> 31 | 1

    def next(self) -> int:
        self.state ^= self.state << 13 & MASK
        self.state ^= self.state >> 7
        self.state ^= self.state << 17 & MASK
        return self.state

    def uniform(self) -> float:
        return (self.next() >> 11) * 2.0**-53


def quantiles() -> np.ndarray:
    """Return -log of 4,096 shares in the kernels' fixed order."""
    values = [np.float32(-math.log((k + 0.5) / QUANTILES)) for k in range(QUANTILES)]
    random = Stream(20240229, 0)
    for k in range(QUANTILES - 1, 0, -1):
        other = random.next() % (k + 1)
        values[k], values[other] = values[other], values[k]
    return np.array(values)


class Reference:
    """64 reads ``x [n, 64]`` of S, searched as the kernel does."""

    def __init__(self, S: np.ndarray, largest: float, seed: int) -> None:
        self.S, self.largest, self.sweeps = S, largest, 0
        self.random, self.table = Stream(seed, 0), quantiles()
        self.draw()
        self.J, self.h = S - np.diag(S.diagonal()), S.diagonal()
        self.symmetric = np.allclose(self.h + self.J.sum(1) / 2, 0)

    def draw(self) -> None:
        """Set all bits at random."""
        words = np.array([self.random.next() for _ in self.S], np.uint64)
        self.x = (words[:, None] >> np.arange(READS, dtype=np.uint64) & np.uint64(1)).astype(int)

    def sweep(self, temperature: float) -> float:
        """Update all bits; return the share that raised the energy."""
        limits, raised = self.table * np.float32(temperature), 0
        if self.largest < np.inf:
            limits = np.ceil(np.minimum(limits, np.float32(self.largest)))
        for i in range(len(self.S)):
            if i % 4 == 0:
                self.random.next()
            place = self.random.state >> 8 + 14 * (i % 4) & QUANTILES - 1
            cost = (self.h[i] + self.J[i] @ self.x) * (1 - 2 * self.x[i])
            flips = cost < np.take(limits, np.arange(place, place + READS), mode="wrap")
            self.x[i] ^= flips
            raised += (flips & (cost > 0)).sum()
        self.sweeps += 1
        return float(raised) / self.x.size

    def anneal(self, hot: float, cold: float, count: int) -> None:
        for k in range(count):
            self.sweep(hot + (cold - hot) * k / count)
        for _ in range(3):
            self.sweep(1e-6 * cold)

    def cross(self, x: np.ndarray, other: np.ndarray, ties: bool) -> np.ndarray:
        """Return x with every differing component that lowers the energy."""
        differs = x != other
        if self.symmetric and 2 * differs.sum() > x.size:
            differs = ~differs
        x = x.copy()
        while differs.any():
            component = np.arange(x.size) == np.flatnonzero(differs)[0]
            while (grown := component | differs & (self.J[:, component] != 0).any(1)).sum() > component.sum():
                component = grown
            child = np.where(component, 1 - x, x)
            gain = self.energy(child) - self.energy(x)
            if gain <= (1e-9 if ties else -1e-9):
                x = child
            differs &= ~component
        return x

    def energy(self, x: np.ndarray) -> float:
        return float(self.h @ x + x @ self.J @ x / 2)

    def run(self, sweeps: int) -> np.ndarray:
        temperature = hot = cold = (np.abs(self.h) + np.abs(self.J).sum(1)).max()
        found = False
        while temperature > 1e-9 * hot:
            self.sweep(temperature)
            share, cold = self.sweep(temperature), temperature
            if not found and share < 0.08:
                hot, found = temperature, True
            if share < 0.0005:
                break
            temperature *= 0.93
        left = sweeps - self.sweeps
        scouts, kept = min(int(0.15 * left) // 4000, 16), []
        for scout in range(scouts + 1):
            if scout:
                self.draw()
            length = int(0.15 / scouts * left) if scout < scouts else sweeps - self.sweeps
            parents = self.populate(hot, cold, length, self.sweeps + length)
            kept.append(parents[:, np.argmin([self.energy(x) for x in parents.T])].copy())
        for x in kept[:-1]:
            parents[:, np.argmax([self.energy(x) for x in parents.T])] = x
        return parents.T

    def populate(self, hot: float, cold: float, length: int, end: int) -> np.ndarray:
        """Return a population ``[n, 64]`` after this many sweeps."""
        self.anneal(hot, cold, int(0.3 * length))
        parents = self.x.copy()
        while self.sweeps < end:
            self.x = parents.copy()
            reheat = 0.2 + 0.4 * self.random.uniform()
            self.anneal(cold + reheat * (hot - cold), cold, min(30, end - self.sweeps))
            for read in range(READS):
                parents[:, read] = self.cross(parents[:, read], self.x[:, read], True)
            for read in range(READS):
                if self.random.uniform() < 0.02:
                    parents[:, read] = self.cross(parents[:, read], parents[:, (read + 1) % READS], False)
        return parents


def searched(
    graph: tuple[np.ndarray, ...], width: int, sweeps: int, seed: int, **options: Any
) -> tuple[Any, ...]:
    batch, n, islands = len(graph[0]), graph[0].shape[1], options.pop("islands", 1)
    targets = np.full(batch, options.pop("target", -np.inf))
    first, swept = np.zeros(batch, np.int64), np.zeros((batch, islands), np.int64)
    states, seeds = np.zeros((batch, islands, READS, n), np.int8), np.full(batch, seed, np.uint32)
    goal = (sweeps, targets, seeds, first, swept, states)
    kernels.search_population(graph, np.full(batch, width), *goal, **options)
    return states, swept, first


def integer_graph(
    n: int, degree: int, size: int, seed: int = 0, symmetric: bool = False
) -> tuple[np.ndarray, ...]:
    """Return a graph with nonzero even couplings up to ``size``."""
    linear, quadratic, *rest = random_graph(n, degree, seed)
    rng = np.random.default_rng(seed)
    quadratic = rng.choice([-2.0, 2.0], quadratic.shape) * rng.integers(1, size // 2 + 1, quadratic.shape)
    linear = rng.integers(-size, size + 1, linear.shape).astype(float)
    if symmetric:
        S = dense_of((linear, quadratic, *rest))[0]
        linear = -(S - np.diag(S.diagonal())).sum(1)[None] / 2
    return linear, quadratic, *rest


@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize("symmetric", [False, True])
def test_the_kernel_is_its_numpy_reference(width: int, symmetric: bool) -> None:
    graph = integer_graph(18, 4, 4, seed=width, symmetric=symmetric)
    states, swept, _ = on_all_builds(lambda threads: searched(graph, width, 600, 7, threads=threads))
    reference = Reference(dense_of(graph)[0], {1: 127, 2: 32767, 4: np.inf}[width], 7)
    np.testing.assert_array_equal(states[0, 0], reference.run(600))
    assert swept.item() == reference.sweeps


def test_long_searches_begin_with_short_ones() -> None:
    graph = integer_graph(3, 2, 4)
    states, swept, _ = searched(graph, 1, 27_500, 2)
    reference = Reference(dense_of(graph)[0], 127, 2)
    np.testing.assert_array_equal(states[0, 0], reference.run(27_500))
    assert swept.item() == reference.sweeps


def test_islands_and_targets_do_not_depend_on_threads() -> None:
    graph = integer_graph(60, 5, 6)
    lowest = min(Reference(dense_of(graph)[0], 1, 0).energy(x) for x in searched(graph, 1, 1000, 3)[0][0, 0])
    ends = []
    for threads in (1, 2, 5):
        states, swept, first = searched(graph, 1, 3000, 3, islands=4, target=lowest + 0.5, threads=threads)
        ends.append((first.item(), swept[0, first[0]], states[0, first[0]].tobytes()))
    assert ends[0] == ends[1] == ends[2]
    assert ends[0][0] < 4
    assert ends[0][1] < 3000


def eliminated(linear: np.ndarray, edges: np.ndarray, quadratic: np.ndarray) -> tuple[np.ndarray, float, int]:
    """Return the lowest state, its energy, and how many bits are left."""
    elimination = kernels.Elimination(linear, edges, quadratic)
    n, m, whole = elimination.bits, elimination.edges, np.zeros((1, linear.size), np.int8)
    kept, small = np.zeros(n, np.int64), np.zeros(n)
    pairs, couplings = np.zeros((2, m), np.int64), np.zeros(m)
    elimination.write(kept, small, pairs, couplings)
    if n:
        A = np.diag(small)
        np.add.at(A, tuple(pairs), couplings)
        whole[0, kept] = (all_energies(A[None]).argmin() >> np.arange(n)) & 1
    elimination.restore(whole)
    x = whole[0].astype(float)
    return x, float(linear @ x + quadratic @ (x[edges[0]] * x[edges[1]])), n


@pytest.mark.parametrize("kind", ["integer", "degenerate", "fractional", "without fields"])
def test_elimination_keeps_a_lowest_state(kind: str) -> None:
    rng, left = np.random.default_rng(1), 0
    for trial in range(150):
        n = int(rng.integers(1, 13))
        pairs = np.array([(i, j) for i in range(n) for j in range(i + 1, n)], np.int64).reshape(-1, 2)
        edges = np.ascontiguousarray(pairs[rng.random(len(pairs)) < rng.uniform(0.1, 0.8)].T).reshape(2, -1)
        most = {"degenerate": 1}.get(kind, 5)
        linear = rng.integers(-most, most + 1, n).astype(float)
        quadratic = rng.integers(-most, most + 1, edges.shape[1]).astype(float)
        if kind == "fractional":
            linear, quadratic = linear + rng.normal(size=n), quadratic + rng.normal(size=quadratic.size)
        if kind == "without fields":
            linear = -(np.bincount(edges[0], quadratic, n) + np.bincount(edges[1], quadratic, n)) / 2
        A = np.diag(linear)
        np.add.at(A, tuple(edges), quadratic)
        _, energy, kept = eliminated(linear, edges, quadratic)
        assert energy == pytest.approx(all_energies(A[None]).min(), abs=1e-9), (trial, A)
        left += kept
    assert left > 0  # some QUBOs are too dense to vanish


def test_trees_and_rings_vanish() -> None:
    rng = np.random.default_rng(0)
    n = 14
    tree = np.array([[int(rng.integers(0, j)) for j in range(1, n)], range(1, n)], np.int64)
    ring = np.array([[*range(n - 1), 0], [*range(1, n), n - 1]], np.int64)
    for edges in (tree, ring):
        linear, quadratic = rng.normal(size=n), rng.normal(size=edges.shape[1])
        A = np.diag(linear)
        np.add.at(A, tuple(edges), quadratic)
        _, energy, left = eliminated(linear, edges, quadratic)
        assert (energy, left) == (pytest.approx(all_energies(A[None]).min()), 0)


def test_arguments_that_do_not_fit() -> None:
    graph = integer_graph(8, 3, 4)
    with pytest.raises(ValueError, match="sweeps"):
        searched(graph, 1, -1, 0)
    with pytest.raises(ValueError, match="edges"):
        kernels.Elimination(np.zeros(2), np.array([[0], [2]]), np.ones(1))
    elimination = kernels.Elimination(np.zeros(3), np.zeros((2, 0), np.int64), np.zeros(0))
    with pytest.raises(ValueError, match="states"):
        elimination.restore(np.zeros((1, 4), np.int8))
