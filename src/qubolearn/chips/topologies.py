"""Topologies, the nonzero patterns of A: dense, diagonal, and those of chips.

A chip pattern is an induced subgraph of the chip with one qubit per bit, so a QUBO on it needs no
chains. Its cells of four vertical and four horizontal qubits are chosen to keep many couplers; if n
is not a multiple of 8, the least connected qubits are left out. Cells in D-Wave's coordinates:

* Chimera ``(y, x, u, k)``: the unit cell (y, x), a K4,4;
* Pegasus ``(t, y, x, u, k)``: the cell (t, y, x), a K4,4 with 4 odd couplers;
* Zephyr ``(u, w, k, j, z)``: half a crossing of two lines, a K4,4 with 4 odd couplers.

Bits are numbered cell by cell, the vertical qubits (u = 0) first, by k.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from qubolearn.errors import QubolearnError, unknown_name

if TYPE_CHECKING:
    import networkx

__all__ = ["FAMILIES", "Cell", "Family", "Qubit", "Topology", "cells", "chip_graph", "topology"]

Qubit = tuple[int, ...]  # a qubit's D-Wave coordinates
Cell = tuple[int, ...]  # a cell's place in a plane of translations

#: Sets of cells that the search keeps, and fewer beyond n = 40.
BEAM = 400
#: Qubits to drop first: starts of the search.
STARTS = 32


@dataclass(frozen=True)
class Topology:
    """The entries of A ``[n, n]`` that may be nonzero: the diagonal and the couplers.

    Args:
        name: the name in messages.
        n: the number of bits.
        couplers: pairs (i, j) with i < j, ascending.
        qubits: the qubit of each bit on a chip; None without a chip.

    >>> ring = Topology("ring", 4, ((0, 1), (0, 3), (1, 2), (2, 3)))
    >>> ring.size, ring.mask.sum().item()
    (8, 12)
    """

    name: str
    n: int
    couplers: tuple[tuple[int, int], ...]
    qubits: tuple[Qubit, ...] | None = None

    @property
    def entries(self) -> Tensor:
        """Rows and columns ``[2, n + couplers]`` of an upper-triangular A: first the diagonal."""
        return torch.tensor([(i, i) for i in range(self.n)] + list(self.couplers)).T

    @property
    def size(self) -> int:
        """The number of entries."""
        return self.n + len(self.couplers)

    @property
    def mask(self) -> Tensor:
        """The entries as a symmetric bool matrix ``[n, n]``."""
        mask = torch.zeros(self.n, self.n, dtype=torch.bool)
        rows, columns = self.entries
        mask[rows, columns] = mask[columns, rows] = True
        return mask


@lru_cache(maxsize=256)
def topology(name: str, n: int) -> Topology:
    """Return the topology of n bits by its name.

    Args:
        name: ``dense`` (all couplers), ``diagonal`` (none), or ``chimera``, ``pegasus`` or
            ``zephyr``, one qubit per bit, on chips of up to 2,048, 5,400 or 6,736 bits.
        n: the number of bits.

    >>> [len(topology(name, 8).couplers) for name in ("dense", "chimera", "pegasus")]
    [28, 16, 20]
    """
    if n < 1:
        raise QubolearnError(f"a topology of n={n} bits; expected at least 1")
    if name == "dense":
        return Topology(name, n, tuple((i, j) for i in range(n) for j in range(i + 1, n)))
    if name == "diagonal":
        return Topology(name, n, ())
    if name not in FAMILIES:
        raise unknown_name("topology", name, ["dense", "diagonal", *FAMILIES])
    return _pattern(name, n)


class Family(NamedTuple):
    place: Callable[[Qubit], tuple[Cell, int]]  # qubit -> cell, slot
    mirror: Callable[[Cell, int], tuple[Cell, int]]  # exchanges rows and columns
    largest: int  # the size of the largest chip that D-Wave built
    room: int  # the bits in whole cells of that chip
    chimera_step: int  # between cells of a Chimera grid


def cells(name: str, graph: networkx.Graph) -> dict[Cell, tuple[Qubit, ...]]:
    """Return the whole cells of a chip: place -> eight qubits, vertical ones first."""
    parts: dict[Cell, list[tuple[int, Qubit]]] = {}
    for qubit in graph:
        cell, slot = FAMILIES[name].place(qubit)
        parts.setdefault(cell, []).append((slot, qubit))
    return {cell: tuple(q for _, q in sorted(parts[cell])) for cell in sorted(parts) if len(parts[cell]) == 8}


def chip_graph(family: str, *shape: int, coordinates: bool = True) -> networkx.Graph:
    """Return the graph of a chip without defects; nodes are D-Wave's (nice) coordinates, or qubit indices."""
    import dwave.graphs as graphs

    named = {"nice_coordinates" if family == "pegasus" else "coordinates": True} if coordinates else {}
    return getattr(graphs, f"{family}_graph")(*shape, **named)


def _chimera_place(qubit: Qubit) -> tuple[Cell, int]:
    y, x, u, k = qubit
    return (y, x), 4 * u + k


def _pegasus_place(qubit: Qubit) -> tuple[Cell, int]:
    # Here the step from t to t + 1 is a translation too, by (-1, 1).
    t, y, x, u, k = qubit
    return (3 * y - t, 3 * x + t), 4 * u + k


def _zephyr_place(qubit: Qubit) -> tuple[Cell, int]:
    # Qubit (u, w, k, j, z) is on line w and crosses the lines 2z + j and 2z + j + 1.
    # An odd-coupled pair shares one of these, of the parity of w.
    u, w, k, j, z = qubit
    first = (2 * z + j - w) % 2  # 1 for the first of the pair
    crossing = 2 * z + j + first
    y, x = (w, crossing) if u else (crossing, w)
    return (y, x, k // 2), 4 * u + 2 * (k % 2) + 1 - first


def _transpose(cell: Cell, slot: int) -> tuple[Cell, int]:
    y, x, *rest = cell
    return (x, y, *rest), slot ^ 4


def _antitranspose(cell: Cell, slot: int) -> tuple[Cell, int]:
    y, x = cell
    return (-x, -y), slot ^ 6


FAMILIES = {
    "chimera": Family(_chimera_place, _transpose, largest=16, room=2048, chimera_step=1),
    "pegasus": Family(_pegasus_place, _antitranspose, largest=16, room=5400, chimera_step=3),
    "zephyr": Family(_zephyr_place, _transpose, largest=15, room=6736, chimera_step=2),
}


def _pattern(name: str, n: int) -> Topology:
    family = FAMILIES[name]
    if n > family.room:
        remedy = f"the largest chip has room for {family.room}; use topology dense or fewer bits"
        raise QubolearnError(f"a {name} pattern of n={n} bits; {remedy}")
    count = -(-n // 8)
    # Two more cells on each side, so that the border does not matter.
    chip = chip_graph(name, min(family.largest, math.isqrt(count - 1) + 5))
    whole = cells(name, chip)
    sets = ([q for cell in sorted(some) for q in whole[cell]] for some in _dense_cells(whole, chip, count))
    kept = [_drop(qubits, 8 * count - n, chip) for qubits in sets]
    qubits = max(kept, key=lambda some: int(chip.subgraph(some).number_of_edges()))
    bit = {qubit: i for i, qubit in enumerate(qubits)}
    pairs = (sorted((bit[q], bit[r])) for q, r in chip.subgraph(bit).edges)
    return Topology(name, n, tuple(sorted((i, j) for i, j in pairs)), tuple(qubits))


def _dense_cells(
    whole: dict[Cell, tuple[Qubit, ...]], chip: networkx.Graph, count: int
) -> list[frozenset[Cell]]:
    """Find sets of ``count`` cells with many couplers by beam search."""
    links = _links(whole, chip)
    width = max(1, BEAM // count**2)
    center = [sum(axis) / len(whole) for axis in zip(*whole, strict=True)]
    middle = min(whole, key=lambda cell: (math.dist(cell, center), cell))
    sets = {frozenset([middle]): 0}  # set of cells -> couplers between them
    for _ in range(count - 1):
        grown: dict[frozenset[Cell], int] = {}
        for chosen, couplers in sets.items():
            gains = sum((Counter(links[cell]) for cell in chosen), Counter())
            for cell, gain in sorted(gains.items()):
                if cell not in chosen:
                    grown[chosen | {cell}] = couplers + gain
        order = sorted(grown, key=lambda chosen: (-grown[chosen], sorted(chosen)))
        sets = {chosen: grown[chosen] for chosen in order[:width]}
    return list(sets)


def _links(whole: dict[Cell, tuple[Qubit, ...]], chip: networkx.Graph) -> dict[Cell, dict[Cell, int]]:
    """Return the number of couplers between cells: cell -> neighbor -> number."""
    cell_of = {qubit: cell for cell, qubits in whole.items() for qubit in qubits}
    links: dict[Cell, dict[Cell, int]] = {cell: {} for cell in whole}
    for q, r in chip.edges:
        a, b = cell_of.get(q), cell_of.get(r)
        if a is not None and b is not None and a != b:
            links[a][b] = links[b][a] = links[a].get(b, 0) + 1
    return links


def _drop(qubits: list[Qubit], surplus: int, chip: networkx.Graph) -> list[Qubit]:
    """Drop the ``surplus`` qubits with the fewest couplers, as bits of an integer."""
    if not surplus:
        return qubits
    index = {qubit: i for i, qubit in enumerate(qubits)}
    adjacency = [sum(1 << index[r] for r in chip[qubit] if r in index) for qubit in qubits]
    starts = sorted(index.values(), key=lambda i: (adjacency[i].bit_count(), i))[:STARTS]
    outcomes = {_swap(adjacency, _greedy(adjacency, start, surplus)) for start in starts}

    def missing(kept: int) -> tuple[int, int]:
        return -sum((adjacency[i] & kept).bit_count() for i in _bits(kept)), kept

    return [qubits[i] for i in _bits(min(outcomes, key=missing))]


def _greedy(adjacency: list[int], start: int, surplus: int) -> int:
    """Drop qubit ``start``, then one by one that with the fewest couplers."""
    kept = (1 << len(adjacency)) - 1 & ~(1 << start)
    for _ in range(surplus - 1):
        kept &= ~(1 << min(_bits(kept), key=lambda i: ((adjacency[i] & kept).bit_count(), -i)))
    return kept


def _swap(adjacency: list[int], kept: int) -> int:
    """Exchange kept and dropped qubits as long as this gains a coupler."""
    for new in _bits((1 << len(adjacency)) - 1 & ~kept):
        loss, old = min(((adjacency[i] & (kept | 1 << new)).bit_count(), i) for i in _bits(kept))
        if (adjacency[new] & kept).bit_count() > loss:
            return _swap(adjacency, kept & ~(1 << old) | 1 << new)
    return kept


def _bits(mask: int) -> list[int]:
    return [i for i in range(mask.bit_length()) if mask >> i & 1]
