"""Persistent chains: equilibrium, clamps and groups, exact resumption, rows."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.qubo import Groups, SparseQubo
from qubolearn.solvers import pair_marginals
from qubolearn.solvers.chains import PersistentChains


def qubos(batch: int, n: int, seed: int = 0) -> Tensor:
    return torch.randn(batch, n, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def moments(x: Tensor) -> Tensor:
    return torch.einsum("bri,brj->bij", x, x) / x.shape[1]


@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_chains_follow_a_slowly_changing_qubo(constrained: bool, sparse: bool) -> None:
    limits = {"clamp": {7: 1}, "groups": Groups([[0, 1, 2], [4, 5]])} if constrained else {}
    A, step = qubos(2, 8), 0.05 * qubos(2, 8, 1)
    chains = PersistentChains(2, 8, chains=4000, sweeps=2, seed=0)
    for k in range(30):
        changed = A + k * step
        x = chains.sample(SparseQubo.from_dense(changed) if sparse else changed, 0.8, **limits)
    torch.testing.assert_close(moments(x), pair_marginals(changed, 0.8, **limits), rtol=0, atol=0.04)


def test_a_checkpoint_resumes_with_the_same_draws() -> None:
    A = qubos(3, 6)
    chains = PersistentChains(3, 6, chains=20, sweeps=1, seed=5)
    chains.sample(A, 1.0)
    saved = chains.state_dict()
    want = [chains.sample(A, 1.0) for _ in range(3)]
    again = PersistentChains(3, 6, chains=20, sweeps=1, seed=5)
    again.load_state_dict(saved)
    assert all(torch.equal(x, again.sample(A, 1.0)) for x in want)
    assert not torch.equal(want[0], want[1])
    with pytest.raises(QubolearnError, match=r"shape \[3, 20, 6\] were saved"):
        PersistentChains(3, 6, chains=10).load_state_dict(saved)


def test_only_the_named_rows_move_and_draw_as_in_the_whole() -> None:
    A = qubos(4, 5)
    some, whole = (PersistentChains(4, 5, chains=7, sweeps=3, seed=1) for _ in range(2))
    before = some.states.clone()
    rows = torch.tensor([3, 1])
    x = some.sample(A[rows], 1.0, rows)
    assert torch.equal(some.states[[0, 2]], before[[0, 2]])
    assert torch.equal(x, whole.sample(A, 1.0)[rows])


def test_bad_input_is_rejected() -> None:
    chains = PersistentChains(2, 3)
    for call, said in (
        (lambda: chains.sample(qubos(1, 3), 1.0), r"\[2, 3, 3\]"),
        (lambda: chains.sample(qubos(2, 4), 1.0), r"\[2, 3, 3\]"),
        (lambda: chains.sample(qubos(2, 3), 0.0), "beta=0.0"),
        (lambda: chains.sample(qubos(1, 3), 1.0, torch.tensor([2])), "rows go from 2"),
        (lambda: chains.sample(qubos(2, 3), 1.0, torch.tensor([1, 1])), "twice"),
        (lambda: PersistentChains(0, 3), "instances=0"),
        (lambda: PersistentChains(10**6, 5640, chains=10**4), "take fewer chains"),
    ):
        with pytest.raises(QubolearnError, match=said):
            call()
