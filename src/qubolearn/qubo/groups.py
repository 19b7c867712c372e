"""One-hot groups: sets of bits of which exactly one is 1, and the penalties that say so to a solver without groups."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.qubo.interchange import one_qubo, to_bqm
from qubolearn.qubo.sparse import Qubo, SparseQubo
from qubolearn.typed import check_counts

if TYPE_CHECKING:
    import dimod

__all__ = [
    "Groups",
    "as_groups",
    "penalised_bqm",
    "penalty_weights",
    "to_cqm",
    "to_dqm",
    "with_penalties",
    "without_pairs",
]

#: By how much a penalty weight exceeds the least upper bound, as a share of it, and at least of the largest |A_ij|.
MARGIN, LEAST_MARGIN = 0.01, 1e-3


@dataclass(frozen=True)
class Groups:
    """Disjoint groups of bits; in an allowed state exactly one bit of each group is 1. Other bits are free.

    Args:
        members: the bits of each group, numbered from 0. Empty groups and bits in two groups are refused.

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
            raise QubolearnError(f"groups {members!r}; want lists of bits, as in [[0, 1, 2], [4, 5]]") from None
        object.__setattr__(self, "members", plain)
        home: dict[int, int] = {}
        for number, group in enumerate(plain):
            if not group:
                raise QubolearnError(f"group {number} is empty, so that none of its bits can be 1; leave it out")
            for bit in group:
                if bit < 0:
                    raise QubolearnError(f"group {number} holds bit {bit}; bits are numbered from 0")
                if bit in home:
                    raise QubolearnError(f"bit {bit} is in group {home[bit]} and in group {number}; want it in one")
                home[bit] = number

    @classmethod
    def consecutive(cls, count: int, size: int) -> Groups:
        """Groups of equal size, one after the other: bits 0 ... size-1, then size ... 2 size - 1, and so on."""
        check_counts(count=count or 1, size=size)  # no group at all is fine
        return cls(range(first, first + size) for first in range(0, count * size, size))

    def __len__(self) -> int:
        return len(self.members)

    def check(self, n: int) -> None:
        """Raise unless all bits are below n."""
        largest = max((max(group) for group in self.members), default=-1)
        if largest >= n:
            raise QubolearnError(f"a group holds bit {largest}, but the QUBO has n={n} bits; want at most {n - 1}")

    def of_bits(self, n: int) -> Tensor:
        """The number of each bit's group, -1 where it is in none: int64 ``[n]``."""
        self.check(n)
        number = torch.full((n,), -1)
        for index, group in enumerate(self.members):
            number[list(group)] = index
        return number

    def pairs(self) -> tuple[Tensor, Tensor]:
        """All pairs i < j of bits of one group as edges ``[2, pairs]``, and their groups ``[pairs]``."""
        found = [(*sorted(pair), g) for g, group in enumerate(self.members) for pair in combinations(group, 2)]
        table = torch.tensor(found, dtype=torch.int64).reshape(-1, 3)
        return table[:, :2].T, table[:, 2]

    def allowed(self, x: Tensor) -> Tensor:
        """Whether exactly one bit of every group is 1 in states x ``[..., n]``: bool ``[...]``."""
        self.check(x.shape[-1])
        ones = [x[..., list(group)].sum(-1) == 1 for group in self.members]
        return torch.stack(ones, -1).all(-1) if ones else torch.ones(x.shape[:-1], dtype=torch.bool, device=x.device)


def as_groups(groups: Groups | None) -> Groups:
    """The groups, none where there are none; lists are refused, since their bits were not checked."""
    if groups is None:
        return Groups(())
    if not isinstance(groups, Groups):
        raise QubolearnError(f"groups must be Groups, got {type(groups).__name__}; write Groups([[0, 1, 2], [4, 5]])")
    return groups


def with_penalties(A: Qubo, groups: Groups) -> tuple[Qubo, Tensor]:
    """QUBOs whose lowest states are the lowest allowed states of A, and the offset ``[batch]`` to add to energies.

    Σ_g P_g (Σ_{i in g} x_i - 1)² with :func:`penalty_weights` is added, and couplings within a group, which no
    allowed state feels, become 0. Allowed states keep their energies. A is ``[batch, n, n]`` or sparse.

    >>> A, offset = with_penalties(torch.tensor([[[-1.0, 0.0], [0.0, -3.0]]]), Groups([[0, 1]]))
    >>> round(float(A[0, 1, 1] + offset[0]), 4)  # the energy of x = (0, 1)
    -3.0
    """
    weights = penalty_weights(A, groups).to(A.device, A.dtype)
    number = groups.of_bits(A.shape[2]).to(A.device)
    linear = torch.nn.functional.pad(weights, (0, 1))[:, number]  # number -1 is in no group
    edges, group = (part.to(A.device) for part in groups.pairs())
    if isinstance(A, SparseQubo):
        between = _between(A, number)
        couplings = torch.cat([A.quadratic[:, between], 2 * weights[:, group]], 1)
        penalised: Qubo = SparseQubo(A.linear - linear, torch.cat([A.edges[:, between], edges], 1), couplings)
    else:
        penalised = A - torch.diag_embed(linear)
        penalised[:, edges[0], edges[1]] = penalised[:, edges[1], edges[0]] = weights[:, group]
    return penalised, weights.sum(1)


def without_pairs(A: Qubo, groups: Groups) -> Qubo:
    """A, ``[batch, n, n]`` or sparse, without couplings within a group: no allowed state feels them."""
    if isinstance(A, SparseQubo):
        between = _between(A, groups.of_bits(A.n).to(A.device))
        return A.with_values(A.linear, A.quadratic * between)
    (i, j), A = groups.pairs()[0].to(A.device), A.clone()
    A[:, i, j] = A[:, j, i] = 0
    return A


def penalty_weights(A: Qubo, groups: Groups) -> Tensor:
    """Weights ``[batch, groups]``, float64, of penalties under which every lowest state is allowed.

    Let f_i(x) = A_ii + Σ_j (A_ij + A_ji) x_j be what setting bit i adds to the energy, where j runs over the bits of
    other groups. It lies between low_i = A_ii + Σ_j min(0, A_ij + A_ji) and high_i = A_ii + Σ_j max(0, A_ij + A_ji),
    whatever the other bits are. Take a state in which s bits of group g are 1.

    - s = 0: setting the bit of g with the least high_i adds at most min high_i and saves P.
    - s >= 2: one of the set bits does not have the largest -low_i in g. Clearing it adds at most the second largest
      -low_i and saves ((s - 1)² - (s - 2)²) P >= P.

    So with P above both bounds each such step lowers the energy. Steps in one group leave the others' sums alone, so
    finitely many lead to an allowed state that is strictly lower: no lowest state is forbidden.
    """
    low, high, largest = _field_bounds(A, groups.of_bits(A.shape[2]).to(A.device))
    weights = []
    for group in groups.members:
        bound = high[:, list(group)].amin(1)
        if len(group) > 1:
            bound = torch.maximum(bound, -low[:, list(group)].topk(2, largest=False).values[:, 1])
        weights.append(bound.clamp_min(0) + torch.maximum(MARGIN * bound, LEAST_MARGIN * largest))
    return torch.stack(weights, 1) if weights else low.new_zeros(len(low), 0)


def _field_bounds(A: Qubo, number: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """low_i and high_i ``[batch, n]`` of :func:`penalty_weights`, and the largest entry ``[batch]`` of A, 1 where 0."""
    if isinstance(A, SparseQubo):
        linear, between = A.linear.detach().double(), _between(A, number)
        (i, j), couplings = A.edges[:, between], A.quadratic.detach().double()[:, between]
        least, most = couplings.clamp(max=0), couplings.clamp(min=0)
        low, high = (linear.index_add(1, i, part).index_add(1, j, part) for part in (least, most))
        largest = torch.cat([linear, couplings], 1).abs().amax(1)
    else:
        dense = A.detach().double()
        linear = dense.diagonal(dim1=1, dim2=2)
        couplings = dense + dense.mT
        together = (number[:, None] == number) & (number >= 0)
        couplings = couplings.masked_fill(together | torch.eye(len(number), dtype=torch.bool, device=A.device), 0.0)
        low, high = linear + couplings.clamp(max=0).sum(2), linear + couplings.clamp(min=0).sum(2)
        largest = dense.abs().amax((1, 2))
    return low, high, torch.where(largest > 0, largest, 1.0)


def _between(A: SparseQubo, number: Tensor) -> Tensor:
    """Which edges ``[m]`` do not join two bits of one group."""
    i, j = number[A.edges]
    inside: Tensor = (i == j) & (i >= 0)
    return ~inside


def penalised_bqm(A: Qubo, groups: Groups) -> dimod.BinaryQuadraticModel:
    """One QUBO, ``[n, n]`` or a sparse batch of one, with its groups as a dimod model with penalties.

    Energies of allowed states are those of A.

    >>> A = torch.tensor([[-1.0, 0.0], [0.0, -3.0]])
    >>> round(float(penalised_bqm(A, Groups([[0, 1]])).energy({0: 0, 1: 1})), 6)
    -3.0
    """
    penalised, offset = with_penalties(one_qubo(A).to(torch.float64), as_groups(groups))
    model = to_bqm(penalised if isinstance(penalised, SparseQubo) else penalised[0])
    model.offset += offset.item()
    return model


def to_cqm(A: Qubo, groups: Groups) -> dimod.ConstrainedQuadraticModel:
    """One QUBO and its groups as a constrained model of dimod, whose variables are the bits.

    Args:
        A: ``[n, n]``, or a sparse batch of one.
        groups: each becomes a discrete constraint.

    Returns:
        The model; its objective is xᵀAx.

    Raises:
        QubolearnError: where A is a batch of several, or a group has a bit beyond n.

    >>> len(to_cqm(torch.zeros(5, 5), Groups([[0, 1, 2], [3, 4]])).discrete)
    2
    """
    import dimod

    groups, objective = as_groups(groups), to_bqm(A)
    groups.check(objective.num_variables)
    model = dimod.ConstrainedQuadraticModel()  # type: ignore[no-untyped-call]
    model.set_objective(objective)
    for number, group in enumerate(groups.members):
        if len(group) > 1:
            model.add_discrete(list(group), label=f"group {number}")
        else:  # dimod wants at least two cases of a discrete constraint
            model.add_constraint_from_iterable([(group[0], 1)], "==", 1, label=f"group {number}")
    return model


def to_dqm(A: Qubo, groups: Groups) -> dimod.DiscreteQuadraticModel:
    """One QUBO and its groups as a discrete model of dimod.

    Args:
        A: ``[n, n]``, or a sparse batch of one.
        groups: sets of bits of which exactly one is 1.

    Returns:
        The model. Each group is a variable named after its first bit, whose case k is the group's k-th bit. Each other
        bit is a variable of its own with the cases 0 and 1.

    Raises:
        QubolearnError: where A is a batch of several, or a group has a bit beyond n.

    >>> model = to_dqm(torch.zeros(4, 4), Groups([[0, 1, 2]]))
    >>> [(name, model.num_cases(name)) for name in model.variables]
    [(0, 3), (3, 2)]
    """
    import dimod

    groups, bqm = as_groups(groups), cast(Any, to_bqm(A))
    n = bqm.num_variables
    groups.check(n)
    new: Any = dimod.DiscreteQuadraticModel
    model = new()
    case = {bit: (group[0], k) for group in groups.members for k, bit in enumerate(group)}
    sizes = {group[0]: len(group) for group in groups.members}
    for bit in range(n):
        if case.setdefault(bit, (bit, 1))[0] == bit:
            model.add_variable(sizes.get(bit, 2), label=bit)
    for bit, bias in bqm.iter_linear():
        model.set_linear_case(*case[bit], bias)
    for i, j, bias in bqm.iter_quadratic():
        if case[i][0] != case[j][0]:
            model.set_quadratic_case(*case[i], *case[j], bias)
    made: dimod.DiscreteQuadraticModel = model
    return made
