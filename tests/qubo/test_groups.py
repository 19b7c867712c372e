"""One-hot groups."""

from __future__ import annotations

import dimod
import pytest
import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.qubo import (
    Groups,
    SparseQubo,
    all_states,
    energies,
    penalty_weights,
    to_cqm,
    with_penalties,
)


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random_groups(n: int, seed: int) -> Groups:
    """Return disjoint groups of 1 to 4 of n bits; some are in none."""
    bits = torch.randperm(n, generator=generator(seed)).tolist()
    members = []
    while len(bits) > 1:
        size = int(torch.randint(1, 5, (), generator=generator(seed + len(bits))))
        members.append(bits[:size])
        bits = bits[size + 1 :]
    return Groups(members)


def kinds(batch: int, n: int, seed: int) -> dict[str, Tensor]:
    """Return six kinds of QUBOs in float64."""
    A = torch.randn(batch, n, n, generator=generator(seed), dtype=torch.float64)
    keep = torch.rand(batch, n, n, generator=generator(seed + 1)) < 0.3
    return {
        "normal": A,
        "integer": (2 * A).round(),
        "zero": 0 * A,
        "diagonal": torch.diag_embed(A[:, 0].round()),
        "non-negative": A.abs().round(),
        "negative": -A.abs(),
        "sparse": A * keep,
        "steep": A * torch.logspace(-3, 3, n, dtype=torch.float64),
    }


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([[0, 1], [1, 2]], "bit 1 is in groups 0 and 1"),
        ([[0], []], "group 1 is empty"),
        ([[0, -1]], "holds bit -1"),
        ([0, 1], r"\[\[?0"),
        ([[0.5]], r"\[\[?0"),
    ],
)
def test_bad_groups_are_rejected(members: list[list[int]], message: str) -> None:
    with pytest.raises(QubolearnError, match=message):
        Groups(members)


def test_groups_beyond_the_qubo_are_rejected() -> None:
    with pytest.raises(QubolearnError, match="bit 7, but the QUBO has n=5"):
        with_penalties(torch.zeros(1, 5, 5), Groups([[0, 7]]))


def test_allowed_states_have_one_bit_of_each_group() -> None:
    groups = Groups([[0, 2], [3]])
    x = all_states(4)
    right = torch.tensor([row[0] + row[2] == 1 and row[3] == 1 for row in x.tolist()])
    assert torch.equal(groups.allowed(x), right)
    assert Groups([]).allowed(x).all()


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", list(kinds(1, 2, 0)))
@pytest.mark.parametrize("sparse", [False, True])
def test_lowest_penalized_states_are_the_lowest_allowed_ones(seed: int, kind: str, sparse: bool) -> None:
    """Against all 2**n states, ties included."""
    n, groups = 3 + seed % 6, random_groups(3 + seed % 6, seed)
    A = kinds(40, n, seed)[kind]
    penalized, offset = with_penalties(SparseQubo.from_dense(A) if sparse else A, groups)
    x = all_states(n, dtype=torch.float64).expand(len(A), -1, -1)
    allowed = groups.allowed(x)
    true, shifted = energies(A, x), energies(penalized, x) + offset[:, None]
    tolerance = 1e-6 * float(A.abs().max() + 1e-9)
    torch.testing.assert_close(shifted[allowed], true[allowed], rtol=1e-9, atol=tolerance)
    best = true.masked_fill(~allowed, float("inf")).amin(1)
    margin = shifted.masked_fill(allowed, float("inf")).amin(1) - best
    assert (margin > 0).all()


def test_weights_are_no_larger_than_they_must_be_by_much() -> None:
    """For x₀ + 5x₁ in one group, clearing never pays."""
    weight = penalty_weights(torch.diag(torch.tensor([1.0, 5.0]))[None], Groups([[0, 1]]))
    assert 1.0 < weight.item() < 1.1


@pytest.mark.parametrize("seed", range(4))
def test_dimod_models_have_the_same_lowest_state(seed: int) -> None:
    n, groups = 7, random_groups(7, seed)
    A = kinds(1, n, seed)["normal"][0]
    x = all_states(n, dtype=torch.float64)
    best = energies(A[None], x[groups.allowed(x)][None]).min().item()
    cqm = dimod.ExactCQMSolver().sample_cqm(to_cqm(A, groups)).filter(lambda row: row.is_feasible).first
    assert cqm.energy == pytest.approx(best)
