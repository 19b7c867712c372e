"""One-hot groups: sets of bits of which exactly one is 1, and their penalties."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from qubolearn.errors import QubolearnError, check_counts
from qubolearn.qubo.interchange import to_bqm
from qubolearn.qubo.sparse import Qubo, SparseQubo

if TYPE_CHECKING:
    import dimod

    from qubolearn.qubo.constraints import LinearConstraint

#: The excess of a penalty weight: shares of its bound and of the largest |A_ij|.
MARGIN, MIN_MARGIN = 0.01, 1e-3


@dataclass(frozen=True)
class Groups:
    """Disjoint groups of bits; in each group exactly one bit is 1. Other bits are free.

    Args:
        members: the bits of each group, numbered from 0.

    >>> Groups([[0, 1, 2], [4, 5]])
    Groups(members=((0, 1, 2), (4, 5)))
    >>> Groups.consecutive(2, 3)
    Groups(members=((0, 1, 2), (3, 4, 5)))
    """

    members: tuple[tuple[int, ...], ...]

    def __init__(self, members: Iterable[Iterable[int]]) -> None:
        try:
            plain = tuple(tuple(operator.index(bit) for bit in group) for group in members)
        except TypeError:
            example = "expected lists of bits, as in [[0, 1, 2], [4, 5]]"
            raise QubolearnError(f"{example}, got {members!r}") from None
        object.__setattr__(self, "members", plain)
        home: dict[int, int] = {}
        for number, group in enumerate(plain):
            if not group:
                raise QubolearnError(f"group {number} is empty; leave it out")
            for bit in group:
                if bit < 0:
                    raise QubolearnError(f"group {number} holds bit {bit}; bits are numbered from 0")
                if bit in home:
                    raise QubolearnError(f"bit {bit} is in groups {home[bit]} and {number}; keep it in one")
                home[bit] = number

    @classmethod
    def consecutive(cls, count: int, size: int) -> Groups:
        """Return groups of equal size: bits 0 to size - 1, and so on."""
        check_counts(count=count or 1, size=size)  # no group at all is fine
        return cls(range(first, first + size) for first in range(0, count * size, size))

    def __len__(self) -> int:
        return len(self.members)

    def check(self, n: int) -> None:
        largest = max((max(group) for group in self.members), default=-1)
        if largest >= n:
            raise QubolearnError(f"a group holds bit {largest}, but the QUBO has n={n} bits")

    def of_bits(self, n: int) -> Tensor:
        """Return the number of each bit's group, -1 for none: int64 ``[n]``."""
        self.check(n)
        number = torch.full((n,), -1)
        for index, group in enumerate(self.members):
            number[list(group)] = index
        return number

    def pairs(self) -> tuple[Tensor, Tensor]:
        """Return all pairs of bits of one group ``[2, pairs]``, and their groups."""
        found = [(*pair, g) for g, bits in enumerate(self.members) for pair in combinations(sorted(bits), 2)]
        table = torch.tensor(found, dtype=torch.int64).reshape(-1, 3)
        return table[:, :2].T, table[:, 2]

    def allowed(self, x: Tensor) -> Tensor:
        """Return which states ``[..., n]`` have exactly one bit of every group."""
        self.check(x.shape[-1])
        allowed = torch.ones(x.shape[:-1], dtype=torch.bool, device=x.device)
        for group in self.members:
            allowed &= x[..., list(group)].sum(-1) == 1
        return allowed


def as_groups(groups: Groups | None) -> Groups:
    """Return the groups, no groups for None; raise for lists."""
    if groups is None:
        return Groups(())
    if not isinstance(groups, Groups):
        raise QubolearnError(f"expected Groups, got {type(groups).__name__}; pass Groups([[0, 1], [4, 5]])")
    return groups


def with_penalties(A: Qubo, groups: Groups) -> tuple[Qubo, Tensor]:
    """Return QUBOs whose lowest states are the lowest allowed ones of A, and the offset.

    Adds Σ_g P_g (Σ_{i in g} x_i - 1)² with :func:`penalty_weights`; couplings within a group become
    0. Allowed states keep their energies.
    """
    weights = penalty_weights(A, groups).to(A.device, A.dtype)
    number = groups.of_bits(A.shape[2]).to(A.device)
    linear = torch.nn.functional.pad(weights, (0, 1))[:, number]  # -1: not in a group
    edges, group = (part.to(A.device) for part in groups.pairs())
    if isinstance(A, SparseQubo):
        between = _between(A, number)
        couplings = torch.cat([A.quadratic[:, between], 2 * weights[:, group]], 1)
        penalized: Qubo = SparseQubo(A.linear - linear, torch.cat([A.edges[:, between], edges], 1), couplings)
    else:
        penalized = A - torch.diag_embed(linear)
        penalized[:, edges[0], edges[1]] = penalized[:, edges[1], edges[0]] = weights[:, group]
    return penalized, weights.sum(1)


def penalty_weights(A: Qubo, groups: Groups) -> Tensor:
    """Return weights ``[batch, groups]``, float64, under which every lowest state is allowed.

    Setting bit i adds between low_i = A_ii + Σ_j min(0, A_ij + A_ji) and high_i = A_ii + Σ_j max(0,
    A_ij + A_ji), where j runs over other groups. In a state with s bits of group g: if s = 0,
    setting the bit with the least high_i adds at most that and saves P. If s >= 2, clearing one
    that does not have the largest -low_i adds at most the second largest and saves at least P. So P
    above both bounds leads to an allowed state.
    """
    low, high, largest = _field_bounds(A, groups.of_bits(A.shape[2]).to(A.device))
    weights = []
    for group in groups.members:
        bound = high[:, list(group)].amin(1)
        if len(group) > 1:
            bound = torch.maximum(bound, -low[:, list(group)].topk(2, largest=False).values[:, 1])
        weights.append(bound.clamp_min(0) + torch.maximum(MARGIN * bound, MIN_MARGIN * largest))
    return torch.stack(weights, 1) if weights else low.new_zeros(len(low), 0)


def _field_bounds(A: Qubo, number: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return low_i and high_i of :func:`penalty_weights`, and the largest entry, 1 for 0."""
    if isinstance(A, SparseQubo):
        linear, between = A.linear.detach().double(), _between(A, number)
        (i, j), couplings = A.edges[:, between], A.quadratic.detach().double()[:, between]
        least, most = couplings.clamp(max=0), couplings.clamp(min=0)
        low, high = (linear.index_add(1, i, part).index_add(1, j, part) for part in (least, most))
        largest = torch.cat([linear, couplings], 1).abs().amax(1)
    else:
        dense = A.detach().double()
        linear = dense.diagonal(dim1=1, dim2=2)
        own = torch.arange(len(number), device=A.device)
        home = torch.where(number < 0, len(number) + own, number)  # else its own
        couplings = (dense + dense.mT).masked_fill(home[:, None] == home, 0.0)
        low, high = linear + couplings.clamp(max=0).sum(2), linear + couplings.clamp(min=0).sum(2)
        largest = dense.abs().amax((1, 2))
    return low, high, torch.where(largest > 0, largest, 1.0)


def _between(A: SparseQubo, number: Tensor) -> Tensor:
    ends = number[A.edges]
    return (ends[0] != ends[1]) | (ends[0] < 0)


def to_cqm(
    A: Qubo, groups: Groups | None = None, constraints: Sequence[LinearConstraint] = ()
) -> dimod.ConstrainedQuadraticModel:
    """Return one QUBO with its groups and inequalities as a constrained model of dimod."""
    import dimod

    groups, objective = as_groups(groups), to_bqm(A)
    groups.check(objective.num_variables)
    model = dimod.ConstrainedQuadraticModel()  # type: ignore[no-untyped-call]
    model.set_objective(objective)
    for number, group in enumerate(groups.members):
        if len(group) > 1:
            model.add_discrete(list(group), label=f"group {number}")
        else:  # dimod requires two cases of a discrete constraint
            model.add_constraint_from_iterable([(group[0], 1)], "==", 1, label=f"group {number}")
    for number, constraint in enumerate(constraints):
        (a,), (b,) = constraint.arrays(1, objective.num_variables)
        terms = [(bit, value) for bit, value in enumerate(a.tolist()) if value]
        model.add_constraint_from_iterable(terms, "<=", b, label=f"constraint {number}")
    return model
