"""Learning from costs."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from qubolearn import (
    Adam,
    Batch,
    ExhaustiveSearch,
    Groups,
    Instances,
    Loss,
    QuboLayer,
    QubolearnError,
    QuboNetwork,
    SparseQubo,
    energies,
    evaluate,
    fit,
    topology,
)
from qubolearn.costs import CostData, CostRegression, ListedStates, PerturbedFenchelYoung, SPOPlus, regret
from qubolearn.qubo import all_states

N = 4
STATES = all_states(N, dtype=torch.float64)


def qubos(batch: int = 12, seed: int = 0) -> Tensor:
    return torch.randn(batch, N, N, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def all_energies(A: Tensor) -> Tensor:
    return energies(A, STATES.expand(len(A), -1, -1))


def batch_of(A_true: Any) -> Batch:
    x = ExhaustiveSearch()(A_true, 1).states[:, 0]
    return Batch(Instances(torch.zeros(len(x), 1), x, A_true), ExhaustiveSearch())


def value_and_gradient(loss: Loss, A: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    leaf = A.clone().requires_grad_()
    value = loss(leaf, batch)
    value.sum().backward()
    return value.detach(), leaf.grad


def test_spo_plus_is_its_definition_and_bounds_the_regret() -> None:
    A, A_true = qubos(seed=1), qubos(seed=2)
    batch = batch_of(A_true)
    value, slope = value_and_gradient(SPOPlus(), A, batch)
    E, E_true = all_energies(A), all_energies(A_true)
    brute = (E_true - 2 * E).amax(1) + 2 * energies(A, batch.x_true) - E_true.amin(1)
    torch.testing.assert_close(value, brute)
    chosen = STATES[(E_true - 2 * E).argmax(1)]
    outer = [x[:, :, None] * x[:, None] for x in (batch.x_true, chosen)]
    torch.testing.assert_close(slope, 2 * (outer[0] - outer[1]))
    decision = ExhaustiveSearch()(A, 1).states[:, 0]
    assert bool((value >= regret(A_true, decision, batch.x_true) - 1e-9).all())
    assert SPOPlus()(A_true, batch).abs().max() < 1e-9


def test_fenchel_young_has_the_gradient_of_its_value() -> None:
    """The value is piecewise linear in A for fixed noise."""
    A, batch = qubos(3, seed=3), batch_of(qubos(3, seed=4))
    loss = PerturbedFenchelYoung(strength=0.5, samples=20)
    value, slope = value_and_gradient(loss, A, batch)
    V = qubos(3, seed=5)
    moved = loss(A + 1e-6 * V, batch)
    torch.testing.assert_close((moved - value) / 1e-6, (slope * V).sum((1, 2)), atol=1e-4, rtol=0)
    right = PerturbedFenchelYoung(strength=1e-6)(batch.answer, batch)
    assert right.abs().max() < 1e-4


@pytest.mark.parametrize("loss", [SPOPlus(), CostRegression()])
def test_sparse_costs_are_the_dense_ones(loss: Loss) -> None:
    edges = torch.tensor([[0, 0, 1], [1, 3, 2]])
    linear, couplings = qubos(6)[:, 0], qubos(6)[:, 1, :3]
    A, A_true = (
        SparseQubo(linear, edges, couplings),
        SparseQubo(couplings[:, [0, 1, 2, 0]], edges, linear[:, :3]),
    )
    sparse, dense = loss(A, batch_of(A_true)), loss(A.dense(), batch_of(A_true.dense()))
    scale = (4 + 3) / 10 if isinstance(loss, CostRegression) else 1.0  # means over 7 and 10
    torch.testing.assert_close(sparse * scale, dense)


def test_listed_states_are_searched_exactly() -> None:
    listed = STATES[[1, 2, 4, 7, 8]]
    found = ListedStates(listed)(A := qubos(), 2)
    torch.testing.assert_close(found.energies, energies(A, listed.expand(12, -1, -1)).sort(1).values[:, :2])
    for states, value in (([[2, 0]], "2"), (torch.zeros(0, 3), "0, 3"), (torch.zeros(3), "3")):
        with pytest.raises(QubolearnError, match=value):
            ListedStates(states)
    with pytest.raises(QubolearnError, match="count=6"):
        ListedStates(listed)(A, 6)


def test_decisions_respect_groups_and_clamps_and_regret_is_normalized() -> None:
    A = qubos(50).float()
    p = torch.arange(50.0)[:, None]
    data = CostData(
        p, A, groups=Groups([[0, 1]]), clamp=lambda p: torch.tensor([-1, -1, -1, 1]), validation=0
    )
    allowed = [x for x in STATES.tolist() if x[0] + x[1] == 1 and x[3] == 1]
    E = all_energies(A.double())[:, [STATES.tolist().index(x) for x in allowed]]
    whole = data.instances
    torch.testing.assert_close(
        regret(A, torch.tensor(allowed[0]).expand(50, -1), whole.x_true), E[:, 0] - E.amin(1)
    )
    score = data.score(torch.tensor(allowed[0]).expand(50, -1), whole)
    assert score["regret"].mean() == pytest.approx(
        ((E[:, 0] - E.amin(1)).sum() / E.amin(1).abs().sum()).item()
    )
    assert torch.equal(score["optimal"].bool(), E[:, 0] <= E.amin(1))
    assert data.score(whole.x_true, whole)["regret"].abs().max() == 0


def test_arrays_of_any_kind_are_costs() -> None:
    p, A = np.arange(20.0)[:, None], np.random.default_rng(0).integers(-5, 5, (20, 3, 3))
    dense = CostData(p, A, validation=5)
    sparse = CostData(p, SparseQubo.from_dense(torch.tensor(A, dtype=torch.float64)), validation=5)
    score = [data.score(torch.ones(15, 3), data.whole("train"))["regret"] for data in (dense, sparse)]
    torch.testing.assert_close(*score)
    network = QuboNetwork(nn.Linear(1, 6), topology("dense", 3), sparse=True)
    history = fit(network, sparse, SPOPlus(), epochs=2, batch_size=5).history
    assert history[-1]["regret"] >= 0


@pytest.mark.parametrize(
    ("change", "value"),
    [
        ({"A_true": np.full((3, 2, 2), np.nan)}, r"A_true\[0, 0, 0\] is nan"),
        ({"A_true": np.zeros((4, 2, 2))}, "4"),
        ({"A_true": np.zeros((3, 2))}, "3, 2"),
        ({"A_true": "costs"}, "str"),
        ({"x": np.full((3, 2), 2)}, "2"),
        ({"x": np.zeros((3, 4))}, "4"),
        ({"groups": Groups([[0, 1]]), "clamp": torch.tensor([[-1, -1], [-1, -1], [1, 1]])}, "instance 2"),
    ],
)
def test_bad_costs_are_rejected(change: dict[str, Any], value: str) -> None:
    given = {"p": np.zeros((3, 1)), "A_true": np.zeros((3, 2, 2)), "validation": 0, **change}
    with pytest.raises(QubolearnError, match=value):
        CostData(**given)


def test_losses_need_true_costs_of_the_networks_size() -> None:
    x = torch.ones(2, 3)
    with pytest.raises(QubolearnError, match="CostData"):
        SPOPlus()(torch.zeros(2, 3, 3), Batch(Instances(x, x, x), ExhaustiveSearch()))
    network = QuboNetwork(nn.Linear(1, 10), topology("dense", 4))
    with pytest.raises(QubolearnError, match=r"\[2, 4, 4\]"):
        fit(network, CostData(np.zeros((9, 1)), np.zeros((9, 3, 3))), SPOPlus())


def test_pairs_of_the_layer_carry_the_gradient_of_a_quadratic_cost() -> None:
    A, A_true = qubos(6).requires_grad_(), qubos(6, seed=1)
    layer = QuboLayer(ExhaustiveSearch(), strength=2.0, pairs=True)
    (A_true * layer(A)).sum().backward()
    x, moved = (ExhaustiveSearch()(some, 1).states[:, 0] for some in (A.detach(), A.detach() + 2.0 * A_true))
    torch.testing.assert_close(
        A.grad, (moved[:, :, None] * moved[:, None] - x[:, :, None] * x[:, None]) / 2.0
    )


@pytest.mark.parametrize("rule", ["none", "blackbox", "perturbed"])
def test_pairs_of_sparse_qubos_are_those_of_their_edges(rule: Any) -> None:
    sparse = SparseQubo.from_dense(qubos(6))
    linear, products = QuboLayer(ExhaustiveSearch(), rule, samples=3, strength=0.01, pairs=True)(sparse)
    dense = QuboLayer(ExhaustiveSearch(), "none", pairs=True)(sparse.dense())
    torch.testing.assert_close(linear, dense.diagonal(dim1=1, dim2=2), atol=0.5, rtol=0)
    torch.testing.assert_close(products, dense[:, sparse.edges[0], sparse.edges[1]], atol=0.5, rtol=0)


def test_spo_plus_and_the_layer_beat_two_stages_if_the_network_is_too_simple() -> None:
    from benchmarks.costs import max_cut, through_layer

    given, found = max_cut(8, 6, 600, 0), {}
    data = CostData(**given, validation=0, test=0.5)
    for loss in (CostRegression(), SPOPlus()):
        torch.manual_seed(0)
        network = QuboNetwork(nn.Linear(5, 36), topology("dense", 8), 5)
        fit(network, data, loss, epochs=30, batch_size=32, optimizer=Adam(0.03), validation=None)
        found[type(loss)] = evaluate(network, data).metrics["regret"]
    assert found[SPOPlus] < 0.7 * found[CostRegression]
    assert through_layer(data, given) < found[CostRegression]
