"""Problems beyond the paper for which couplings help.

Each file has one problem's methods and its classical baseline as tasks.
"""

from __future__ import annotations

from typing import Any

import torch

from quant_reproduction.problems.snakes import Snakes
from qubolearn.chips.embedding import DoesNotFit, embed_report
from qubolearn.chips.topologies import Topology, topology
from qubolearn.problems import make_problem
from qubolearn.problems.sudoku import Sudoku, hint_clamp, rule_groups, rule_qubo
from qubolearn.qubo import Groups, SparseQubo, propagate_clamps, reduced, with_penalties
from qubolearn.random import stream


def chip_view(pattern: Topology, chip: str = "pegasus", size: int | None = None) -> dict[str, Any]:
    """Return the cost of a QUBO with these couplers on an intact chip."""
    view: dict[str, Any] = {"bits": pattern.n, "couplers": len(pattern.couplers), "chip": chip}
    try:
        report = embed_report(pattern, chip, size)
    except DoesNotFit:
        return {**view, "fits": False}
    chains = {"mean_chain": report.chain_mean, "longest_chain": report.chain_max}
    cost = {"qubits": report.physical_qubits, **chains, "per_anneal": report.instances_per_anneal}
    return {**view, "fits": True, **cost}


def view_of(seed: int, bits: int = 0, problem: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the cost of coupled bits, or of a puzzle's free bits."""
    if bits:
        return {"chip": chip_view(topology("dense", bits))}
    given = problem or {}
    made = make_problem(**{**given, "name": "sudoku-set" if "set" in given else given["name"]})
    if isinstance(made, Sudoku):
        A = puzzle_on_chip(made.sample(1, stream(seed, "test"), "test").p[0], made.size)
    else:
        assert isinstance(made, Snakes)
        p, edges = made.whole("test").p[:1], torch.tensor(made.topology().couplers).T
        A = SparseQubo(torch.zeros(1, made.bits), edges, torch.ones(1, edges.shape[1]))
        A = _free(A, made.clamp(p), made.groups)
    pairs = A.edges.sort(0).values
    return {"chip": chip_view(Topology("learned", A.n, tuple(sorted((int(i), int(j)) for i, j in pairs.T))))}


def puzzle_on_chip(puzzle: torch.Tensor, size: int) -> SparseQubo:
    """Return Sudoku's rules and penalties for a puzzle's free bits."""
    clamp, A = hint_clamp(puzzle[None]), rule_qubo(size)
    shown, (i, j) = clamp[0] == 1, A.edges
    clamp[0, torch.cat([j[shown[i]], i[shown[j]]])] = 0  # forbidden beside a hint
    return _free(A, clamp, rule_groups(size))


def _free(A: SparseQubo, clamp: torch.Tensor, groups: Groups) -> SparseQubo:
    """Return the QUBO of the free bits, with penalties in place of groups."""
    (left,) = reduced(A, propagate_clamps(clamp, groups), groups)
    penalized, _ = with_penalties(left.A, left.groups)
    assert isinstance(penalized, SparseQubo)
    return penalized
