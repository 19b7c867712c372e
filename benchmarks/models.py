"""QUBOs of the benchmarks: spin glasses on three graphs."""

from __future__ import annotations

from typing import Any, NamedTuple

import dimod
import dwave.graphs
import networkx
import numpy as np
import torch

from qubolearn import SparseQubo
from qubolearn.qubo import Qubo


class Model(NamedTuple):
    """A spin glass without fields."""

    family: str
    n: int
    edges: Any  # [2, m]
    couplings: Any  # [m]

    def bqm(self) -> Any:
        """Return the spin glass as a dimod model."""
        vectors = np.zeros(self.n), (*self.edges, self.couplings), 0.0, dimod.SPIN
        return dimod.BinaryQuadraticModel.from_numpy_vectors(*vectors)


def sherrington_kirkpatrick(n: int, seed: int = 0) -> Model:
    """Return a model of all pairs with normal couplings."""
    edges = np.stack(np.triu_indices(n, 1))
    return Model("dense", n, edges, np.random.default_rng(seed).standard_normal(edges.shape[1]) / np.sqrt(n))


def regular(n: int, seed: int = 0) -> Model:
    """Return a model of three random neighbors per spin with couplings of -1 and 1."""
    return _signs("3-regular", networkx.random_regular_graph(3, n, seed=seed), seed)


def pegasus(m: int, seed: int = 0, family: str = "Pegasus") -> Model:
    """Return a model of a whole Pegasus or Zephyr chip with couplings of -1 and 1."""
    graph = {"Pegasus": dwave.graphs.pegasus_graph, "Zephyr": dwave.graphs.zephyr_graph}[family](m)
    return _signs(family, networkx.convert_node_labels_to_integers(graph), seed)


def _signs(family: str, graph: Any, seed: int) -> Model:
    edges = np.array(graph.edges).T
    return Model(family, len(graph), edges, np.random.default_rng(seed).choice([-1.0, 1.0], edges.shape[1]))


def as_qubo(model: Model) -> tuple[Qubo, float]:
    """Return a spin glass as bits, s = 2x - 1, sparse unless its graph is complete, and the offset of energies."""
    couplings, edges = torch.from_numpy(model.couplings), torch.from_numpy(np.sort(model.edges, 0))
    fields = torch.zeros(model.n, dtype=torch.float64).index_add(0, edges.flatten(), -2 * couplings.repeat(2))
    A = SparseQubo(fields[None].float(), edges, 4 * couplings[None].float())
    return A.dense() if model.family == "dense" else A, float(couplings.sum())
