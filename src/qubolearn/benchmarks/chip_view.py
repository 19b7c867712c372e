"""What a learned QUBO costs on a chip: bits, couplers, physical qubits and chains, for all problems alike."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from qubolearn.chips.embedding import DoesNotFit, embed_report
from qubolearn.chips.topologies import Topology
from qubolearn.errors import QubolearnError
from qubolearn.qubo import Qubo, SparseQubo

__all__ = ["chip_view"]


def chip_view(A: Qubo, chip: str = "pegasus", size: int | None = None) -> dict[str, Any] | None:
    """What one QUBO needs on a chip without defects; a coupling that is not 0 is a coupler.

    Args:
        A: ``[n, n]``, or a batch of one, dense or sparse.
        chip: chimera, pegasus or zephyr.
        size: of the chip; by default the largest that was built.

    Returns:
        ``bits``, ``couplers``, ``chip``, and where it ``fits`` also ``qubits``, ``mean_chain``, ``longest_chain`` and
        ``per_anneal``, how many instances the chip holds at once; these are None where no embedding was found.
        None without minorminer (pip install 'qubolearn[dwave]'): a long benchmark should not fail of it at its end.

    >>> import torch
    >>> chip_view(torch.ones(4, 4))["couplers"]
    6
    """
    pattern = _pattern(A)
    if find_spec("minorminer") is None:
        return None
    view: dict[str, Any] = {"bits": pattern.n, "couplers": len(pattern.couplers), "chip": chip}
    try:
        report = embed_report(pattern, chip, size)
    except DoesNotFit:
        return {**view, "fits": False, "qubits": None, "mean_chain": None, "longest_chain": None, "per_anneal": 0}
    return {
        **view,
        "fits": True,
        "qubits": report.physical_qubits,
        "mean_chain": report.chain_mean,
        "longest_chain": report.chain_max,
        "per_anneal": report.instances_per_anneal,
    }


def _pattern(A: Qubo) -> Topology:
    if isinstance(A, SparseQubo):
        there = (A.quadratic != 0).any(0)
        pairs = A.edges[:, there].sort(0).values
    else:
        if A.numel() != A.shape[-1] ** 2:
            raise QubolearnError(f"A has shape {list(A.shape)}; want one QUBO, [n, n]")
        one = A.detach().reshape(A.shape[-2:])
        pairs = (one + one.T).triu(1).nonzero().T
    return Topology("learned", A.shape[-1], tuple(sorted((int(i), int(j)) for i, j in pairs.T)))
