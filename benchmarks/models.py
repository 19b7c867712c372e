"""QUBOs of the benchmarks: spin glasses on four graphs, and graph coloring with one-hot groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import dimod
import dwave.graphs
import networkx
import numpy as np
import torch

from qubolearn import Groups, SparseQubo, to_bqm
from qubolearn.qubo import Qubo, from_bqms, with_penalties

#: Colors, and mean number of neighbors of a node, of the graphs to color; every graph has a valid coloring.
COLORS, DEGREE = 4, 7


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


def pegasus(m: int, seed: int = 0) -> Model:
    """Return a model of a whole Pegasus chip with couplings of -1 and 1."""
    return _signs("Pegasus", networkx.convert_node_labels_to_integers(dwave.graphs.pegasus_graph(m)), seed)


def _signs(family: str, graph: Any, seed: int) -> Model:
    edges = np.array(graph.edges).T
    return Model(family, len(graph), edges, np.random.default_rng(seed).choice([-1.0, 1.0], edges.shape[1]))


class Case(NamedTuple):
    """One QUBO in the form of each library; its energy is xᵀAx + offset, which is also the model's."""

    A: Qubo  # a batch of one, float32
    offset: float
    bqm: Any  # with penalties in place of groups
    groups: Groups | None = None


def as_case(model: Model) -> Case:
    """Return a spin glass as bits; sparse unless its graph is complete."""
    bqm = model.bqm()
    sparse, offset = from_bqms([bqm])
    A = sparse.to(torch.float32)
    return Case(A.dense() if model.family == "dense" else A, offset.item(), bqm)


def _max_cut(n: int, seed: int) -> Case:
    model = regular(n, seed)
    return as_case(model._replace(couplings=np.ones_like(model.couplings)))


def coloring(nodes: int, seed: int) -> Case:
    """Return a random graph to color, with one bit per node and color; the energy is minus the number of good edges.

    Edges join nodes of different colors in a hidden balanced coloring, so the lowest energy is known.
    """
    random = np.random.default_rng(seed)
    hidden = random.permutation(np.arange(nodes) % COLORS)
    i, j = np.triu_indices(nodes, 1)
    i, j = (ends[hidden[i] != hidden[j]] for ends in (i, j))
    chosen = np.sort(random.choice(i.size, min(i.size, nodes * DEGREE // 2), replace=False))
    edges = torch.from_numpy(np.stack([i[chosen], j[chosen]]))
    bits = (COLORS * edges[:, :, None] + torch.arange(COLORS)).reshape(2, -1)
    A = SparseQubo(torch.zeros(1, COLORS * nodes), bits, torch.ones(1, bits.shape[1]))
    groups = Groups([range(COLORS * node, COLORS * (node + 1)) for node in range(nodes)])
    penalized, offset = with_penalties(A.to(torch.float64), groups)
    bqm = to_bqm(penalized)
    bqm.offset += offset.item() - chosen.size
    return Case(A, -float(chosen.size), bqm, groups)


#: name -> (size, seed) -> case, and the sizes to measure
FAMILIES: dict[str, tuple[Callable[[int, int], Case], tuple[int, ...]]] = {
    "dense": (lambda n, seed: as_case(sherrington_kirkpatrick(n, seed)), (16, 24, 32, 48, 64, 128, 256, 512, 1024)),
    "3-regular max-cut": (_max_cut, (16, 32, 64, 128, 512, 2048)),
    "Pegasus": (lambda m, seed: as_case(pegasus(m, seed)), (2, 3, 4, 6, 12)),
    "coloring, one-hot": (coloring, (6, 12, 24, 48, 96, 256)),
}


def cases(family: str, size: int, instances: int) -> list[Case]:
    """Return the first instances of a size."""
    return [FAMILIES[family][0](size, seed) for seed in range(instances)]
