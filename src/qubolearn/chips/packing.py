"""Pack many small QUBOs into one Ising problem on a chip."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from qubolearn.chips.embedding import Chip, Coupler, find_tiles
from qubolearn.chips.programming import Range, strength_of_chains
from qubolearn.errors import QubolearnError

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Ranges(NamedTuple):
    """The (lowest, highest) h, J, J within chains, and sum of a qubit's J."""

    h: Range
    J: Range
    chain: Range
    qubit: Range

    @staticmethod
    def of(properties: Mapping[str, Any]) -> Ranges:
        J = _around_zero(properties, "j_range", (-1.0, 1.0))
        return Ranges(
            _around_zero(properties, "h_range", (-4.0, 4.0)),
            J,
            _around_zero(properties, "extended_j_range", J),
            _around_zero(properties, "per_qubit_coupling_range", (-math.inf, math.inf)),
        )


def stated_range(properties: Mapping[str, Any], name: str, otherwise: Range) -> Range:
    stated = properties.get(name, otherwise)
    match stated:
        case [int() | float() as low, int() | float() as high] if low < high:
            return low, high
    raise QubolearnError(f"this chip states {name}={str(stated)[:40]}; expected [lowest, highest]")


def _around_zero(properties: Mapping[str, Any], name: str, otherwise: Range) -> Range:
    low, high = stated_range(properties, name, otherwise)
    if not low < 0 < high:
        raise QubolearnError(f"this chip states {name}={[low, high]}; expected a range around 0")
    return low, high


@dataclass(frozen=True)
class Packing:
    """The tiles of one graph as flat arrays, sorted by tile; a node is tile · n + bit."""

    n: int
    tiles: int
    method: str  # "direct" or "minor"
    qubits: Ints  # [Q] D-Wave's index of each qubit, ordered by node
    node: Ints  # [Q] the node that the qubit belongs to
    ends: Ints  # [2, C] the positions in ``qubits`` that each coupler joins
    coupler_tile: Ints  # [C]
    pair: Ints  # [2, C] the bits that these belong to; equal within a chain
    share: Floats  # [C] 1 / couplers between the two chains

    def first(self, tiles: int) -> Packing:
        """Return the packing of the first tiles only."""
        q = int(np.searchsorted(self.node, tiles * self.n))
        c = int(np.searchsorted(self.coupler_tile, tiles))
        couplers = {name: getattr(self, name)[..., :c] for name in ("ends", "coupler_tile", "pair", "share")}
        return replace(self, tiles=tiles, qubits=self.qubits[:q], node=self.node[:q], **couplers)


@lru_cache(maxsize=64)
def pack(n: int, couplers: frozenset[Coupler], chip: Chip) -> Packing:
    """Return the packing of as many copies as fit on the chip. Cached."""
    tiling = find_tiles(n, couplers, chip)
    qubits, nodes, ends, tiles_of, pairs, shares = [], [], [], [], [], []  # type: ignore[var-annotated]
    for index, tile in enumerate(tiling.tiles):
        bit_of = {qubit: bit for bit, chain in enumerate(tile) for qubit in chain}
        position = {qubit: len(qubits) + k for k, qubit in enumerate(bit_of)}
        qubits += list(bit_of)
        nodes += [index * n + bit for bit in bit_of.values()]
        joining: dict[Coupler, list[Coupler]] = {}
        for q, i in bit_of.items():
            for r in chip.graph.adj[q]:
                j = bit_of.get(r, -1)
                if (i, j) in couplers or (i == j and position[q] < position[r]):
                    joining.setdefault((i, j), []).append((position[q], position[r]))
        for pair, found in joining.items():
            ends += found
            tiles_of += [index] * len(found)
            pairs += [pair] * len(found)
            shares += [1 / len(found)] * len(found)
    whole = [np.array(part, dtype=np.int64) for part in (qubits, nodes, ends, tiles_of, pairs)]
    whole[2], whole[4] = (whole[k].reshape(-1, 2).T for k in (2, 4))
    return Packing(n, len(tiling.tiles), tiling.method, *whole, np.array(shares))  # type: ignore[call-arg, arg-type]


class Programmed(NamedTuple):
    """The h and J that a chip is programmed with."""

    h: Floats  # [Q]
    J: Floats  # [C]
    scale: Floats  # [tiles] the factor of each QUBO's h and J


def program(packing: Packing, J: Floats, h: Floats, ranges: Ranges, chain_strength: float) -> Programmed:
    """Return physical h and J of Ising models J ``[tiles, n, n]``, h ``[tiles, n]``.

    h_i is shared evenly by the qubits of a chain and J_ij by the couplers between two chains.
    Couplers within a chain are -:func:`strength_of_chains`. Each tile is then scaled to fill the ranges.
    """
    length = np.bincount(packing.node, minlength=h.size)
    physical_h = (h.reshape(-1) / length)[packing.node]
    within = packing.pair[0] == packing.pair[1]
    logical_J = J[packing.coupler_tile, packing.pair[0], packing.pair[1]]
    both = torch.from_numpy(J + J.swapaxes(1, 2))
    strength = strength_of_chains(both, torch.from_numpy(h), chain_strength).numpy()
    physical_J = np.where(within, -strength[packing.coupler_tile], logical_J * packing.share)
    used = _used_range(packing, physical_h, physical_J, within, ranges)
    scale = 1 / np.where(used > 0, used, 1.0)
    scaled_h = physical_h * scale[packing.node // packing.n]
    scaled_J = physical_J * scale[packing.coupler_tile]
    # Chips reject values that rounding leaves outside the range.
    clipped_J = np.where(within, np.clip(scaled_J, *ranges.chain), np.clip(scaled_J, *ranges.J))
    return Programmed(np.clip(scaled_h, *ranges.h), clipped_J, scale)


def _used_range(
    packing: Packing, h: Floats, J: Floats, within: npt.NDArray[np.bool_], ranges: Ranges
) -> Floats:
    """Return the largest part of any range that each tile needs."""
    first, second = (np.bincount(end, J, minlength=len(packing.qubits)) for end in packing.ends)
    total: Floats = (first + second).astype(np.float64)
    used = np.zeros(packing.tiles)
    np.maximum.at(used, packing.node // packing.n, np.maximum(_part(h, ranges.h), _part(total, ranges.qubit)))
    np.maximum.at(used, packing.coupler_tile, np.where(within, _part(J, ranges.chain), _part(J, ranges.J)))
    return used


def _part(values: Floats, limits: Range) -> Floats:
    low, high = limits
    return np.maximum(values / low, values / high)


def unpack(packing: Packing, spins: npt.NDArray[np.int8]) -> tuple[npt.NDArray[np.int8], Floats]:
    """Return bits ``[tiles, reads, n]`` by majority (a tie goes to the first qubit), and broken chains."""
    reads = len(spins)
    starts = np.flatnonzero(np.diff(packing.node, prepend=-1))
    length = np.diff(starts, append=len(packing.node))
    votes = np.add.reduceat(spins, starts, axis=1, dtype=np.int64)  # [reads, tiles * n]
    bits = (2 * votes + spins[:, starts] > 0).astype(np.int8)
    broken = (np.abs(votes) < length).mean(0).reshape(packing.tiles, packing.n).mean(1)
    return bits.reshape(reads, packing.tiles, packing.n).swapaxes(0, 1), broken
