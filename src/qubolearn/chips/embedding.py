"""Embed a QUBO's graph on a chip, in as many disjoint copies as one anneal holds.

An embedding maps each bit to a chain of qubits; a tile is one embedding, and tiles share no qubit.
Patterns of :mod:`qubolearn.chips.topologies` are placed directly. Any other graph is minor-embedded
in the smallest corner of the chip that holds it, and copied over the chip where qubits and couplers
work. docs/libraries.md compares with minorminer's own search.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from operator import add
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from qubolearn.chips.topologies import FAMILIES, Cell, Qubit, Topology, chip_graph, topology
from qubolearn.errors import QubolearnError, missing_extra, unknown_name

if TYPE_CHECKING:
    import networkx

__all__ = ["Chip", "Coupler", "DoesNotFit", "EmbedReport", "Tile", "Tiling", "embed_report", "find_tiles"]

Coupler = tuple[int, int]
Tile = tuple[tuple[int, ...], ...]  # bit -> its chain, as indices of qubits
Spot = tuple[Cell, int]  # a qubit's place: a cell and a slot in it

#: Above this many couplers the heuristic takes minutes: cliques only.
MAX_HEURISTIC_COUPLERS = 500
#: Up to here minorminer's cliques may end the process: std::bad_alloc (0.2.22).
MAX_TINY_CLIQUE = 8
#: Seeds of minor embedding to try.
ATTEMPTS = 4


@dataclass(frozen=True)
class Chip:
    """The working qubits and couplers of a chip; chips with the same ones are equal."""

    family: str
    shape: tuple[int, ...]  # [m, n, t] for Chimera, [m] for Pegasus, [m, t] for Zephyr
    digest: str  # of qubits and couplers
    graph: networkx.Graph = field(compare=False, repr=False)  # of D-Wave's indices

    @staticmethod
    @lru_cache(maxsize=8)
    def ideal(family: str, size: int) -> Chip:
        """Return a chip without defects: ``Chip.ideal("pegasus", 16)`` is an Advantage."""
        if family not in FAMILIES:
            raise unknown_name("chip", family, FAMILIES)
        if not 2 <= size <= 64:
            raise QubolearnError(f"a {family} chip of size {size}; expected 2 to 64")
        shape = {"chimera": (size, size, 4), "pegasus": (size,), "zephyr": (size, 4)}[family]
        graph = chip_graph(family, *shape, coordinates=False)
        return Chip.of(family, shape, graph.nodes, graph.edges)

    @staticmethod
    def of(family: str, shape: Sequence[int], qubits: Iterable[int], couplers: Iterable[Coupler]) -> Chip:
        import networkx

        if family not in FAMILIES or (family != "pegasus" and shape[-1] != 4):
            raise QubolearnError(f"chip {family} {list(shape)}; expected chimera, pegasus or zephyr, t=4")
        nodes = sorted(qubits)
        edges = sorted((min(edge), max(edge)) for edge in couplers)
        graph = networkx.Graph()
        graph.add_nodes_from(nodes)
        graph.add_edges_from(edges)
        digest = sha256(repr((family, tuple(shape), nodes, edges)).encode()).hexdigest()
        return Chip(family, tuple(shape), digest, graph)

    def __str__(self) -> str:
        return f"{self.family} {self.family[0].upper()}{self.shape[0]} with {len(self.graph)} qubits"


@dataclass(frozen=True)
class Tiling:
    """Disjoint embeddings of one graph on a chip."""

    method: str  # "direct" (chains of one qubit) or "minor"
    tiles: tuple[Tile, ...]


def find_tiles(n: int, couplers: Iterable[Coupler], chip: Chip) -> Tiling:
    """Return disjoint embeddings of the graph; raise if there are none. Cached."""
    wanted = frozenset((min(pair), max(pair)) for pair in couplers)
    if n > len(chip.graph) or len(wanted) > chip.graph.number_of_edges():
        raise _too_small(n, wanted, chip)
    if not wanted:
        qubits, starts = list(chip.graph), range(0, len(chip.graph) - n + 1, n)
        return Tiling("direct", tuple(tuple((q,) for q in qubits[start : start + n]) for start in starts))
    # Chimera first: it needs the fewest couplers to be intact
    for name in dict.fromkeys(["chimera", chip.family]):
        if n <= FAMILIES[name].room and wanted <= set(topology(name, n).couplers):
            tiling = _direct_tiles(name, n, chip)
            if tiling.tiles:
                return tiling
    return _minor_tiles(n, wanted, chip)


class DoesNotFit(QubolearnError):
    """No embedding of a graph on a chip was found."""


def _too_small(n: int, couplers: frozenset[Coupler], chip: Chip) -> DoesNotFit:
    remedy = "use a larger chip, fewer bits or a sparser topology"
    return DoesNotFit(f"n={n} bits with {len(couplers)} couplers do not fit on the chip {chip}; {remedy}")


@dataclass(frozen=True)
class EmbedReport:
    """The qubits and chains of a graph on a chip, averaged over ``seeds`` minor embeddings."""

    topology: str
    logical_qubits: int
    couplers: int
    chip: str
    size: int
    method: str  # "direct" (one qubit per bit) or "minor"
    seeds: int
    physical_qubits: float
    physical_qubits_deviation: float  # over the embeddings
    physical_qubits_best: int  # of the embedding that is copied
    chain_mean: float
    chain_max: float  # the longest chain, averaged over seeds
    instances_per_anneal: int


def embed_report(pattern: Topology, chip: str = "pegasus", size: int | None = None) -> EmbedReport:
    """Return the qubits and chains that a graph needs on a chip, by default the largest one built.

    >>> report = embed_report(topology("chimera", 8), "pegasus", 16)
    >>> report.physical_qubits, report.instances_per_anneal
    (8.0, 675)
    """
    if chip not in FAMILIES:
        raise unknown_name("chip", chip, FAMILIES)
    ideal = Chip.ideal(chip, FAMILIES[chip].largest if size is None else size)
    tiling = find_tiles(pattern.n, pattern.couplers, ideal)
    lengths = [[len(chain) for chain in tiling.tiles[0]]]
    if tiling.method == "minor":
        found = _minor_embeddings(pattern.n, frozenset(pattern.couplers), ideal)
        lengths = [[len(chain) for chain in chains] for chains in found] or lengths
    return EmbedReport(
        topology=pattern.name,
        logical_qubits=pattern.n,
        couplers=len(pattern.couplers),
        chip=chip,
        size=ideal.shape[0],
        method=tiling.method,
        seeds=len(lengths),
        physical_qubits=fmean(map(sum, lengths)),
        physical_qubits_deviation=stdev(map(sum, lengths)) if len(lengths) > 1 else 0.0,
        physical_qubits_best=sum(map(len, tiling.tiles[0])),
        chain_mean=fmean(map(fmean, lengths)),
        chain_max=fmean(map(max, lengths)),
        instances_per_anneal=len(tiling.tiles),
    )


@lru_cache(maxsize=64)
def _direct_tiles(name: str, n: int, chip: Chip) -> Tiling:
    pattern = topology(name, n)
    chains = [[_spot_on(chip.family, name, qubit)] for qubit in pattern.qubits or ()]
    return Tiling("direct", _copies(chains, frozenset(pattern.couplers), chip))


@lru_cache(maxsize=64)
def _minor_tiles(n: int, couplers: frozenset[Coupler], chip: Chip) -> Tiling:
    candidates = sorted(_minor_embeddings(n, couplers, chip), key=lambda chains: sum(map(len, chains)))
    tiles = _copies(candidates[0], couplers, chip) if candidates else ()
    if not tiles:  # one embedding around the chip's defects
        find, _ = _minorminer()
        chains = find(_graph(n, couplers), chip.graph, random_seed=0, tries=3, timeout=60)
        if not chains:
            raise _too_small(n, couplers, chip)
        tiles = (tuple(tuple(chains[bit]) for bit in range(n)),)
    return Tiling("minor", tiles)


def _minor_embeddings(n: int, couplers: frozenset[Coupler], chip: Chip) -> list[list[list[Spot]]]:
    """Return embeddings of several seeds, or one clique embedding."""
    seeds = range(ATTEMPTS if len(couplers) <= MAX_HEURISTIC_COUPLERS else 1)
    found = [_minor_embedding(n, couplers, chip.family, chip.shape[0], seed) for seed in seeds]
    return [chains for chains in found if chains]


def _copies(chains: list[list[Spot]], couplers: frozenset[Coupler], chip: Chip) -> tuple[Tile, ...]:
    """Return disjoint translated and mirrored embeddings on working qubits."""
    spots = _spots(chip)
    cells = sorted({cell for cell, _ in spots})
    mirrored = [[FAMILIES[chip.family].mirror(*spot) for spot in chain] for chain in chains]
    found: dict[frozenset[int], Tile] = {}
    for source in (chains, mirrored):
        anchor = min(cell for chain in source for cell, _ in chain)
        for target in cells:
            shift = [b - a for a, b in zip(anchor, target, strict=True)]
            moved = [[(tuple(map(add, cell, shift)), slot) for cell, slot in chain] for chain in source]
            tile = tuple(tuple(spots.get(spot, -1) for spot in chain) for chain in moved)
            qubits = frozenset(q for chain in tile for q in chain)
            if -1 not in qubits and qubits not in found and _is_embedding(tile, couplers, chip.graph):
                found[qubits] = tile
    return _disjoint(list(found.values()))


def _is_embedding(tile: Tile, couplers: frozenset[Coupler], graph: networkx.Graph) -> bool:
    """Return True if chains are connected and have all couplers of the QUBO."""
    import networkx

    bit_of = {qubit: bit for bit, chain in enumerate(tile) for qubit in chain}
    joined = {(bit, bit_of.get(other)) for qubit, bit in bit_of.items() for other in graph.adj[qubit]}
    chains = (graph.subgraph(chain) for chain in tile if len(chain) > 1)
    return couplers <= joined and all(map(networkx.is_connected, chains))


def _disjoint(tiles: list[Tile]) -> tuple[Tile, ...]:
    """Choose disjoint tiles: next the one that blocks the fewest others."""
    users: dict[int, set[int]] = {}
    for index, tile in enumerate(tiles):
        for chain in tile:
            for qubit in chain:
                users.setdefault(qubit, set()).add(index)
    blocks = [set().union(*(users[q] for chain in tile for q in chain)) - {i} for i, tile in enumerate(tiles)]
    left = set(range(len(tiles)))
    chosen = []
    while left:
        index = min(left, key=lambda i: (len(blocks[i]), i))
        chosen.append(index)
        gone = blocks[index] | {index}
        left -= gone
        for blocked in gone:
            for neighbor in blocks[blocked]:
                blocks[neighbor] = blocks[neighbor] - gone if neighbor in left else blocks[neighbor]
    return tuple(tiles[i] for i in sorted(chosen))


def _spot_on(family: str, name: str, qubit: Qubit) -> Spot:
    """Return the place of a pattern's qubit on a chip, also of a Chimera pattern."""
    cell, slot = FAMILIES[name].place(qubit)
    if family == name:
        return cell, slot
    step = FAMILIES[family].chimera_step
    return (*(step * axis for axis in cell), *([0] if family == "zephyr" else [])), slot


@lru_cache(maxsize=16)
def _spots(chip: Chip) -> dict[Spot, int]:
    """Return D-Wave's index of the working qubit at each place."""
    import dwave.graphs as graphs

    convert = getattr(graphs, f"{chip.family}_coordinates")(*chip.shape)
    index = getattr(convert, "nice_to_linear" if chip.family == "pegasus" else f"{chip.family}_to_linear")
    place, qubits = FAMILIES[chip.family].place, chip_graph(chip.family, *chip.shape)
    return {place(qubit): index(qubit) for qubit in qubits if index(qubit) in chip.graph}


@lru_cache(maxsize=256)
def _minor_embedding(
    n: int, couplers: frozenset[Coupler], family: str, largest: int, seed: int
) -> list[list[Spot]] | None:
    """Return the shorter of a clique and a heuristic embedding."""
    find_embedding, find_clique_embedding = _minorminer()
    for size in range(2, largest + 1):
        corner = chip_graph(family, size)
        found: list[dict[int, Any]] = []
        if n > MAX_TINY_CLIQUE:
            found.append(find_clique_embedding(n, corner, use_cache=False, seed=seed))
        if len(couplers) <= MAX_HEURISTIC_COUPLERS and (n <= MAX_TINY_CLIQUE or found[0]):
            found.append(find_embedding(_graph(n, couplers), corner, random_seed=seed, timeout=60))
        if any(found):
            shortest = min(filter(None, found), key=lambda chains: sum(map(len, chains.values())))
            return [[FAMILIES[family].place(qubit) for qubit in shortest[bit]] for bit in range(n)]
    return None


def _graph(n: int, couplers: frozenset[Coupler]) -> networkx.Graph:
    import networkx

    graph = networkx.empty_graph(n)
    graph.add_edges_from(sorted(couplers))
    return graph


def _minorminer() -> tuple[Any, Any]:
    try:
        from minorminer import find_embedding
        from minorminer.busclique import find_clique_embedding
    except ImportError:
        raise missing_extra("minor embedding", "dwave") from None
    return find_embedding, find_clique_embedding
