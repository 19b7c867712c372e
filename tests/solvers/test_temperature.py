"""The pseudo-likelihood estimate of β."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.qubo import SparseQubo, all_states, energies
from qubolearn.solvers.temperature import effective_beta


def exact_samples(A: Tensor, beta: float, reads: int, seed: int = 0) -> Tensor:
    """Return exact Boltzmann draws ``[batch, reads, n]``."""
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


def test_bad_reads_are_rejected() -> None:
    A = qubos(2, 3)
    for reads, message in (
        (torch.zeros(2, 3), "shape"),
        (torch.zeros(2, 0, 3), "0, 3"),
        (-torch.ones(2, 4, 3), "spins"),
    ):
        with pytest.raises(QubolearnError, match=message):
            effective_beta(A, reads)
