"""Tiles, and reports of their cost."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterable
from dataclasses import asdict

import networkx
import pytest

from qubolearn.chips import embedding
from qubolearn.chips.embedding import Chip, Coupler, Tile, embed_report, find_tiles
from qubolearn.chips.topologies import topology
from qubolearn.errors import QubolearnError

CHIPS = {"chimera": 16, "pegasus": 16, "zephyr": 15}


@pytest.fixture(scope="module")
def chips() -> dict[str, Chip]:
    return {name: Chip.ideal(name, size // 2) for name, size in CHIPS.items()}


def assert_valid(tiles: tuple[Tile, ...], couplers: Iterable[Coupler], graph: networkx.Graph) -> None:
    """Check qubits, chains and couplers with networkx."""
    used = [qubit for tile in tiles for chain in tile for qubit in chain]
    assert len(used) == len(set(used))
    assert set(used) <= set(graph)
    for tile in tiles:
        for chain in tile:
            assert networkx.is_connected(graph.subgraph(chain))
        for i, j in couplers:
            assert any(graph.has_edge(q, r) for q, r in itertools.product(tile[i], tile[j]))


def working(chip: Chip, broken_qubits: set[int], broken_couplers: set[frozenset[int]]) -> Chip:
    qubits = set(chip.graph) - broken_qubits
    couplers = [e for e in chip.graph.edges if set(e) <= qubits and frozenset(e) not in broken_couplers]
    return Chip.of(chip.family, chip.shape, qubits, couplers)


@pytest.mark.parametrize("name", CHIPS)
@pytest.mark.parametrize("n", [8, 15, 32])
def test_patterns_tile_their_chip_without_chains(chips: dict[str, Chip], name: str, n: int) -> None:
    pattern = topology(name, n)
    tiling = find_tiles(n, pattern.couplers, chips[name])
    assert tiling.method == "direct"
    assert all(len(chain) == 1 for tile in tiling.tiles for chain in tile)
    assert_valid(tiling.tiles, pattern.couplers, chips[name].graph)
    assert len(tiling.tiles) * n > 0.6 * len(chips[name].graph)


@pytest.mark.parametrize(("name", "cells"), [("chimera", 256), ("pegasus", 675), ("zephyr", 842)])
def test_bipartite_cells_fill_the_largest_chips(name: str, cells: int) -> None:
    chip = Chip.ideal(name, CHIPS[name])
    pattern = topology("chimera", 8)
    tiling = find_tiles(8, pattern.couplers, chip)
    assert len(tiling.tiles) == cells
    assert_valid(tiling.tiles, pattern.couplers, chip.graph)


@pytest.mark.parametrize("n", [3, 5, 9, 12])
@pytest.mark.parametrize("name", CHIPS)
def test_dense_graphs_are_minor_embedded_many_times(name: str, n: int) -> None:
    chip = Chip.ideal(name, 6)
    couplers = topology("dense", n).couplers
    tiling = find_tiles(n, couplers, chip)
    assert_valid(tiling.tiles, couplers, chip.graph)
    assert len(tiling.tiles) >= 2


def test_a_qubo_without_couplers_takes_any_qubits(chips: dict[str, Chip]) -> None:
    tiling = find_tiles(9, (), chips["chimera"])
    assert len(tiling.tiles) == 512 // 9
    assert_valid(tiling.tiles, (), chips["chimera"].graph)


def test_tiles_avoid_broken_qubits_and_couplers() -> None:
    ideal = Chip.ideal("pegasus", 6)
    rng = random.Random(0)
    broken_qubits = set(rng.sample(sorted(ideal.graph), 30))
    broken_couplers = {frozenset(edge) for edge in rng.sample(sorted(ideal.graph.edges), 60)}
    chip = working(ideal, broken_qubits, broken_couplers)
    assert chip != ideal
    for name, n in (("pegasus", 15), ("dense", 9)):
        couplers = topology(name, n).couplers
        tiles = find_tiles(n, couplers, chip).tiles
        assert_valid(tiles, couplers, chip.graph)
        assert 3 < len(tiles) < len(find_tiles(n, couplers, ideal).tiles)


def test_defects_everywhere_leave_one_embedding_around_them() -> None:
    ideal = Chip.ideal("chimera", 6)
    # One broken coupler in every cell: no whole K4,4 is left.
    broken = {frozenset((8 * cell, 8 * cell + 4)) for cell in range(36)}
    chip = working(ideal, set(), broken)
    couplers = topology("chimera", 8).couplers
    tiling = find_tiles(8, couplers, chip)
    assert tiling.method == "minor"
    assert_valid(tiling.tiles, couplers, chip.graph)


def test_a_chip_that_is_too_small_is_rejected() -> None:
    with pytest.raises(QubolearnError, match="n=100"):
        find_tiles(100, (), Chip.ideal("pegasus", 2))
    with pytest.raises(QubolearnError, match="n=60"):
        find_tiles(60, topology("dense", 60).couplers, Chip.ideal("pegasus", 2))


@pytest.mark.parametrize(("family", "shape"), [("pegasos", (4,)), ("chimera", (4, 4, 6)), ("zephyr", (4, 2))])
def test_a_chip_of_an_unknown_kind_is_rejected(family: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(QubolearnError, match=family):
        Chip.of(family, shape, [0, 1], [(0, 1)])


def test_a_report_counts_a_direct_pattern_once_per_bit() -> None:
    report = embed_report(topology("pegasus", 15), "pegasus", 6)
    assert (report.physical_qubits, report.method) == (15, "direct")
    assert report.chain_mean == report.chain_max == 1
    tiling = find_tiles(15, topology("pegasus", 15).couplers, Chip.ideal("pegasus", 6))
    assert report.instances_per_anneal == len(tiling.tiles)


def test_a_report_of_a_dense_qubo_counts_chains_over_seeds() -> None:
    report = embed_report(topology("dense", 9), "pegasus", 6)
    assert report.method == "minor"
    assert report.seeds > 1
    # The paper embeds nine dense bits into 14 qubits.
    assert 9 < report.physical_qubits_best <= report.physical_qubits <= 20
    assert report.chain_mean == pytest.approx(report.physical_qubits / 9)
    assert report.chain_max >= 2
    assert json.loads(json.dumps(asdict(report))) == asdict(report)


@pytest.mark.parametrize("broken", [0.0, 0.03])
@pytest.mark.parametrize(
    ("family", "size", "bits", "pattern", "cell"),
    [("chimera", 4, 8, "chimera", 1), ("pegasus", 4, 8, "chimera", 2), ("pegasus", 4, 15, "pegasus", 2)],
)
def test_tiles_are_at_least_as_many_as_those_of_minorminer(
    family: str, size: int, bits: int, pattern: str, cell: int, broken: float
) -> None:
    """D-Wave's search tiles by translations of whole cells only."""
    graphs = pytest.importorskip("dwave.graphs")
    parallel = pytest.importorskip("minorminer.utils.parallel_embeddings")
    ideal, chance = Chip.ideal(family, size), random.Random(0)
    chip = working(ideal, {qubit for qubit in ideal.graph if chance.random() < broken}, set())
    wanted = topology(pattern, bits)
    ours = find_tiles(bits, wanted.couplers, chip).tiles
    assert_valid(ours, wanted.couplers, chip.graph)
    make = getattr(graphs, f"{family}_graph")
    source, target = networkx.Graph(wanted.couplers), make(*ideal.shape, node_list=sorted(chip.graph))
    theirs = parallel.find_sublattice_embeddings(source, target, tile=make(cell), max_num_emb=None, seed=0)
    assert len(ours) >= len(theirs) > 0


def test_more_couplers_than_the_chip_has_are_rejected_before_anything_is_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(embedding, "_minorminer", None)  # which would look for minutes
    with pytest.raises(QubolearnError, match=r"n=729.*265356"):
        embed_report(topology("dense", 729), "pegasus")
