"""Bits that can be fixed before a search for one lowest state: roof duality of the free part of a clamped QUBO.

Measured on 3-regular graphs of 512 bits and a Pegasus chip of 680: with up to four couplings a free bit, roof duality
(``dwave-preprocessing``) fixes most or all free bits in less time than annealing takes. With more it fixes next to
none, and takes longer. The first-order rule (a bit whose field has one sign whatever its neighbours are) fixes a tenth
to a half of them.
"""

from __future__ import annotations

from torch import Tensor

from qubolearn.qubo import FREE, Groups, Qubo, SparseQubo, reduced, to_bqm

__all__ = ["with_persistent_bits"]

#: Below so many free bits searching is faster than looking, and above so many couplings a bit there is nothing to find.
LEAST_BITS, MOST_COUPLINGS = 24, 4


def with_persistent_bits(A: Qubo, clamp: Tensor) -> Tensor:
    """The clamp ``[batch, n]`` and the bits that some lowest state of the free part has for sure.

    >>> import torch
    >>> A = torch.diag_embed(torch.linspace(-1, 1, 30))[None]
    >>> with_persistent_bits(A, torch.full((1, 30), -1)).sum().item()
    15
    """
    clamp, free = clamp.clone(), clamp == FREE
    bits = free.sum(1)
    rows = ((bits >= LEAST_BITS) & (_couplings(A, free) <= MOST_COUPLINGS * bits)).nonzero()[:, 0]
    if not len(rows):
        return clamp
    for part in reduced(A[rows.to(A.device)], clamp[rows], Groups(())):
        sparse = part.A if isinstance(part.A, SparseQubo) else SparseQubo.from_dense(part.A)
        for instance, row in enumerate(rows[part.rows].tolist()):
            for bit, value in _roof_duality(sparse[instance]).items():
                clamp[row, part.bits[instance, bit]] = value
    return clamp


def _couplings(A: Qubo, free: Tensor) -> Tensor:
    """How many couplings there are between the free bits of each QUBO: ``[batch]`` on the CPU."""
    if isinstance(A, SparseQubo):
        i, j = A.edges.cpu()
        return ((A.quadratic != 0).cpu() & free[:, i] & free[:, j]).sum(1)
    coupled = ((A != 0) | (A.mT != 0)).triu(1).cpu()
    return (coupled & free[:, :, None] & free[:, None]).sum((1, 2))


def _roof_duality(A: SparseQubo) -> dict[int, int]:
    """Bits and their values in some lowest state of one QUBO."""
    from dwave.preprocessing import roof_duality

    _, fixed = roof_duality(to_bqm(A), strict=False)
    return {int(bit): int(value) for bit, value in fixed.items()}
