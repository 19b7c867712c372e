"""Where bits are drawn: qubits of a chip in their cells, groups of bits side by side, other bits on a circle."""

from __future__ import annotations

import math

from qubolearn.chips.topologies import FAMILIES, Topology
from qubolearn.qubo import Groups

__all__ = ["positions"]

Point = tuple[float, float]

#: How far apart cells are, and where the four qubits of one direction lie in a cell.
PITCH, ALONG = 1.2, (-0.42, -0.18, 0.18, 0.42)


def positions(pattern: Topology, groups: Groups | None = None) -> list[Point]:
    """A point for each bit; x goes right, y goes down, and neighbouring cells are 1.2 apart.

    The eight qubits of a cell are a cross: the vertical ones, which couple to cells above and below, lie side by side,
    and the horizontal ones below each other, so that no two couplers lie on one line. Without a chip, groups of bits
    are small circles in rows of equal length, and where not all bits are in groups there is one circle of all.

    >>> from qubolearn.chips.topologies import topology
    >>> positions(topology("chimera", 8))[:5]
    [(-0.42, 0.0), (-0.18, 0.0), (0.18, 0.0), (0.42, 0.0), (0.0, -0.42)]
    >>> [(round(x), round(y)) for x, y in positions(topology("dense", 4))]
    [(0, -1), (1, 0), (0, 1), (-1, 0)]
    """
    if pattern.qubits is None or pattern.name not in FAMILIES:
        return _circles(pattern.n, groups)
    places = [FAMILIES[pattern.name].place(qubit) for qubit in pattern.qubits]
    # only the order of rows and columns counts: the planes of some families have gaps
    rows, columns = (sorted({cell[axis] for cell, _ in places}) for axis in (0, 1))
    found = []
    for (y, x, *layer), slot in places:
        shift = PITCH / 2 * sum(layer)  # Zephyr has two cells at a crossing
        along = ALONG[slot % 4]
        across = (along, 0.0) if slot < 4 else (0.0, along)
        found.append((PITCH * columns.index(x) + shift + across[0], PITCH * rows.index(y) + shift + across[1]))
    return found


def _circles(n: int, groups: Groups | None) -> list[Point]:
    members = groups.members if groups and sum(map(len, groups.members)) == n else (tuple(range(n)),)
    columns = math.ceil(math.sqrt(len(members)))
    found = [(0.0, 0.0)] * n
    for number, group in enumerate(members):
        y, x = divmod(number, columns)
        for place, bit in enumerate(group):
            angle = 2 * math.pi * place / len(group)
            found[bit] = round(3 * x + math.sin(angle), 4), round(3 * y - math.cos(angle), 4)
    return found
