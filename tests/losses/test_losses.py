"""Every loss against naive loops over all states, and its gradient against finite differences."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from qubolearn.losses import equations as losses
from qubolearn.qubo import all_states
from qubolearn.solvers import ExhaustiveSearch

N, BATCH = 4, 5


@pytest.fixture
def A() -> Tensor:
    return torch.randn(BATCH, N, N, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.fixture
def x_true() -> Tensor:
    return torch.randint(0, 2, (BATCH, N), generator=torch.Generator().manual_seed(1)).double()


def energy(A: Tensor, x: Tensor) -> float:
    return sum(A[i, j].item() * x[i].item() * x[j].item() for i in range(N) for j in range(N))


def ranked(A: Tensor) -> list[Tensor]:
    """All states of one QUBO, best first."""
    return sorted(all_states(N, dtype=torch.float64), key=lambda x: energy(A, x))


def flip(x: Tensor, i: int) -> Tensor:
    y = x.clone()
    y[i] = 1 - y[i]
    return y


def hamming(x: Tensor, y: Tensor) -> int:
    return int((x != y).sum())


def best_two(A: Tensor) -> tuple[Tensor, Tensor]:
    x_star, x_plus = ExhaustiveSearch()(A, 2).states.unbind(1)
    return x_star, x_plus


NAIVE: dict[str, Callable[[Tensor, Tensor], float]] = {
    "gap": lambda A, x: energy(A, x) - energy(A, ranked(A)[0]),
    "unique": lambda A, x: -abs(energy(A, x) - energy(A, ranked(A)[1])),
    "hinge": lambda A, x: max(0.0, 0.7 + energy(A, x) - min(energy(A, y) for y in ranked(A) if hamming(x, y))),
    "hamming": lambda A, x: max(0.7 * hamming(x, y) + energy(A, x) - energy(A, y) for y in ranked(A)),
    "pseudo": lambda A, x: sum(math.log1p(math.exp(-1.3 * (energy(A, flip(x, i)) - energy(A, x)))) for i in range(N)),
    "nll": lambda A, x: 1.3 * energy(A, x) + math.log(sum(math.exp(-1.3 * energy(A, y)) for y in ranked(A))),
}

OURS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "gap": lambda A, x: losses.gap_loss(A, x, best_two(A)[0]),
    "unique": lambda A, x: losses.unique_loss(A, x, best_two(A)[1]),
    "hinge": lambda A, x: losses.hinge_loss(A, x, *best_two(A), margin=0.7),
    "hamming": lambda A, x: losses.hamming_hinge_loss(A, x, best_two(losses.hamming_augmented(A, x, 0.7))[0], 0.7),
    "pseudo": lambda A, x: losses.pseudo_loss(A, x, beta=1.3),
    "nll": lambda A, x: losses.nll_loss(A, x, beta=1.3),
}


@pytest.mark.parametrize("name", OURS)
def test_loss_equals_naive_loops(name: str, A: Tensor, x_true: Tensor) -> None:
    found = OURS[name](A, x_true)
    assert found.shape == (BATCH,)
    for i in range(BATCH):
        assert found[i].item() == pytest.approx(NAIVE[name](A[i], x_true[i]), abs=1e-9)


@pytest.mark.parametrize("name", OURS)
def test_gradient_equals_finite_differences(name: str, A: Tensor, x_true: Tensor) -> None:
    leaf = A.clone().requires_grad_()
    OURS[name](leaf, x_true).sum().backward()
    assert leaf.grad is not None
    step = 1e-5
    for i, j in [(0, 0), (0, 2), (2, 0), (3, 1)]:
        up, down = A.clone(), A.clone()
        up[:, i, j] += step
        down[:, i, j] -= step
        slope = (OURS[name](up, x_true) - OURS[name](down, x_true)) / (2 * step)
        torch.testing.assert_close(leaf.grad[:, i, j], slope, atol=1e-6, rtol=1e-5)


def test_gap_gradient_of_free_entries_has_no_factor_two(A: Tensor, x_true: Tensor) -> None:
    leaf = A.clone().requires_grad_()
    x_star = best_two(A)[0]
    losses.gap_loss(leaf, x_true, x_star).sum().backward()
    want = x_true[:, :, None] * x_true[:, None] - x_star[:, :, None] * x_star[:, None]
    torch.testing.assert_close(leaf.grad, want)


def test_unique_as_printed_pushes_a_wrong_solution_up() -> None:
    A = torch.tensor([[[1.0, 0.0], [0.0, 2.0]]], requires_grad=True)
    x_true = torch.tensor([[0.0, 1.0]])  # E = 2, above the two best states
    losses.unique_loss(A, x_true, best_two(A)[1]).sum().backward()
    assert A.grad is not None
    assert A.grad[0, 1, 1] < 0  # descending raises the energy of the solution


def test_soft_targets_are_cross_entropy_and_reduce_to_nll(A: Tensor, x_true: Tensor) -> None:
    one = losses.soft_nll_loss(A, x_true[:, None], torch.ones(BATCH, 1, dtype=torch.float64), 1.3)
    torch.testing.assert_close(one, losses.nll_loss(A, x_true, 1.3))
    states = all_states(N, dtype=torch.float64)[[3, 9]].expand(BATCH, 2, N)
    weights = torch.tensor([[0.25, 0.75]], dtype=torch.float64).expand(BATCH, 2)
    mixed = losses.soft_nll_loss(A, states, weights, 1.3)
    parts = [losses.nll_loss(A, states[:, t], 1.3) for t in range(2)]
    torch.testing.assert_close(mixed, 0.25 * parts[0] + 0.75 * parts[1])


def test_contrastive_gradient_over_exact_samples_is_the_nll_gradient(A: Tensor, x_true: Tensor) -> None:
    beta, reads = 0.8, 200_000
    logits = torch.stack([-beta * torch.tensor([energy(a, x) for x in all_states(N)]) for a in A])
    generator = torch.Generator().manual_seed(0)
    drawn = torch.multinomial(logits.softmax(-1), reads, replacement=True, generator=generator)
    samples = all_states(N, dtype=torch.float64)[drawn]
    ours, exact = A.clone().requires_grad_(), A.clone().requires_grad_()
    losses.contrastive_loss(ours, x_true, samples, beta).sum().backward()
    losses.nll_loss(exact, x_true, beta).sum().backward()
    torch.testing.assert_close(ours.grad, exact.grad, atol=0.01, rtol=0)


def test_mlp_loss_is_the_mean_absolute_feature_summed_over_layers() -> None:
    features = [torch.tensor([[1.0, -3.0], [0.0, 2.0]]), torch.tensor([[2.0], [-4.0]])]
    assert losses.mlp_loss(features).tolist() == [2.0 + 2.0, 1.0 + 4.0]


def test_l1_loss_targets_minus_one_and_one() -> None:
    scores, x_true = torch.tensor([[0.5, -2.0]]), torch.tensor([[1.0, 0.0]])
    assert losses.l1_loss(scores, x_true).item() == pytest.approx((0.5 + 1.0) / 2)


def test_best_other_is_never_the_solution(A: Tensor) -> None:
    x_star, x_plus = best_two(A)
    for x_true in (x_star, x_plus, 1 - x_star):
        other = losses.best_other(x_true, x_star, x_plus)
        assert (other != x_true).any(-1).all()
