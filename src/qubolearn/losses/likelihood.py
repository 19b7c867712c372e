"""Likelihood of the solution under the Boltzmann distribution of A, exp(-βE(x)) / Z: exact, soft, and from samples."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from qubolearn.errors import QubolearnError
from qubolearn.losses.contract import Batch, EnergyLoss, Terms
from qubolearn.qubo import Qubo

__all__ = ["Contrastive", "Likelihood", "SoftLikelihood"]


@dataclass(frozen=True)
class Likelihood(EnergyLoss):
    """Minus the log-likelihood of the solution: βE(x̂) + log Σ_x exp(-βE(x)).

    ∂L/∂A = β(φ(x̂) - E[φ]), with exact log-partition function and pair marginals. Where instances have several right
    answers, it is the likelihood of their set: -log Σ_{x right} exp(-βE(x)) + log Z. Cost: 2ⁿ states per instance; more
    than 30 bits are refused.

    Args:
        beta: β, the inverse temperature.

    >>> from qubolearn import Batch, ExhaustiveSearch, Instances
    >>> A, x = torch.tensor([[[1.0, -3.0], [0.0, 1.0]]]), torch.tensor([[1.0, 0.0]])  # E(10) = 1, E(11) = -1
    >>> batch = Batch(Instances(torch.zeros(1, 3), x, x), ExhaustiveSearch())
    >>> round(Likelihood(beta=1.0)(A, batch).item(), 3)
    2.494
    """

    beta: float = 6.0

    def terms(self, A: Qubo, batch: Batch) -> Terms:
        return right_terms(A, batch, self.beta)._replace(beta=self.beta)


def right_terms(A: Qubo, batch: Batch, beta: float) -> Terms:
    """-log Σ_{x right} exp(-βE(x)), which for one right answer is βE(x̂)."""
    if batch.right is None:
        X = batch.x_true[:, None]
        weight = min(beta, torch.finfo(A.dtype).max)  # beyond, log Z says that it overflows
        return Terms(X, torch.full(X.shape[:2], weight, dtype=A.dtype, device=A.device))
    X = batch.right.states
    E = batch.energies(A, X)
    logits = (-beta * E).masked_fill(~batch.right.valid, float("-inf"))
    c = beta * logits.softmax(1)
    return Terms(X, c, -logits.logsumexp(1) - (c * E).sum(1), energies=E)


@dataclass(frozen=True)
class SoftLikelihood(EnergyLoss):
    """Cross entropy against the soft targets of the problem: βΣ_t w_t E(x_t) + log Σ_x exp(-βE(x)).

    It is for solutions that are numbers, where the neighboring bins are nearly right. It equals :class:`Likelihood`
    where the only soft target is the solution. A problem without soft targets is refused. Cost: 2ⁿ states per instance.

    Args:
        beta: β, the inverse temperature.

    >>> from qubolearn import Batch, ExhaustiveSearch, Instances
    >>> from qubolearn.data.contract import SoftTargets
    >>> A, x = torch.tensor([[[1.0, -3.0], [0.0, 1.0]]]), torch.tensor([[1.0, 0.0]])
    >>> soft = SoftTargets(torch.tensor([[[1.0, 0.0], [1.0, 1.0]]]), torch.tensor([[0.5, 0.5]]))
    >>> batch = Batch(Instances(torch.zeros(1, 3), x, x), ExhaustiveSearch(), soft)
    >>> round(SoftLikelihood(beta=1.0)(A, batch).item(), 3)
    1.494
    """

    beta: float = 6.0
    soft = True

    def terms(self, A: Qubo, batch: Batch) -> Terms:
        if batch.soft is None:
            raise QubolearnError("SoftLikelihood needs a problem with soft_targets; this data has none, use Likelihood")
        states, weights = batch.soft
        return Terms(states, self.beta * weights.to(A.dtype), beta=self.beta)


@dataclass(frozen=True)
class Contrastive(EnergyLoss):
    """The likelihood's gradient from samples: β(E(x̂) - mean_r E(x_r)), x_r drawn by the solver at β.

    It is :class:`Likelihood` with the marginals estimated from samples, for n beyond exact sums; its value is not a
    likelihood. A solver that cannot draw at a temperature (``solver.sample(A, beta)``) is refused.
    Reference: Hinton, Neural Computation 2002.

    Args:
        beta: β, the inverse temperature of likelihood and samples.

    >>> from qubolearn import Batch, Instances, SimulatedAnnealing
    >>> A, x = torch.tensor([[[1.0, -3.0], [0.0, 1.0]]]), torch.tensor([[1.0, 0.0]])
    >>> batch = Batch(Instances(torch.zeros(1, 3), x, x), SimulatedAnnealing(reads=50, sweeps=100, seed=0))
    >>> bool(Contrastive(beta=6.0)(A, batch) > 11)  # β(E(10) - E(11)) = 12, less a few reads at higher energies
    True
    """

    beta: float = 6.0
    solves, capturable = True, False

    def terms(self, A: Qubo, batch: Batch) -> Terms:
        sample = getattr(batch.solver, "sample", None)
        if sample is None:
            raise QubolearnError(
                f"Contrastive needs a solver that draws samples, not {batch.solver!r}; use SimulatedAnnealing or "
                "ParallelTempering"
            )
        reads = sample(A, beta=self.beta).to(A.dtype)
        down = right_terms(A, batch, self.beta)
        up = torch.full(reads.shape[:2], -self.beta / reads.shape[1], dtype=A.dtype, device=A.device)
        X, c = torch.cat([down.states.to(A.dtype), reads], 1), torch.cat([down.weights, up], 1)
        return Terms(X, c, down.constant)
