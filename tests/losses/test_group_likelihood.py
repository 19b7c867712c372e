"""Pseudo-likelihood of one-hot groups."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from qubolearn import ExhaustiveSearch, Instances, SparseQubo
from qubolearn.errors import QubolearnError
from qubolearn.losses import Batch, GroupPseudoLikelihood, Loss, PersistentContrastive
from qubolearn.qubo import Groups, share

GROUPS = Groups([[0, 3, 4], [5, 1], [6]])  # bits 2 and 7 are in none
COUNT, N = 6, 8


def drawn() -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(0)
    A = torch.randn(COUNT, N, N, generator=g, dtype=torch.float64)
    x = torch.zeros(COUNT, N, dtype=torch.float64)
    x[:, 6], x[:, 2], x[3:, 7] = 1, torch.randint(2, (COUNT,), generator=g).double(), 1
    for group in ([0, 3, 4], [5, 1]):
        x[torch.arange(COUNT), torch.tensor(group)[torch.randint(len(group), (COUNT,), generator=g)]] = 1
    return A, x


def batch_of(x: Tensor, seed: int = 5) -> Batch:
    return Batch(Instances(x, x, x), ExhaustiveSearch(), seed=seed)


def naive(A: Tensor, x: list[float], shown: list[float], beta: float) -> float:
    total = 0.0
    for group in GROUPS.members:

        def energy(one: int, group: tuple[int, ...] = group) -> float:
            state = [
                v * s if i not in group else float(i == one)
                for i, (v, s) in enumerate(zip(x, shown, strict=True))
            ]
            return sum(A[i, j].item() * state[i] * state[j] for i in range(N) for j in range(N))

        weights = {one: math.exp(-beta * energy(one)) for one in group}
        total -= math.log(next(weights[one] for one in group if x[one]) / sum(weights.values()))
    return total


@pytest.mark.parametrize("masking", [0.0, 0.8])
def test_it_equals_naive_loops(masking: float) -> None:
    A, x = drawn()
    loss, batch = GroupPseudoLikelihood(GROUPS, beta=0.7, masking=masking), batch_of(x)
    shown = loss.shown(batch)
    assert bool((shown == 1).all()) == (masking == 0)
    assert (shown[:, [2, 7]] == 1).all()
    assert all(
        torch.equal(shown[:, g], shown[:, g[:1]].expand(-1, len(g))) for g in map(list, GROUPS.members)
    )
    found = loss(A, batch)
    want = [naive(A[i], x[i].tolist(), shown[i].tolist(), 0.7) for i in range(COUNT)]
    assert found.tolist() == pytest.approx(want)
    sparse = SparseQubo.from_dense(A)
    assert loss(sparse, batch).tolist() == pytest.approx(want)


def test_masks_come_from_the_seed_of_the_step() -> None:
    _, x = drawn()
    loss, many = GroupPseudoLikelihood(GROUPS), x.repeat(20, 1)
    state = torch.get_rng_state()
    assert torch.equal(loss.shown(batch_of(many)), loss.shown(batch_of(many)))
    assert not torch.equal(loss.shown(batch_of(many)), loss.shown(batch_of(many, 6)))
    assert torch.equal(torch.get_rng_state(), state)
    assert (2 * loss).draws


def test_mistakes_are_rejected() -> None:
    A, x = drawn()
    with pytest.raises(QubolearnError, match="masking=2"):
        replace(GroupPseudoLikelihood(GROUPS), masking=2.0)
    with pytest.raises(QubolearnError, match="group"):
        GroupPseudoLikelihood(Groups([]))
    x[2, 6] = 0
    with pytest.raises(QubolearnError, match="instance 2"):
        GroupPseudoLikelihood(GROUPS)(A, batch_of(x))


@pytest.mark.parametrize(
    "loss",
    [
        GroupPseudoLikelihood(GROUPS),
        PersistentContrastive(beta=1.0, chains=4, groups=GROUPS),
    ],
    ids=lambda loss: type(loss).__name__,
)
def test_an_expanded_A_has_the_gradient_of_its_copies(loss: Loss) -> None:
    """A view once lost its gradient; ``share`` now declares sharing."""
    _, x = drawn()
    leaf = torch.randn(N, N, generator=torch.Generator().manual_seed(1), dtype=torch.float64).requires_grad_()
    gradients = {}
    for name, A in {
        "copies": leaf.repeat(COUNT, 1, 1),
        "expanded": leaf.expand(COUNT, -1, -1),
        "expanded leaf": leaf.detach().expand(COUNT, -1, -1).requires_grad_(),
        "declared": share(leaf[None], COUNT),
    }.items():
        source = A if A.is_leaf else leaf
        (gradient,) = torch.autograd.grad(loss.begin()(A, batch_of(x)).sum(), source)
        gradients[name] = gradient.sum(0) if gradient.ndim == 3 else gradient
    assert bool(gradients["declared"].abs().sum() > 0)
    for name in ("expanded", "expanded leaf"):
        torch.testing.assert_close(gradients[name], gradients["copies"])
    if not isinstance(loss, PersistentContrastive):  # whose chains are shared with A
        torch.testing.assert_close(gradients["declared"], gradients["copies"])
