"""The paper's network to the letter, its QUBO head and the standardisation."""

from __future__ import annotations

import pytest
import torch

from qubolearn.chips.topologies import topology
from qubolearn.errors import QubolearnError
from qubolearn.networks.network import MLP, Standardise, build_network
from qubolearn.problems.randgraph import RandGraph

PROBLEM = RandGraph(k=4)


def network(method="quant", name="chimera", layers=5, hidden=78):
    return build_network("mlp", PROBLEM, topology(name, 8), method, layers, hidden)


@pytest.mark.parametrize(
    ("layers", "widths"),
    [
        (3, [(16, 7), (7, 7), (7, 5)]),
        (4, [(16, 7), (7, 7), (23, 7), (7, 5)]),
        (5, [(16, 7), (7, 7), (23, 7), (7, 7), (7, 5)]),
        (7, [(16, 7), (7, 7), (23, 7), (7, 7), (23, 7), (7, 7), (7, 5)]),
    ],
)
def test_input_skips_into_odd_layers_but_the_first_and_last(layers: int, widths: list[tuple[int, int]]) -> None:
    body = MLP(16, 5, layers, 7)
    assert [(linear.in_features, linear.out_features) for linear in body.linears] == widths


def test_forward_equals_the_layers_written_out() -> None:
    body = MLP(6, 3, 5, 4)
    p = torch.randn(2, 6)
    first, second, third, fourth, last = body.linears
    h1 = first(p).relu()
    h2 = second(h1).relu()
    h3 = third(torch.cat([h2, p], 1)).relu()
    h4 = fourth(h3).relu()
    out, features = body(p)
    torch.testing.assert_close(out, last(h4))
    for found, want in zip(features, [h1, h2, h3, h4], strict=True):
        torch.testing.assert_close(found, want)


@pytest.mark.parametrize("name", ["dense", "diagonal", "chimera", "pegasus"])
def test_only_allowed_entries_exist(name: str) -> None:
    made = network(name=name)
    A = made(torch.rand(3, PROBLEM.input_size))
    mask = topology(name, 8).mask
    assert A.shape == (3, 8, 8)
    assert torch.equal(A, A.mT)
    assert not A[:, ~mask].any()
    assert A[:, mask].all()
    assert A.abs().max() <= 1
    assert made.body.linears[-1].out_features == int(mask.triu().sum())


def test_pure_is_a_diagonal_qubo_whose_minimiser_cuts_the_scores_at_zero() -> None:
    made = network("pure", "diagonal")
    p = torch.rand(50, PROBLEM.input_size)
    scores = made.body(made.standardise(p))[0]
    A = made(p)
    torch.testing.assert_close(-A.diagonal(dim1=1, dim2=2), scores)
    from qubolearn.solvers import ExhaustiveSearch

    assert torch.equal(ExhaustiveSearch()(A, 1).states[:, 0], (scores > 0).float())


def test_standardise_fits_mean_and_deviation_and_survives_constants() -> None:
    p = torch.randn(1000, 3) * torch.tensor([1.0, 20.0, 0.0]) + torch.tensor([5.0, 0.0, 7.0])
    layer = Standardise(3)
    layer.fit(p)
    q = layer(p)
    torch.testing.assert_close(q.mean(0), torch.zeros(3), atol=1e-4, rtol=0)
    torch.testing.assert_close(q.std(0, correction=0), torch.tensor([1.0, 1.0, 0.0]), atol=1e-3, rtol=0)
    assert {"mean", "scale"} <= set(layer.state_dict())


def test_senseless_sizes_are_refused() -> None:
    with pytest.raises(QubolearnError, match="layers=1"):
        MLP(4, 4, 1, 8)
