"""One A for all instances, and how it is made hard."""

from __future__ import annotations

import pytest
import torch

from qubolearn import SharedQubo, SparseQubo
from qubolearn.errors import QubolearnError
from qubolearn.networks import harden


def test_all_instances_share_one_symmetric_a() -> None:
    network = SharedQubo(4)
    with torch.no_grad():
        network.quadratic.copy_(torch.randn(4, 4))
        network.linear.copy_(torch.arange(4.0))
    A = network(torch.zeros(3, 7))
    assert A.shape == (3, 4, 4)
    assert torch.equal(A[0], A[2])
    assert torch.equal(A[0], A[0].T)
    assert A[0].diagonal().tolist() == [0, 1, 2, 3]


def test_a_sparse_one_has_its_edges_only() -> None:
    network = SharedQubo(4, torch.tensor([[0, 1], [2, 3]]))
    A = network(torch.zeros(2, 1))
    assert isinstance(A, SparseQubo)
    assert (A.shape, A.edges.tolist()) == ((2, 4, 4), [[0, 1], [2, 3]])
    A.quadratic.sum().backward()
    assert network.quadratic.grad is not None
    assert network.quadratic.grad.tolist() == [2, 2]


def test_hardening_finds_planted_levels_under_noise() -> None:
    g = torch.Generator().manual_seed(0)
    planted = torch.tensor([-2.0, 0.0, 3.0])[torch.randint(3, (20, 20), generator=g)].triu(1)
    soft = planted + 0.2 * (torch.rand(20, 20, generator=g) - 0.5)
    soft = soft.triu(1) + torch.diag(torch.full((20,), 0.3))
    found = harden(soft, levels=3)
    assert found.levels == pytest.approx([-2, 0, 3], abs=0.05)
    assert torch.equal(found.A.dense()[0].sign(), planted.sign())
    assert found.counts == [
        int((planted.triu(1) == v).sum()) - (210 if v == 0 else 0) for v in (-2.0, 0.0, 3.0)
    ]
    assert found.largest_linear == pytest.approx(0.3, abs=1e-6)
    assert all(low < high for low, high in found.gaps)


def test_too_many_levels_are_rejected() -> None:
    with pytest.raises(QubolearnError, match="levels=2"):
        harden(torch.zeros(3, 3))
    with pytest.raises(QubolearnError, match="levels=1"):
        harden(torch.rand(3, 3), levels=1)
    with pytest.raises(QubolearnError, match="2, 3, 3"):
        harden(torch.rand(2, 3, 3))


def test_rounded_couplings_are_for_evaluation() -> None:
    network = SharedQubo(3, levels=2, biases=True, strength=10.0)
    p = torch.tensor([[1.0, 2.0, 3.0]])
    assert torch.equal(network.eval()(p), torch.zeros(1, 3, 3))  # nothing to round
    with torch.no_grad():
        network.linear.fill_(7.0)
        network.quadratic.copy_(torch.tensor([[0.0, 2.0, 0.1], [2.0, 0.0, 1.8], [0.1, 1.8, 0.0]]))
    assert torch.equal(network.train()(p)[0], network.soft())
    hard = network.eval()(p)
    assert isinstance(hard, SparseQubo)
    assert hard.edges.tolist() == [[0, 1], [1, 2]]
    assert hard.quadratic[0].tolist() == pytest.approx([10.0, 10.0])
    assert torch.equal(hard.linear, p)
    for options in ({"levels": 1}, {"biases": True}, {"strength": 2.0}):
        with pytest.raises(QubolearnError, match="levels"):
            SharedQubo(3, **options)  # type: ignore[arg-type]
