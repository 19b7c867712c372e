"""Clamped bits, the bits that follow from them, and the QUBO that remains.

A clamp is int8 ``[batch, n]`` of 0, 1 and :data:`FREE`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.qubo.algebra import energies
from qubolearn.qubo.groups import Groups
from qubolearn.qubo.sparse import Qubo, SparseQubo, check_plain

#: The entry of a bit that is not clamped.
FREE = -1

Clamp: TypeAlias = Tensor | Mapping[int, int]


def as_clamp(clamp: Clamp | None, batch: int, n: int) -> Tensor:
    """Return a clamp of any form as int8 ``[batch, n]`` on the CPU."""
    if clamp is None or isinstance(clamp, Mapping):
        row = torch.full((n,), FREE, dtype=torch.int8)
        for bit, value in (clamp or {}).items():
            if not (isinstance(bit, (int, np.integer)) and 0 <= bit < n):
                raise QubolearnError(f"clamp of bit {bit!r}, but the QUBO has bits 0 to {n - 1}")
            if value not in (0, 1):
                raise QubolearnError(f"clamp of bit {bit} to {value!r}; expected 0 or 1")
            row[bit] = int(value)
        return row.expand(batch, n).clone()
    check_plain("clamp", clamp)
    if list(clamp.shape) not in ([n], [1, n], [batch, n]):
        raise QubolearnError(f"clamp is {list(clamp.shape)}; expected [{batch}, {n}], or [{n}] for all")
    rows = clamp.detach().cpu().reshape(-1, n)
    if wrong := (~torch.isin(rows, torch.tensor([0, 1, FREE]))).nonzero().tolist():
        entry = rows[tuple(wrong[0])].item()
        raise QubolearnError(f"clamp{wrong[0]} is {entry}; expected 0, 1, or {FREE} for a free bit")
    return rows.to(torch.int8).expand(batch, n).clone()


def propagate_clamps(clamp: Tensor, groups: Groups) -> Tensor:
    """Return the clamp with the bits that groups imply, 0 or 1."""
    if not len(groups):
        return clamp
    number = groups.of_bits(clamp.shape[1])
    inside = number >= 0
    ones, free = (_per_group(clamp[:, inside] == value, number[inside], len(groups)) for value in (1, FREE))
    for wrong, what in ((ones > 1, "sets more than one bit of"), (ones + free == 0, "sets all bits to 0 of")):
        if bool(wrong.any()):
            row, group = wrong.nonzero()[0].tolist()
            bits = f"group {group}, bits {list(groups.members[group])}"
            raise QubolearnError(f"the clamp of instance {row} {what} {bits}; set exactly one")
    filled, single = ones[:, number] == 1, free[:, number] == 1
    open_ = (clamp == FREE) & inside
    clamp = torch.where(open_ & filled, 0, clamp)
    return torch.where(open_ & ~filled & single, 1, clamp).to(torch.int8)


def allowed_bits(clamp: Tensor, groups: Groups) -> Tensor:
    """Return log2 of the number of allowed states: float64 ``[batch]``."""
    free = clamp == FREE
    bits = free[:, groups.of_bits(clamp.shape[1]) < 0].sum(1).double()
    for group in groups.members:
        bits += free[:, list(group)].sum(1).clamp_min(1).double().log2()
    return bits


def _per_group(chosen: Tensor, number: Tensor, groups: int) -> Tensor:
    """Count the chosen bits ``[batch, bits]`` of each group."""
    return torch.zeros(len(chosen), groups, dtype=torch.int64).index_add(1, number, chosen.long())


@dataclass(frozen=True, eq=False)
class Reduced:
    """QUBOs without clamped bits; all have f free bits in equal groups."""

    rows: Tensor  # [b]: their places in the batch
    bits: Tensor  # [b, f]: the free bits of each
    clamped: Tensor  # [b, n]: the values of the clamped bits, 0 if free
    A: Qubo  # [b, f, f], float64
    offset: Tensor  # [b], float64: to be added to energies of A
    groups: Groups  # among the f bits

    def expand(self, states: Tensor) -> Tensor:
        """Return states of all bits from those of the free ones ``[b, c, f]``."""
        b, c, f = states.shape
        whole = self.clamped.to(states)[:, None].expand(b, c, -1).clone()
        return whole.scatter(2, self.bits.to(states.device)[:, None].expand(b, c, f), states)


def reduced(A: Qubo, clamp: Tensor, groups: Groups) -> list[Reduced]:
    """Return the batch without its clamped bits in float64, in parts of equal shape.

    Bits are in order of the sizes of their groups, those in no group last.
    """
    free, number = clamp == FREE, groups.of_bits(clamp.shape[1])
    inside = number >= 0
    sizes, order = _per_group(free[:, inside], number[inside], len(groups)).sort(dim=1, stable=True)
    rank = torch.nn.functional.pad(order.argsort(1), (0, 1), value=len(groups))  # -1 is last
    order = rank[:, number].argsort(dim=1, stable=True)
    shapes = free if isinstance(A, SparseQubo) else torch.cat([sizes, free.sum(1, keepdim=True)], 1)
    kinds, kind = torch.unique(shapes, dim=0, return_inverse=True)
    return [_part(A, clamp, order, number, (kind == k).nonzero()[:, 0]) for k in range(len(kinds))]


def _part(A: Qubo, clamp: Tensor, order: Tensor, number: Tensor, rows: Tensor) -> Reduced:
    order, clamp = order[rows], clamp[rows]
    free = clamp.gather(1, order) == FREE
    bits = order[free].reshape(len(rows), -1)
    known = clamp.clamp_min(0)
    members: dict[int, list[int]] = {}
    for place, group in enumerate(number[bits[0]].tolist()):
        members.setdefault(group, []).append(place)
    members.pop(-1, None)
    some = A[rows.to(A.device)]
    offset = energies(some.to(torch.float64), known.to(A.device))
    small = _free_part(some, bits.to(A.device), known.to(A.device))
    return Reduced(rows, bits, known, small, offset, Groups(members.values()))


def _free_part(A: Qubo, bits: Tensor, known: Tensor) -> Qubo:
    """Return A ``[b, f, f]`` of bits ``[b, f]``; known bits become linear terms."""
    A, (b, f) = A.to(torch.float64), bits.shape
    if f == 0:
        return torch.zeros(b, 0, 0, dtype=A.dtype, device=A.device)
    ones = known.to(A.dtype)
    if not isinstance(A, SparseQubo):
        rows = A.gather(1, bits[:, :, None].expand(b, f, A.shape[2]))
        inner = rows.gather(2, bits[:, None].expand(b, f, f))
        fields = (ones[:, None] @ (A + A.mT))[:, 0].gather(1, bits)
        return inner + torch.diag_embed(fields)
    place = torch.full((A.n,), -1, device=A.device)
    place[bits[0]] = torch.arange(f, device=A.device)  # the same bits in all rows
    i, j = A.edges
    linear = A.linear.index_add(1, i, A.quadratic * ones[:, j]).index_add(1, j, A.quadratic * ones[:, i])
    inside = (place[A.edges] >= 0).all(0)
    edges = place[A.edges[:, inside]].sort(0).values
    return SparseQubo(linear[:, bits[0]], edges, A.quadratic[:, inside])
