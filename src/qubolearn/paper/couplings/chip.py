"""What a QUBO costs on a chip: bits, couplers, physical qubits and chains, for all problems alike."""

from __future__ import annotations

from typing import Any

import torch

from qubolearn.chips.embedding import DoesNotFit, embed_report
from qubolearn.chips.topologies import Topology, topology
from qubolearn.errors import QubolearnError
from qubolearn.problems import make_problem
from qubolearn.problems.snakes import Snakes
from qubolearn.problems.sudoku import Sudoku, hint_clamp, rule_groups, rule_qubo
from qubolearn.qubo import Groups, SparseQubo, forced, reduced, with_penalties
from qubolearn.randomness import stream

__all__ = ["chip_view", "puzzle_on_chip", "view_of"]


def chip_view(pattern: Topology, chip: str = "pegasus", size: int | None = None) -> dict[str, Any]:
    """What a QUBO with these couplers needs on a chip without defects.

    Args:
        pattern: the couplers.
        chip: chimera, pegasus or zephyr.
        size: of the chip; by default the largest that was built.

    Returns:
        ``bits``, ``couplers``, ``chip``, and where it ``fits`` also ``qubits``, ``mean_chain``, ``longest_chain`` and
        ``per_anneal``, how many instances the chip holds at once.

    >>> chip_view(topology("dense", 4))["couplers"]
    6
    """
    view: dict[str, Any] = {"bits": pattern.n, "couplers": len(pattern.couplers), "chip": chip}
    try:
        report = embed_report(pattern, chip, size)
    except DoesNotFit:
        return {**view, "fits": False}
    return {
        **view,
        "fits": True,
        "qubits": report.physical_qubits,
        "mean_chain": report.chain_mean,
        "longest_chain": report.chain_max,
        "per_anneal": report.instances_per_anneal,
    }


def view_of(seed: int, bits: int = 0, problem: dict[str, Any] | None = None) -> dict[str, Any]:
    """So many bits that are all coupled, or a test puzzle or grid, of which the free bits count."""
    if bits:
        return {"chip": chip_view(topology("dense", bits))}
    made = make_problem(**(problem or {}))
    if isinstance(made, Sudoku):
        A = puzzle_on_chip(made.sample(1, stream(seed, "test"), "test").p[0], made.size)
    elif isinstance(made, Snakes):
        p, edges = made.whole("test").p[:1], torch.tensor(made.topology().couplers).T
        A = SparseQubo(torch.zeros(1, made.bits), edges, torch.ones(1, edges.shape[1]))
        A = _free(A, made.clamp(p), made.groups)
    else:
        raise QubolearnError(f"bits of {made.name} are all free; give their number")
    pairs = A.edges.sort(0).values
    return {"chip": chip_view(Topology("learned", A.n, tuple(sorted((int(i), int(j)) for i, j in pairs.T))))}


def puzzle_on_chip(puzzle: torch.Tensor, size: int) -> SparseQubo:
    """Rules of Sudoku and penalties for one digit a cell, of the bits that the hints of a puzzle ``[cells]`` leave."""
    clamp, A = hint_clamp(puzzle[None]), rule_qubo(size)
    shown, (i, j) = clamp[0] == 1, A.edges
    clamp[0, torch.cat([j[shown[i]], i[shown[j]]])] = 0  # a rule forbids them beside a hint
    return _free(A, clamp, rule_groups(size))


def _free(A: SparseQubo, clamp: torch.Tensor, groups: Groups) -> SparseQubo:
    """What a chip would have to hold: the bits that are not clamped, with penalties in place of groups."""
    (left,) = reduced(A, forced(clamp, groups), groups)
    penalised, _ = with_penalties(left.A, left.groups)
    assert isinstance(penalised, SparseQubo)
    return penalised
