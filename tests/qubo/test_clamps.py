"""Clamped bits."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.qubo import FREE, Groups, SparseQubo, all_states, as_clamp, energies, propagate_clamps, reduced


def test_all_forms_of_a_clamp() -> None:
    row = [FREE, 1, 0]
    for form in ({1: 1, 2: 0}, torch.tensor(row), torch.tensor([row, row]), torch.tensor([row]).double()):
        clamp = as_clamp(form, 2, 3)
        assert clamp.dtype == torch.int8
        assert clamp.tolist() == [row, row]
    assert as_clamp(None, 2, 3).tolist() == [[FREE] * 3] * 2


@pytest.mark.parametrize(
    ("clamp", "message"),
    [
        ({5: 1}, "bit 5, but the QUBO has bits 0 to 2"),
        ({"a": 1}, "bit 'a'"),
        ({0: 2}, "bit 0 to 2"),
        (torch.tensor([0, 1]), r"\[2\]"),
        (torch.zeros(3, 3), r"clamp is \[3, 3\]"),
        (torch.tensor([0, 1, 2]), r"clamp\[0, 2\] is 2"),
        ([0, 1, 1], "got list"),
    ],
)
def test_bad_clamps_are_rejected(clamp: object, message: str) -> None:
    with pytest.raises(QubolearnError, match=message):
        as_clamp(clamp, 2, 3)  # type: ignore[arg-type]


def test_groups_force_bits() -> None:
    groups = Groups([[0, 1, 2], [4, 3]])
    rows = torch.tensor(
        [[1, -1, -1, -1, -1, -1], [0, -1, 0, -1, 1, 1], [-1, 0, -1, -1, 0, -1]], dtype=torch.int8
    )
    want = [[1, 0, 0, -1, -1, -1], [0, 1, 0, 0, 1, 1], [-1, 0, -1, 1, 0, -1]]
    assert propagate_clamps(rows, groups).tolist() == want
    assert propagate_clamps(rows, Groups([[5]])).tolist()[0][5] == 1  # a group of one bit
    assert torch.equal(propagate_clamps(rows, Groups([])), rows)


@pytest.mark.parametrize(
    ("clamp", "message"),
    [({0: 1, 2: 1}, "instance 0 sets more than one"), ({0: 0, 1: 0, 2: 0}, "all bits to 0 of group")],
)
def test_a_clamp_that_breaks_a_group_is_rejected(clamp: dict[int, int], message: str) -> None:
    with pytest.raises(QubolearnError, match=message):
        propagate_clamps(as_clamp(clamp, 2, 4), Groups([[0, 1, 2]]))


def random_clamp(batch: int, n: int, seed: int, share: float) -> Tensor:
    g = torch.Generator().manual_seed(seed)
    bits = torch.randint(0, 2, (batch, n), generator=g)
    return torch.where(torch.rand(batch, n, generator=g) < share, bits, FREE).to(torch.int8)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("groups", [Groups([]), Groups([[5, 1], [0, 3, 2]])])
def test_energies_of_the_reduced_qubo_are_those_of_the_whole(
    sparse: bool, share: float, groups: Groups
) -> None:
    batch, n = 30, 7
    A = torch.randn(batch, n, n, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    if len(groups):
        clamp = as_clamp(None, batch, n)
        clamp[::3, 1] = 1
        clamp[1::3, 0] = 0
        clamp[2::3, 6] = 1
        if share == 1.0:
            clamp[:] = torch.tensor([0, 1, 1, 0, 0, 0, 1])
    else:
        clamp = random_clamp(batch, n, 3, share)
    clamp = propagate_clamps(clamp, groups)
    seen = []
    for part in reduced(SparseQubo.from_dense(A) if sparse else A, clamp, groups):
        f = part.A.shape[2]
        assert part.bits.shape == (len(part.rows), f)
        states = all_states(f, dtype=torch.float64).expand(len(part.rows), -1, -1)
        whole = part.expand(states)
        small = energies(part.A, states) + part.offset[:, None] if f else part.offset[:, None]
        torch.testing.assert_close(small, energies(A[part.rows], whole))
        known = clamp[part.rows][:, None].expand_as(whole)
        assert (whole[known >= 0] == known[known >= 0]).all()
        assert torch.equal(part.groups.allowed(states), groups.allowed(whole))
        seen += part.rows.tolist()
    assert sorted(seen) == list(range(batch))


def test_instances_that_clamp_equally_many_bits_stay_together() -> None:
    clamp = torch.full((8, 8), FREE, dtype=torch.int8)
    clamp[torch.arange(8), torch.arange(8)] = 1
    assert len(reduced(torch.randn(8, 8, 8), clamp, Groups([]))) == 1
