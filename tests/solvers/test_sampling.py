"""Draws at a chosen temperature."""

from __future__ import annotations

import pytest
import torch

from qubolearn.errors import QubolearnError
from qubolearn.solvers import pair_marginals
from qubolearn.solvers.annealing import SimulatedAnnealing
from qubolearn.solvers.contract import SamplingSolver
from qubolearn.solvers.dimod_adapter import neal
from qubolearn.solvers.quantum import QuantumAnnealing


def qubos(kind: str, n: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(n)
    A = torch.randn(4, n, n, generator=generator, dtype=torch.float64)
    return {"dense": A, "integer": A.round(), "tiny": 1e-2 * A, "zero": 0 * A}[kind]


@pytest.mark.parametrize("kind", ["dense", "integer", "tiny", "zero"])
@pytest.mark.parametrize("n", [1, 2, 5, 9])
@pytest.mark.parametrize("beta", [0.1, 1.0, 3.0])
def test_draws_at_beta_have_the_exact_marginals(kind: str, n: int, beta: float) -> None:
    """A frozen anneal misses them by up to 0.77."""
    A = qubos(kind, n)
    x = SimulatedAnnealing(reads=8192, seed=0).sample(A, beta)
    found = x.mT @ x / x.shape[1]
    torch.testing.assert_close(found, pair_marginals(A, beta), atol=0.03, rtol=0)  # 5 deviations


@pytest.mark.parametrize("beta", [0.0, -1.0, float("nan"), float("inf")])
def test_a_bad_beta_is_rejected(beta: float) -> None:
    with pytest.raises(QubolearnError, match="beta="):
        SimulatedAnnealing(reads=1, sweeps=1).sample(qubos("dense", 2), beta)


@pytest.mark.parametrize("solver", [neal(reads=2, sweeps=2), QuantumAnnealing(reads=2)])
def test_solvers_without_a_temperature_reject_beta(solver: SamplingSolver) -> None:
    with pytest.raises(QubolearnError, match="beta"):
        solver.sample(qubos("dense", 2), 1.0)
