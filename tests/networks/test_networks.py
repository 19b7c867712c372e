"""The paper's network."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from qubolearn.chips.topologies import topology
from qubolearn.errors import QubolearnError
from qubolearn.networks import HEADS, MLP, DiagonalHead, DirectHead, QuboNetwork, Standardize
from qubolearn.problems.randgraph import RandGraph
from qubolearn.qubo import SparseQubo, upper_triangular
from qubolearn.solvers import ExhaustiveSearch

PROBLEM = RandGraph(k=4)


def network(head="coupled", name="chimera", layers=5, hidden=78):
    pattern = topology(name, 8)
    return HEADS[head](MLP(PROBLEM.input_size, pattern.size, layers, hidden), pattern, PROBLEM.input_size)


@pytest.mark.parametrize("threads", [1, 2])  # with one, NumPy computes the layers
@pytest.mark.parametrize("batch", [(2,), (3, 2)])
def test_values_and_gradients_equal_those_of_the_layers_written_out(batch, threads, monkeypatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    body = MLP(6, 3, 5, 4)
    p = torch.randn(*batch, 6)
    first, second, third, fourth, last = body.linears
    h1 = first(p).relu()
    h2 = second(h1).relu()
    h3 = third(torch.cat([h2, p], -1)).relu()
    h4 = fourth(h3).relu()
    out, features = body(p)
    assert (type(out.grad_fn).__name__ == "_LayersBackward") == (threads == len(batch) == 1)
    every = {"retain_graph": True, "materialize_grads": True}
    for found, want in zip([*features, out], [h1, h2, h3, h4, last(h4)], strict=True):
        torch.testing.assert_close(found, want)
        slopes = (torch.autograd.grad(each.exp().sum(), body.parameters(), **every) for each in (found, want))
        torch.testing.assert_close(*slopes)


def test_hooks_of_single_layers_run_in_steps_on_the_cpu(monkeypatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    body, seen = MLP(6, 3, 5, 4), list[int]()
    body.linears[1].register_forward_hook(lambda layer, inputs, output: seen.append(len(output)))
    body(torch.randn(2, 6))
    assert seen == [2]


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


def test_pure_is_a_diagonal_qubo_whose_minimizer_cuts_the_scores_at_zero() -> None:
    made = network("direct", "diagonal")
    p = torch.rand(50, PROBLEM.input_size)
    scores, A = made.body(made.standardize(p))[0], made(p)
    torch.testing.assert_close(-A.diagonal(dim1=1, dim2=2), scores)
    assert torch.equal(ExhaustiveSearch()(A, 1).states[:, 0], (scores > 0).float())


def test_standardize_fits_mean_and_deviation_and_survives_constants() -> None:
    p = torch.randn(1000, 3) * torch.tensor([1.0, 20.0, 0.0]) + torch.tensor([5.0, 0.0, 7.0])
    layer = Standardize(3)
    layer.fit(p)
    q = layer(p)
    torch.testing.assert_close(q.mean(0), torch.zeros(3), atol=1e-4, rtol=0)
    torch.testing.assert_close(q.std(0, correction=0), torch.tensor([1.0, 1.0, 0.0]), atol=1e-3, rtol=0)
    assert {"mean", "scale"} <= set(layer.state_dict())


def test_state_dicts_with_the_old_name_of_the_standardization_load() -> None:
    made, again = network("coupled", "dense"), nn.Sequential(network("coupled", "dense"))
    made.standardize.fit(torch.randn(9, PROBLEM.input_size) + 4)
    old = {f"0.{key}".replace("standardize", "standardise"): each for key, each in made.state_dict().items()}
    again.load_state_dict(old)
    assert torch.equal(again[0].standardize.mean, made.standardize.mean)


def test_senseless_sizes_are_rejected() -> None:
    with pytest.raises(QubolearnError, match="layers=1"):
        MLP(4, 4, 1, 8)


def test_bodies_of_the_user_return_one_number_per_entry() -> None:
    pattern, p = topology("chimera", 8), torch.rand(3, 5)
    A = QuboNetwork(torch.nn.Linear(5, pattern.size), pattern)(p)
    assert torch.equal(A != 0, pattern.mask.expand(3, 8, 8))
    for wrong in (torch.nn.Linear(5, 7), torch.nn.Flatten(0)):
        with pytest.raises(QubolearnError, match="24"):
            QuboNetwork(wrong, pattern)(p)
    with pytest.raises(QubolearnError, match="mlp"):
        QuboNetwork("mlp", pattern)  # type: ignore[arg-type]
    for head in (DiagonalHead, DirectHead):
        with pytest.raises(QubolearnError, match="16"):
            head(torch.nn.Linear(5, pattern.size), pattern)


def test_a_sparse_head_returns_the_same_qubo() -> None:
    pattern = topology("pegasus", 24)
    body, p = torch.nn.Linear(5, pattern.size), torch.rand(3, 5)
    sparse = QuboNetwork(body, pattern, sparse=True)(p)
    assert isinstance(sparse, SparseQubo)
    torch.testing.assert_close(upper_triangular(QuboNetwork(body, pattern)(p)), sparse.dense())
