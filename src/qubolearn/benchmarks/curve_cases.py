"""The QUBOs of ``qubolearn benchmark curves``: four families, each at growing sizes, several instances a size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from qubolearn.benchmarks.large_annealing import Model, as_bqm, pegasus, regular, sherrington_kirkpatrick
from qubolearn.qubo import Groups, Qubo, SparseQubo, from_bqms, penalised_bqm

__all__ = ["FAMILIES", "Case", "Family", "cases"]

#: Colours, and neighbours of a node on average, of the graphs to colour: every one can be coloured.
COLOURS, DEGREE = 4, 7


class Case(NamedTuple):
    """One QUBO in the form of each library; its energy is xᵀAx + offset, and the model's."""

    A: Qubo  # a batch of one, float32
    offset: float
    bqm: Any  # with penalties in place of groups
    groups: Groups | None


class Family(NamedTuple):
    """A kind of QUBO; what ``make(size, seed)`` returns has as many bits as it has."""

    make: Callable[[int, int], Case]
    sizes: tuple[int, ...]
    sparse: bool = True


def cases(family: str, size: int, instances: int) -> list[Case]:
    """The first instances of a size."""
    return [FAMILIES[family].make(size, seed) for seed in range(instances)]


def _dense(n: int, seed: int) -> Case:
    case = _spins(sherrington_kirkpatrick(n, seed))
    return case._replace(A=case.A.dense() if isinstance(case.A, SparseQubo) else case.A)


def _max_cut(n: int, seed: int) -> Case:
    model = regular(n, seed)
    return _spins(model._replace(couplings=np.ones_like(model.couplings)))


def _pegasus(m: int, seed: int) -> Case:
    return _spins(pegasus(m, seed))


def _spins(model: Model) -> Case:
    bqm = as_bqm(model)
    A, offset = from_bqms([bqm])
    return Case(A.to(torch.float32), offset.item(), bqm, None)


def _colouring(nodes: int, seed: int) -> Case:
    """Colour a random graph, one bit for each node and colour: the energy is minus the number of good edges.

    Edges join nodes of different colours in a hidden balanced colouring, so that the lowest energy is known.
    """
    random = np.random.default_rng(seed)
    hidden = random.permutation(np.arange(nodes) % COLOURS)
    i, j = np.triu_indices(nodes, 1)
    i, j = (ends[hidden[i] != hidden[j]] for ends in (i, j))
    chosen = np.sort(random.choice(i.size, min(i.size, nodes * DEGREE // 2), replace=False))
    edges = torch.from_numpy(np.stack([i[chosen], j[chosen]]))
    bits = (COLOURS * edges[:, :, None] + torch.arange(COLOURS)).reshape(2, -1)
    A = SparseQubo(torch.zeros(1, COLOURS * nodes), bits, torch.ones(1, bits.shape[1]))
    groups = Groups.consecutive(nodes, COLOURS)
    bqm = penalised_bqm(A, groups)
    bqm.offset -= chosen.size
    return Case(A, -float(chosen.size), bqm, groups)


FAMILIES = {
    "dense": Family(_dense, (16, 24, 32, 48, 64, 128, 256, 512, 1024), sparse=False),
    "3-regular max-cut": Family(_max_cut, (16, 32, 64, 128, 512, 2048)),
    "Pegasus": Family(_pegasus, (2, 3, 4, 6, 12)),
    "colouring, one-hot": Family(_colouring, (6, 12, 24, 48, 96, 256)),
}
