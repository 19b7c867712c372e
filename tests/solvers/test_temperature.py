"""The pseudo-likelihood estimate of β against exact samples, a grid search, and degenerate reads."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.qubo import Groups, SparseQubo, all_states, energies
from qubolearn.solvers.temperature import effective_beta


def exact_samples(A: Tensor, beta: float, reads: int, seed: int = 0) -> Tensor:
    """Independent draws from the Boltzmann distribution over all states: ``[batch, reads, n]``."""
    x = all_states(A.shape[2], dtype=torch.float64)
    p = (-beta * energies(A, x.expand(len(A), -1, -1))).softmax(1)
    return x[torch.multinomial(p, reads, replacement=True, generator=torch.Generator().manual_seed(seed))]


def qubos(batch: int, n: int, seed: int = 0) -> Tensor:
    return torch.randn(batch, n, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("beta", [0.05, 0.5, 1.5, -0.4])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_recovers_beta_of_exact_samples(beta: float, scale: float) -> None:
    A = qubos(6, 10)
    found = effective_beta(A * scale, exact_samples(A, beta, 20_000)) * scale
    assert ((found - beta).abs() < 0.03 * max(1, abs(beta)) + 0.02).all()
    torch.testing.assert_close(
        effective_beta(SparseQubo.from_dense(A), exact_samples(A, beta, 500)),
        effective_beta(A, exact_samples(A, beta, 500)),
    )


def test_is_the_maximum_of_the_pseudo_likelihood() -> None:
    """Naive loops over a grid of β."""
    A, n = qubos(2, 5, 1), 5
    reads = exact_samples(A, 0.8, 40)
    grid = torch.linspace(-1, 4, 2001, dtype=torch.float64)
    for row, found in enumerate(effective_beta(A, reads).tolist()):
        total = torch.zeros_like(grid)
        for x in reads[row]:
            for i in range(n):
                other = x.clone()
                other[i] = 1 - x[i]
                cost = (other @ A[row] @ other - x @ A[row] @ x).item()
                total += torch.nn.functional.logsigmoid(grid * cost)
        assert abs(grid[total.argmax()].item() - found) < 5e-3


def test_degenerate_reads() -> None:
    A = torch.diag_embed(torch.tensor([[1.0, 2.0], [1.0, 2.0], [0.0, 0.0]]))
    reads = torch.tensor([[[0, 0]], [[1, 1]], [[0, 1]]])
    found = effective_beta(A, reads).tolist()
    assert found[:2] == [math.inf, -math.inf]
    assert math.isnan(found[2])


def test_clamped_bits_do_not_count() -> None:
    A = qubos(4, 8, 3)
    reads = exact_samples(A, 0.7, 3000)
    reads[:, :, 2] = 1  # held by force: no sample of anything
    free = effective_beta(A, reads, clamp={2: 1})
    assert ((free - 0.7).abs() < 0.3).all()
    assert not torch.allclose(free, effective_beta(A, reads))


@pytest.mark.parametrize("sparse", [False, True])
def test_groups_move_as_wholes(sparse: bool) -> None:
    """Exact samples among allowed states, other bits clamped in other instances; without groups it is wrong."""
    A, groups, beta = qubos(4, 10, 5), Groups([[0, 1, 2], [4, 7], [5], [3, 6, 8]]), 0.9
    clamp = torch.full((4, 10), -1)
    clamp[0, 0], clamp[1, 1], clamp[2, 9], clamp[3, 3] = 0, 1, 1, 0
    x = all_states(10, dtype=torch.float64)
    reads = []
    for row in range(4):
        allowed = x[groups.allowed(x) & ((clamp[row] < 0) | (x == clamp[row])).all(1)]
        p = (-beta * energies(A[row : row + 1], allowed[None])[0]).softmax(0)
        drawn = torch.multinomial(p, 4000, replacement=True, generator=torch.Generator().manual_seed(row))
        reads.append(allowed[drawn])
    drawn = torch.stack(reads)
    given = SparseQubo.from_dense(A) if sparse else A
    assert ((effective_beta(given, drawn, clamp, groups) - beta).abs() < 0.08).all()
    assert ((effective_beta(given, drawn, clamp) - beta).abs() > 0.1).any()
    assert effective_beta(A[:1, :3, :3], drawn[:1, :1, :3], groups=Groups([[0, 1, 2]])).isinf().all()
    with pytest.raises(QubolearnError, match="break a group"):
        effective_beta(A, torch.zeros(4, 1, 10), groups=groups)


def test_bad_reads_are_rejected() -> None:
    A = qubos(2, 3)
    for reads, said in (
        (torch.zeros(2, 3), "shape"),
        (torch.zeros(2, 0, 3), "0, 3"),
        (-torch.ones(2, 4, 3), "spins"),
    ):
        with pytest.raises(QubolearnError, match=said):
            effective_beta(A, reads)
