"""Where bits are drawn: qubits of a chip in their cells, other bits on a circle."""

from __future__ import annotations

import math

from qubolearn.chips.topologies import FAMILIES, Topology

__all__ = ["positions"]

Point = tuple[float, float]

#: How far apart cells are, and where the four qubits of one direction lie in a cell.
PITCH, ALONG = 1.2, (-0.42, -0.18, 0.18, 0.42)


def positions(pattern: Topology) -> list[Point]:
    """A point for each bit; x goes right, y goes down, and neighbouring cells are 1.2 apart.

    The eight qubits of a cell are a cross: the vertical ones, which couple to cells above and below, lie side by side,
    and the horizontal ones below each other, so that no two couplers lie on one line.

    >>> from qubolearn.chips.topologies import topology
    >>> positions(topology("chimera", 8))[:5]
    [(-0.42, 0.0), (-0.18, 0.0), (0.18, 0.0), (0.42, 0.0), (0.0, -0.42)]
    >>> [(round(x), round(y)) for x, y in positions(topology("dense", 4))]
    [(0, -1), (1, 0), (0, 1), (-1, 0)]
    """
    if pattern.qubits is None or pattern.name not in FAMILIES:
        angles = [2 * math.pi * bit / pattern.n for bit in range(pattern.n)]
        return [(round(math.sin(angle), 4), round(-math.cos(angle), 4)) for angle in angles]
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
