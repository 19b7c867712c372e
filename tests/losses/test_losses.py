"""Losses and gradients, by brute force."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from qubolearn.data.contract import Instances, RightAnswers, SoftTargets
from qubolearn.errors import QubolearnError
from qubolearn.losses import (
    L1,
    Batch,
    Contrastive,
    Gap,
    HammingHinge,
    Hinge,
    Likelihood,
    Loss,
    PseudoLikelihood,
    SoftLikelihood,
    SparseFeatures,
    as_loss,
)
from qubolearn.qubo import SparseQubo, all_states
from qubolearn.solvers import ExhaustiveSearch

N, COUNT = 4, 5


@pytest.fixture
def A() -> Tensor:
    return torch.randn(COUNT, N, N, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.fixture
def x_true() -> Tensor:
    return torch.randint(0, 2, (COUNT, N), generator=torch.Generator().manual_seed(1)).double()


def batch_of(x_true: Tensor, right: RightAnswers | None = None, **more: Any) -> Batch:
    return Batch(Instances(x_true, x_true, x_true, right), ExhaustiveSearch(), **more)


def energy(A: Tensor, x: Tensor) -> float:
    return sum(A[i, j].item() * x[i].item() * x[j].item() for i in range(N) for j in range(N))


def ranked(A: Tensor) -> list[Tensor]:
    """Return all states of one QUBO, best first."""
    return sorted(all_states(N, dtype=torch.float64), key=lambda x: energy(A, x))


def flip(x: Tensor, i: int) -> Tensor:
    y = x.clone()
    y[i] = 1 - y[i]
    return y


def hamming(x: Tensor, y: Tensor) -> int:
    return int((x != y).sum())


def log_z(A: Tensor, beta: float) -> float:
    return math.log(sum(math.exp(-beta * energy(A, y)) for y in ranked(A)))


def naive_pseudo(A: Tensor, x: Tensor) -> float:
    return sum(math.log1p(math.exp(-1.3 * (energy(A, flip(x, i)) - energy(A, x)))) for i in range(N))


#: Each loss computed plainly: (one QUBO, its right states) -> a number.
#: Of several right states some losses take the lowest.
CASES: dict[str, tuple[Loss, Callable[[Tensor, list[Tensor]], float]]] = {
    "gap": (Gap(weight_unique=0.0), lambda A, x: lowest(A, x) - energy(A, ranked(A)[0])),
    "unique": (
        Gap(weight_unique=0.3),
        lambda A, x: (
            lowest(A, x) - energy(A, ranked(A)[0]) - 0.3 * abs(lowest(A, x) - energy(A, ranked(A)[1]))
        ),
    ),
    "hinge": (Hinge(0.7), lambda A, x: max(0.0, 0.7 + lowest(A, x) - energy(A, best_wrong(A, x)))),
    "hamming": (
        HammingHinge(0.7),
        lambda A, x: max(0.7 * hamming(x[0], y) + energy(A, x[0]) - energy(A, y) for y in ranked(A)),
    ),
    "pseudo": (PseudoLikelihood(1.3), lambda A, x: naive_pseudo(A, min(x, key=lambda y: energy(A, y)))),
    "nll": (
        Likelihood(1.3),
        lambda A, x: log_z(A, 1.3) - math.log(sum(math.exp(-1.3 * energy(A, y)) for y in x)),
    ),
    "l1": (L1(), lambda A, x: sum(abs(-A[i, i].item() - (2 * x[0][i].item() - 1)) for i in range(N)) / N),
    "sum": (
        Hinge(0.7) + 0.5 * Likelihood(1.3),
        lambda A, x: CASES["hinge"][1](A, x) + 0.5 * CASES["nll"][1](A, x),
    ),
}


def lowest(A: Tensor, x: list[Tensor]) -> float:
    return min(energy(A, y) for y in x)


def best_wrong(A: Tensor, x: list[Tensor]) -> Tensor:
    return next(y for y in ranked(A) if all(hamming(y, right) for right in x))


@pytest.mark.parametrize("name", CASES)
def test_loss_equals_naive_loops(name: str, A: Tensor, x_true: Tensor) -> None:
    loss, naive = CASES[name]
    found = loss(A, batch_of(x_true))
    assert found.shape == (COUNT,)
    for i in range(COUNT):
        assert found[i].item() == pytest.approx(naive(A[i], [x_true[i]]), abs=1e-9)


def several(x_true: Tensor) -> RightAnswers:
    """Return x, its complement, perhaps a third, and wrong padding."""
    third = x_true.clone()
    third[:, 1] = 1 - third[:, 1]
    states = torch.stack([x_true, 1 - x_true, third], 1)
    return RightAnswers(states, torch.stack([x_true[:, 0] >= 0, x_true[:, 0] >= 0, x_true[:, 0] == 1], 1))


@pytest.mark.parametrize("name", ["gap", "unique", "hinge", "pseudo", "nll", "sum"])
def test_several_right_answers_equal_naive_loops(name: str, A: Tensor, x_true: Tensor) -> None:
    loss, naive = CASES[name]
    right = several(x_true)
    found = loss(A, batch_of(x_true, right))
    for i in range(COUNT):
        states = [state for state, valid in zip(*(part[i] for part in right), strict=True) if valid]
        assert found[i].item() == pytest.approx(naive(A[i], states), abs=1e-9)


def test_a_loss_of_one_answer_rejects_several(A: Tensor, x_true: Tensor) -> None:
    with pytest.raises(QubolearnError, match="several"):
        HammingHinge()(A, batch_of(x_true, several(x_true)))


def test_pure_regresses_to_the_given_label_among_several(A: Tensor, x_true: Tensor) -> None:
    assert torch.equal(L1()(A, batch_of(x_true, several(x_true))), L1()(A, batch_of(x_true)))


@pytest.mark.parametrize("several_right", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_gradient_equals_finite_differences(
    name: str, several_right: bool, A: Tensor, x_true: Tensor
) -> None:
    if several_right and name == "hamming":
        pytest.skip("knows one right answer")
    loss, right = CASES[name][0], several(x_true) if several_right else None
    leaf = A.clone().requires_grad_()
    loss(leaf, batch_of(x_true, right)).sum().backward()
    assert leaf.grad is not None
    step = 1e-5
    for i, j in [(0, 0), (0, 2), (2, 0), (3, 1)]:
        up, down = A.clone(), A.clone()
        up[:, i, j] += step
        down[:, i, j] -= step
        slope = (loss(up, batch_of(x_true, right)) - loss(down, batch_of(x_true, right))) / (2 * step)
        torch.testing.assert_close(leaf.grad[:, i, j], slope, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_sparse_qubos_have_the_same_losses_and_gradients(name: str, A: Tensor, x_true: Tensor) -> None:
    loss = CASES[name][0]
    sparse = SparseQubo.from_dense(A)
    linear, quadratic = sparse.linear.clone().requires_grad_(), sparse.quadratic.clone().requires_grad_()
    dense = A.clone().requires_grad_()
    found = loss(sparse.with_values(linear, quadratic), batch_of(x_true))
    want = loss(dense, batch_of(x_true))
    torch.testing.assert_close(found, want)
    found.sum().backward()
    want.sum().backward()
    assert dense.grad is not None
    torch.testing.assert_close(linear.grad, dense.grad.diagonal(dim1=1, dim2=2))
    if name != "l1":
        torch.testing.assert_close(quadratic.grad, dense.grad[:, sparse.edges[0], sparse.edges[1]])


def test_soft_targets_are_cross_entropy_and_reduce_to_nll(A: Tensor, x_true: Tensor) -> None:
    def soft(states: Tensor, weights: Tensor) -> Tensor:
        return SoftLikelihood(1.3)(A, batch_of(x_true, soft=SoftTargets(states, weights)))

    one = soft(x_true[:, None], torch.ones(COUNT, 1, dtype=torch.float64))
    torch.testing.assert_close(one, Likelihood(1.3)(A, batch_of(x_true)))
    states = all_states(N, dtype=torch.float64)[[3, 9]].expand(COUNT, 2, N)
    mixed = soft(states, torch.tensor([[0.25, 0.75]], dtype=torch.float64).expand(COUNT, 2))
    parts = [Likelihood(1.3)(A, batch_of(states[:, t])) for t in range(2)]
    torch.testing.assert_close(mixed, 0.25 * parts[0] + 0.75 * parts[1])


def test_soft_likelihood_without_soft_targets_is_rejected(A: Tensor, x_true: Tensor) -> None:
    with pytest.raises(QubolearnError, match="soft_targets"):
        SoftLikelihood()(A, batch_of(x_true))


class ExactSampler:
    """A solver that samples the exact Boltzmann distribution."""

    def __call__(self, A: Tensor, count: int = 2) -> Any:
        return ExhaustiveSearch()(A, count)

    def sample(self, A: Tensor, beta: float) -> Tensor:
        logits = torch.stack([-beta * torch.tensor([energy(a, x) for x in all_states(N)]) for a in A])
        generator = torch.Generator().manual_seed(0)
        drawn = torch.multinomial(logits.softmax(-1), 200_000, replacement=True, generator=generator)
        return all_states(N, dtype=torch.float64)[drawn]


@pytest.mark.parametrize("several_right", [False, True])
def test_contrastive_gradient_over_exact_samples_is_the_nll_gradient(
    several_right: bool, A: Tensor, x_true: Tensor
) -> None:
    right = several(x_true) if several_right else None
    ours, exact = A.clone().requires_grad_(), A.clone().requires_grad_()
    Contrastive(0.8)(ours, Batch(Instances(x_true, x_true, x_true, right), ExactSampler())).sum().backward()
    Likelihood(0.8)(exact, batch_of(x_true, right)).sum().backward()
    torch.testing.assert_close(ours.grad, exact.grad, atol=0.01, rtol=0)


def test_contrastive_needs_a_solver_that_samples(A: Tensor, x_true: Tensor) -> None:
    with pytest.raises(QubolearnError, match="ExhaustiveSearch"):
        Contrastive()(A, batch_of(x_true))


def test_sparse_features_is_the_mean_absolute_feature_summed_over_layers(x_true: Tensor, A: Tensor) -> None:
    features = [torch.tensor([[1.0, -3.0], [0.0, 2.0]]), torch.tensor([[2.0], [-4.0]])]
    assert SparseFeatures()(A, batch_of(x_true, features=features)).tolist() == [2.0 + 2.0, 1.0 + 4.0]
    with pytest.raises(QubolearnError, match="features"):
        SparseFeatures()(A, batch_of(x_true))


def test_a_sum_calls_the_solver_once(A: Tensor, x_true: Tensor) -> None:
    calls = []

    def solver(A: Tensor, count: int = 2) -> Any:
        calls.append(count)
        return ExhaustiveSearch()(A, count)

    loss = Gap(weight_unique=0.0) + 2 * Hinge() + Gap()
    loss(A, Batch(Instances(x_true, x_true, x_true), solver))
    assert calls == [2]


@pytest.mark.parametrize("kind", [Likelihood, SoftLikelihood, Contrastive, PseudoLikelihood])
@pytest.mark.parametrize("beta", [0.0, -1.0, math.inf, math.nan, "6"])
def test_an_inverse_temperature_is_a_number_above_0(kind: Any, beta: Any) -> None:
    with pytest.raises(QubolearnError, match=f"beta={beta!r}"):
        kind(beta=beta)


@pytest.mark.parametrize(
    "make", [lambda: Gap(-1.0), lambda: Hinge(-0.5), lambda: HammingHinge(math.nan), lambda: Hinge("1")]
)
def test_weights_and_margins_are_not_negative(make: Callable[[], Loss]) -> None:
    with pytest.raises(QubolearnError, match="="):
        make()


def test_losses_of_the_user_are_checked(A: Tensor, x_true: Tensor) -> None:
    own = as_loss(lambda A, batch: A.sum((1, 2)))
    torch.testing.assert_close((own + 0.5 * Likelihood())(A, batch_of(x_true)).shape, torch.Size([COUNT]))
    with pytest.raises(QubolearnError, match=r"\[\].*\[5\]"):
        as_loss(lambda A, batch: A.sum())(A, batch_of(x_true))
    with pytest.raises(QubolearnError, match=r"Likelihood\(\)"):
        as_loss(Likelihood)  # type: ignore[arg-type]
    with pytest.raises(QubolearnError, match="nll"):
        as_loss("nll")  # type: ignore[arg-type]


@pytest.mark.parametrize("form", [lambda A: A, SparseQubo.from_dense])
def test_best_states_follow_views_and_changes_of_A(
    A: Tensor, x_true: Tensor, form: Callable[[Tensor], Any]
) -> None:
    """Views and changed A once got stale states."""
    batch, solver, one = batch_of(x_true), ExhaustiveSearch(), form(A)
    whole = batch.best(one, 2)
    assert batch.best(one, 1).data_ptr() == whole.data_ptr(), "the same A is not solved again"
    for some in (one[:2], one[2:], one[:1]):
        torch.testing.assert_close(batch.best(some, 2), solver(some, 2).states)
    batch.best(one, 2)
    (one if isinstance(one, Tensor) else one.quadratic).mul_(-1)
    torch.testing.assert_close(batch.best(one, 2), solver(one, 2).states)
    if isinstance(one, Tensor):
        torch.testing.assert_close(batch.best(one.mT, 2), solver(one.mT, 2).states)
