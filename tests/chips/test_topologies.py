"""Patterns on chips."""

from __future__ import annotations

import itertools
import random

import dwave.graphs
import pytest
import torch

from qubolearn.chips.topologies import FAMILIES, cells, topology
from qubolearn.errors import QubolearnError

CHIPS = {
    "chimera": dwave.graphs.chimera_graph(16, coordinates=True),
    "pegasus": dwave.graphs.pegasus_graph(16, nice_coordinates=True),
    "zephyr": dwave.graphs.zephyr_graph(15, coordinates=True),
}
SIZES = (1, 2, 5, 8, 9, 15, 16, 21, 32, 40, 65)


def pegasus_cells(size: int) -> tuple[dict[tuple[int, ...], list[tuple[int, ...]]], object]:
    chip = dwave.graphs.pegasus_graph(size, nice_coordinates=True)
    cells: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for qubit in chip:
        cells.setdefault(qubit[:3], []).append(qubit)
    return cells, chip


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", CHIPS)
def test_a_pattern_is_the_induced_subgraph_of_its_qubits(name: str, n: int) -> None:
    pattern = topology(name, n)
    assert pattern.qubits is not None
    assert pattern.n == len(pattern.qubits) == len(set(pattern.qubits)) == n
    edges = {frozenset(edge) for edge in CHIPS[name].subgraph(pattern.qubits).edges}
    assert all(i < j for i, j in pattern.couplers)
    assert {frozenset((pattern.qubits[i], pattern.qubits[j])) for i, j in pattern.couplers} == edges
    assert len(pattern.couplers) == len(edges)


def test_two_and_four_pegasus_cells_keep_the_most_couplers_there_are() -> None:
    cells, chip = pegasus_cells(4)
    pairs = itertools.combinations(cells, 2)
    links = {(a, b): chip.subgraph(cells[a] + cells[b]).number_of_edges() - 40 for a, b in pairs}
    assert len(topology("pegasus", 16).couplers) == 40 + max(links.values()) == 56
    sets = itertools.combinations(cells, 4)
    four = max(sum(links[pair] for pair in itertools.combinations(chosen, 2)) for chosen in sets)
    assert len(topology("pegasus", 32).couplers) == 80 + four == 140


@pytest.mark.parametrize("name", CHIPS)
@pytest.mark.parametrize("n", [18, 21])
def test_no_random_choice_within_whole_cells_keeps_more_couplers(name: str, n: int) -> None:
    """Random drops from the best three cells, improved by exchanges."""
    pattern = topology(name, n)
    whole = topology(name, 24)
    assert whole.qubits is not None
    rng = random.Random(n)
    chip = CHIPS[name].subgraph(whole.qubits)
    for _ in range(20):
        kept = set(rng.sample(whole.qubits, n))
        moved = True
        while moved:
            moved = False
            for old, new in itertools.product(sorted(kept), sorted(set(whole.qubits) - kept)):
                lost, won = (sum(r in kept for r in chip[q]) for q in (old, new))
                if won - chip.has_edge(old, new) > lost:
                    kept, moved = kept - {old} | {new}, True
                    break
        assert chip.subgraph(kept).number_of_edges() <= len(pattern.couplers)


@pytest.mark.parametrize("name", ["dense", "diagonal", *CHIPS])
def test_mask_and_entries_agree(name: str) -> None:
    pattern = topology(name, 11)
    assert torch.equal(pattern.mask, pattern.mask.T)
    assert pattern.entries.shape == (2, 11 + len(pattern.couplers))
    rows, columns = pattern.entries
    assert bool((rows <= columns).all())
    assert torch.equal(rows[:11], torch.arange(11))
    listed = {(i, j) for i, j in pattern.entries.T.tolist()}
    assert listed == {(i, j) for i, j in pattern.mask.triu().nonzero().tolist()}
    assert len(listed) == pattern.entries.shape[1]


@pytest.mark.parametrize(("name", "n", "says"), [("dense", 0, "n=0"), ("chimera", 2049, "n=2049.*2048")])
def test_too_few_and_too_many_bits_are_rejected(name: str, n: int, says: str) -> None:
    with pytest.raises(QubolearnError, match=says):
        topology(name, n)


@pytest.mark.parametrize(("name", "room"), [("chimera", 2048), ("pegasus", 5400), ("zephyr", 6736)])
def test_the_largest_chip_has_the_stated_room(name: str, room: int) -> None:
    assert FAMILIES[name].room == room == 8 * len(cells(name, CHIPS[name]))
