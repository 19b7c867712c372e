"""The solver as a layer."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from qubolearn.errors import QubolearnError
from qubolearn.networks.layer import QuboLayer
from qubolearn.qubo import SparseQubo, symmetric
from qubolearn.solvers import ExhaustiveSearch


def random_A(batch: int = 6, n: int = 4) -> torch.Tensor:
    return torch.randn(batch, n, n, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("rule", ["none", "blackbox"])
def test_forward_is_the_minimizer(rule: str) -> None:
    A = random_A()
    assert torch.equal(QuboLayer(ExhaustiveSearch(), rule)(A), ExhaustiveSearch()(A, 1).states[:, 0])


def test_blackbox_gradient_is_the_difference_of_two_solutions() -> None:
    A = random_A().requires_grad_()
    g = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
    x = QuboLayer(ExhaustiveSearch(), "blackbox", strength=3.0)(A)
    (x * g).sum().backward()
    moved = ExhaustiveSearch()(A.detach() + 3.0 * torch.diag_embed(g), 1).states[:, 0]
    for i in range(6):
        want = (torch.outer(moved[i], moved[i]) - torch.outer(x[i].detach(), x[i].detach())) / 3.0
        torch.testing.assert_close(A.grad[i], want)


def test_perturbed_forward_and_gradient_match_the_expectation_by_finite_differences() -> None:
    A = symmetric(random_A(1, 2)) + 0.1
    g = torch.tensor([1.0, -0.5])

    def mean_objective(M: torch.Tensor) -> torch.Tensor:
        layer = QuboLayer(ExhaustiveSearch(), "perturbed", strength=1.0, samples=100_000, seed=3)
        return (layer(M)[0] * g).sum()

    leaf = A.clone().requires_grad_()
    mean_objective(leaf).backward()
    for i, j in [(0, 0), (0, 1), (1, 1)]:
        up, down = A.clone(), A.clone()
        up[0, i, j] += 0.3
        down[0, i, j] -= 0.3
        slope = (mean_objective(up) - mean_objective(down)).item() / 0.6  # the same noise on both sides
        assert leaf.grad[0, i, j].item() == pytest.approx(slope, abs=0.02)


@pytest.mark.parametrize(("rule", "strength"), [("blackbox", 5.0), ("perturbed", 0.5)])
def test_a_network_learns_through_the_layer(rule: str, strength: float) -> None:
    """Learnable only if gradients reach the network."""
    generator = torch.Generator().manual_seed(0)
    x_true = torch.randint(0, 2, (256, 3), generator=generator).float()
    p = (2 * x_true - 1) @ torch.randn(3, 3, generator=generator)
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(3, 9), nn.Unflatten(1, (3, 3)), QuboLayer(ExhaustiveSearch(), rule, strength)
    )
    optimizer = torch.optim.Adam(model.parameters(), 0.05)
    before = (model(p).round() == x_true).float().mean()
    for _ in range(150):
        optimizer.zero_grad()
        (model(p) - x_true).square().sum().backward()
        optimizer.step()
    after = (model(p).round() == x_true).float().mean()
    assert before < 0.75
    assert after > 0.9


@pytest.mark.parametrize("rule", ["blackbox", "perturbed"])
def test_sparse_qubos_get_the_gradient_of_their_dense_form(rule: str) -> None:
    """blackbox once returned none, perturbed raised a TypeError."""
    g = torch.Generator().manual_seed(2)
    edges = torch.tensor([[0, 0, 1, 2], [1, 2, 3, 3]])
    linear, quadratic = torch.randn(6, 4, generator=g), torch.randn(6, 4, generator=g)
    weights = torch.randn(6, 4, generator=g)
    leaves = [part.clone().requires_grad_() for part in (linear, quadratic)]
    layer = QuboLayer(ExhaustiveSearch(), rule, strength=2.0, samples=20_000, seed=1)
    x = layer(SparseQubo(leaves[0], edges, leaves[1]))
    (x * weights).sum().backward()
    A = SparseQubo(linear, edges, quadratic).dense().requires_grad_()
    dense = QuboLayer(ExhaustiveSearch(), rule, strength=2.0, samples=20_000, seed=2)(A)
    (dense * weights).sum().backward()
    close = {"atol": 0.0 if rule == "blackbox" else 0.03, "rtol": 0.0}  # other draws
    torch.testing.assert_close(x, dense, **close)
    torch.testing.assert_close(leaves[0].grad, A.grad.diagonal(dim1=1, dim2=2), **close)
    torch.testing.assert_close(leaves[1].grad, A.grad[:, edges[0], edges[1]], **close)


@pytest.mark.parametrize("rule", ["none", "blackbox", "perturbed"])
def test_dtypes_and_arguments_that_are_not_a_solver_or_count(rule: str) -> None:
    x = QuboLayer(ExhaustiveSearch(), rule)(random_A().double())
    assert x.dtype == torch.float64
    for solver, options, value in [
        ("annealing", {}, "annealing"),
        (ExhaustiveSearch, {}, "ExhaustiveSearch"),
        (ExhaustiveSearch(), {"samples": 2.5}, "2.5"),
        (ExhaustiveSearch(), {"strength": float("inf")}, "inf"),
    ]:
        with pytest.raises(QubolearnError, match=value):
            QuboLayer(solver, rule, **options)  # type: ignore[arg-type]
    with pytest.raises(QubolearnError, match="ndarray"):
        QuboLayer(ExhaustiveSearch(), rule)(random_A().numpy())


def test_bad_choices_are_rejected() -> None:
    with pytest.raises(QubolearnError, match="did you mean blackbox"):
        QuboLayer(ExhaustiveSearch(), "blackbx")
    with pytest.raises(QubolearnError, match="strength=0"):
        QuboLayer(ExhaustiveSearch(), "blackbox", strength=0)
