"""The extension without torch, for sanitizers."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np


def load_kernels() -> Any:
    """Return the extension, from QUBOLEARN_KERNELS_FOLDER if set."""
    folder = os.environ.get("QUBOLEARN_KERNELS_FOLDER")
    if folder is None:
        from qubolearn import _kernels

        return _kernels
    if "_kernels" not in sys.modules:  # pytest imports this file twice
        spec = importlib.util.spec_from_file_location("_kernels", next(Path(folder).glob("_kernels*.so")))
        sys.modules["_kernels"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules["_kernels"])
    return sys.modules["_kernels"]


kernels = load_kernels()
SANITIZED = "QUBOLEARN_KERNELS_FOLDER" in os.environ


def on_all_builds(call: Callable[[int], tuple[np.ndarray, ...]]) -> tuple[np.ndarray, ...]:
    """Return ``call(threads)``, equal over all builds and threads."""
    results = [call(threads) for _ in each_build() for threads in (1, 2, 5)]
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            assert a.tobytes() == b.tobytes()
    return results[0]


def each_build() -> Iterator[str]:
    """Use one build after the other."""
    before = kernels.build()
    try:
        for name in kernels.builds():
            kernels.use(name)
            yield name
    finally:
        kernels.use(before)


def all_states(n: int) -> np.ndarray:
    """Return states ``[2**n, n]`` in order of code."""
    return (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(np.float64)


def all_energies(A: np.ndarray) -> np.ndarray:
    """Return xᵀAx ``[batch, 2**n]`` of all states, float64."""
    x = all_states(A.shape[1])
    return np.stack([np.einsum("si,si->s", x @ each, x) for each in A.astype(np.float64)])


def search(A: np.ndarray, count: int, held: int = 2**26, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    states, energies = np.empty((len(A), count, A.shape[1]), A.dtype), np.empty((len(A), count))
    kernels.search(A, states, energies, held, **options)
    return states, energies


def partition(A: np.ndarray, beta: float, held: int = 2**26, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    values, marginals = np.empty(len(A)), np.empty(A.shape)
    kernels.partition(A.astype(np.float64), beta, values, marginals, held, **options)
    return values, marginals


def symmetric(batch: int, n: int, seed: int = 0) -> np.ndarray:
    S = np.random.default_rng(seed).normal(size=(batch, n, n))
    return S + S.transpose(0, 2, 1)


def random_graph(n: int, degree: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Return linear, quadratic, starts, neighbors and places."""
    rng = np.random.default_rng(seed)
    pairs = np.sort(rng.integers(0, n, (2, n * degree // 2)), 0)
    i, j = np.unique(pairs[:, pairs[0] < pairs[1]], axis=1)
    bits, others, edges = np.r_[i, j], np.r_[j, i], np.r_[np.arange(i.size), np.arange(i.size)]
    order = np.lexsort((others, bits))
    starts = np.searchsorted(bits[order], np.arange(n + 1))
    linear, quadratic = rng.normal(size=(1, n)), rng.normal(size=(1, i.size))
    return linear, quadratic, starts, others[order].astype(np.uint32), edges[order]


def dense_of(graph: tuple[np.ndarray, ...]) -> np.ndarray:
    linear, quadratic, starts, neighbors, places = graph
    S = np.diag(linear[0])
    S[np.repeat(np.arange(S.shape[0]), np.diff(starts)), neighbors] = quadratic[0, places]
    return S[None]
