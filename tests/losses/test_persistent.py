"""Persistent contrastive divergence."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from qubolearn import Adam, Likelihood, SharedQubo, SparseQubo, fit
from qubolearn.data.contract import Instances, RightAnswers
from qubolearn.errors import QubolearnError
from qubolearn.losses import Batch, PersistentContrastive
from qubolearn.qubo import Groups, share
from qubolearn.solvers import pair_marginals

N, COUNT = 6, 3


def qubos() -> Tensor:
    return torch.randn(COUNT, N, N, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def batch_of(x: Tensor, seed: int, right: RightAnswers | None = None) -> Batch:
    return Batch(Instances(torch.arange(float(COUNT))[:, None], x, x, right), None, seed=seed)  # type: ignore[arg-type]


X = torch.tensor([[1, 0, 0, 1, 1, 0], [0, 1, 0, 0, 1, 1], [1, 0, 0, 0, 1, 0]]).double()


@pytest.mark.parametrize("kind", ["dense", "sparse", "shared", "shared sparse", "several", "tempered"])
def test_the_gradient_is_the_likelihoods(kind: str) -> None:
    loss = PersistentContrastive(0.9, chains=3000, sweeps=2, rungs=3 if kind == "tempered" else 1)
    A = qubos()[:1].expand(COUNT, N, N).clone() if "shared" in kind else qubos()
    states = torch.stack([X, 1 - X], 1)
    right = RightAnswers(states, torch.ones(COUNT, 2, dtype=torch.bool)) if kind == "several" else None

    def given(leaf: Tensor) -> Tensor | SparseQubo:
        whole: Any = 1.0 * leaf[:1] if "shared" in kind else leaf
        whole = SparseQubo.from_dense(whole) if "sparse" in kind else whole
        return share(whole, COUNT) if "shared" in kind else whole

    for seed in range(20):
        ours = A.clone().requires_grad_()
        loss(given(ours), batch_of(X, seed, right)).sum().backward()
    exact = A.clone().requires_grad_()
    Likelihood(0.9)(given(exact), batch_of(X, 0, right)).sum().backward()
    torch.testing.assert_close(ours.grad, exact.grad, atol=0.12 if "shared" in kind else 0.04, rtol=0)
    assert len(loss._kept) == (1 if "shared" in kind else COUNT)


def test_tempered_chains_cross_between_valleys() -> None:
    """A ridge of height 9β = 18 is between 000000 and 111111."""
    A = torch.full((1, N, N), -1.0)
    A[:, range(N), range(N)] = 5.0  # k ones have the energy k(6 - k)
    x, mean = torch.zeros(1, N), {}
    for rungs in (1, 6):
        loss = PersistentContrastive(2.0, chains=200, sweeps=1, rungs=rungs)
        for seed in range(300):
            batch = Batch(Instances(x, x, x), None, seed=seed)  # type: ignore[arg-type]
            mean[rungs] = loss.move(A, batch).double().mean().item()
            if seed == 0:
                next(iter(loss._kept.values()))[:] = 0
    assert mean[1] < 0.05
    assert mean[6] == pytest.approx(pair_marginals(A, 2.0)[0, 0, 0].item(), abs=0.1)


def test_groups_are_never_broken() -> None:
    groups = Groups([[0, 1, 2], [4, 5]])
    loss = PersistentContrastive(0.9, chains=2000, sweeps=2, groups=groups)
    x = torch.tensor([[1, 0, 0, 1, 1, 0], [0, 1, 0, 0, 0, 1], [1, 0, 0, 0, 1, 0]]).double()
    for seed in range(15):
        found = loss.move(qubos(), batch_of(x, seed))
        assert groups.allowed(found).all()
    moments = torch.einsum("bri,brj->bij", found.double(), found.double()) / found.shape[1]
    torch.testing.assert_close(moments, pair_marginals(qubos(), 0.9, groups=groups), atol=0.04, rtol=0)
    with pytest.raises(QubolearnError, match="instance 0"):
        loss(qubos(), batch_of(torch.ones(COUNT, N), 0))


def test_training_runs_begin_with_new_chains_and_learn() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 2, (400, 3), generator=generator).float()
    x[:, 1] = x[:, 0]
    loss = 1.0 * PersistentContrastive(1.0, chains=64, sweeps=3)
    data, found = (torch.zeros(400, 1), x), []
    for _ in range(2):
        network = SharedQubo(3)
        fit(network, data, loss, epochs=10, batch_size=40, optimizer=Adam(0.1), validation=0)
        found.append(network(torch.zeros(1, 1))[0].detach())
    assert torch.equal(found[0], found[1])
    coupling = found[0] + found[0].T
    assert coupling[0, 1] < -2
    assert coupling[[0, 1], 2].abs().max() < 1


def test_mistakes_are_rejected() -> None:
    for wrong in ({"chains": 0}, {"sweeps": 0}, {"rungs": 0}, {"beta": 0.0}, {"beta": float("inf")}):
        with pytest.raises(QubolearnError, match=next(iter(wrong))):
            PersistentContrastive(**wrong)  # type: ignore[arg-type]
