"""Learn from costs: the true QUBO scores the minimizer of the predicted one.

The score is normalized regret, Σ (E_true(x) - E_true(x̂)) / Σ |E_true(x̂)|, with the decision x of
A and the best decision x̂.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from qubolearn.data.arrays import Arrays, as_tensors, count_rows
from qubolearn.data.contract import Instances, check_bits
from qubolearn.errors import QubolearnError, check_counts, check_numbers
from qubolearn.losses.contract import Batch, EnergyLoss, Loss, Terms
from qubolearn.qubo import Clamp, Groups, Qubo, SparseQubo, as_dense, check_qubo, energies, upper_triangular
from qubolearn.random import stream
from qubolearn.solvers.auto import AutoSolver
from qubolearn.solvers.contract import QuboSolver, SearchResult, Solver, solve

__all__ = ["CostData", "CostRegression", "ListedStates", "PerturbedFenchelYoung", "SPOPlus", "regret"]


class CostData(Arrays):
    """Inputs p ``[N, m]`` with the true QUBOs of their decisions, scored by normalized regret.

    Args:
        p: NumPy or torch, ``[N, m]``, or a structure of arrays with N rows.
        A_true: the true QUBOs ``[N, n, n]``, or a :class:`qubolearn.SparseQubo`.
        groups: sets of bits of which exactly one is 1 in every decision.
        clamp: bits with known values, as in :func:`qubolearn.solve`, or a function of p.
        solver: finds the best decisions x̂; by default :class:`qubolearn.AutoSolver`.
        x: the best decisions ``[N, n]``, if they are known.
        validation, test, seed: the split, as for :class:`qubolearn.Arrays`.

    >>> p = torch.tensor([[1.0], [2.0]])
    >>> A_true = torch.tensor([[[1.0, -3.0], [0.0, 1.0]]]) * p[:, :, None]
    >>> data = CostData(p, A_true, validation=0)
    >>> data.whole("train").x_true.tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """

    name: ClassVar[str] = "costs"
    metric: ClassVar[str] = "regret"
    higher_is_better: ClassVar[bool] = False

    def __init__(
        self,
        p: Any,
        A_true: Any,
        *,
        groups: Groups | None = None,
        clamp: Clamp | Callable[[Any], Tensor | None] | None = None,
        solver: Solver | None = None,
        x: Any = None,
        validation: float = 0.1,
        test: float = 0.0,
        seed: int = 0,
    ) -> None:
        costs = A_true if isinstance(A_true, SparseQubo) else _tensor(A_true)
        check_qubo(costs := costs.to(torch.float32), "A_true")
        self.solver, self._groups, self._clamp = solver or AutoSolver(), groups, clamp
        if x is None:
            x = solve(costs, self.solver, 1, clamp=self.clamp(as_tensors(p)), groups=groups).states[:, 0]
        super().__init__(p, x, validation=validation, test=test, seed=seed, answer=costs)
        if count_rows(self.instances.p) != len(costs) or self.bits != costs.shape[2]:
            shape = list(costs.shape)
            raise QubolearnError(f"A_true is {shape}; expected {len(x)} QUBOs of {self.bits} bits, as x has")

    @property
    def groups(self) -> Groups | None:
        return self._groups

    def clamp(self, p: Any) -> Any:
        return self._clamp(p) if callable(self._clamp) else self._clamp

    def default_solver(self) -> Solver:
        return self.solver

    def score(self, answer: Tensor, instances: Instances) -> dict[str, Tensor]:
        """Return ``regret``, scaled so that its mean is the normalized regret, and ``optimal``, 1 if it is zero."""
        A_true: Any = instances.answer
        excess = regret(A_true, answer, instances.x_true)
        best = energies(A_true.to(torch.float64), instances.x_true)
        scale = best.abs().mean().clamp_min(torch.finfo(torch.float32).tiny)
        return {"regret": excess / scale, "optimal": (excess <= 1e-6 * scale).double()}


def _tensor(A_true: Any) -> Tensor:
    try:
        return torch.as_tensor(np.asarray(A_true) if not isinstance(A_true, Tensor) else A_true)
    except (TypeError, ValueError):
        kind = type(A_true).__name__
        raise QubolearnError(f"A_true is a {kind}; expected numbers [N, n, n] or a SparseQubo") from None


def regret(A_true: Qubo, x: Tensor, x_best: Tensor) -> Tensor:
    """Return E_true(x) - E_true(x_best) ``[batch]`` in float64."""
    found = energies(A_true.to(torch.float64), torch.stack([x, x_best], 1))
    return found[:, 0] - found[:, 1]


@dataclass(frozen=True)
class SPOPlus(EnergyLoss):
    """A convex bound of the regret: max_x (E_true(x) - 2E(x)) + 2E(x̂) - E_true(x̂).

    The maximum is at x̃ = argmin of 2A - A_true, so ∂L/∂A = 2(φ(x̂) - φ(x̃)), with one solver call.
    If the network can express the costs, :class:`CostRegression` needs less data. Elmachtoub and
    Grigas, Management Science 2022.

    >>> from qubolearn import Batch, ExhaustiveSearch, Instances
    >>> A_true, x = torch.tensor([[[1.0, -3.0], [0.0, 1.0]]]), torch.tensor([[1.0, 1.0]])
    >>> batch = Batch(Instances(torch.zeros(1, 3), x, A_true), ExhaustiveSearch())
    >>> [SPOPlus()(A, batch).item() for A in (A_true, -A_true)]  # with regrets 0 and 2
    [0.0, 6.0]
    """

    solves, capturable = True, False

    def terms(self, A: Qubo, batch: Batch) -> Terms:
        A_true = _costs(A, batch, "SPOPlus")
        x_tilde = batch.solver(_combined(2, A, A_true), 1).states[:, 0]
        X = torch.stack([batch.x_true.to(A.dtype), x_tilde], 1)
        best, other = energies(A_true, X).unbind(1)
        weights = torch.tensor([2.0, -2.0], dtype=A.dtype, device=A.device).expand(len(batch), 2)
        return Terms(X, weights, other - best)


@dataclass(frozen=True)
class PerturbedFenchelYoung(EnergyLoss):
    """The perturbed loss E(x̂) - E_Z[min_x E(x; A + σZ)], with normal noise Z on nonzero entries of A.

    ∂L/∂A = φ(x̂) - E[φ(x*)]. It uses the best decisions, not their costs, and ``samples`` solver
    calls. Reference: Berthet et al., NeurIPS 2020.

    Args:
        strength: σ, the standard deviation of the noise, in units of A.
        samples: draws of Z per instance.

    >>> from qubolearn import Batch, ExhaustiveSearch, Instances
    >>> A = torch.tensor([[[1.0, -3.0], [0.0, 1.0]]])
    >>> x = torch.tensor([[1.0, 0.0]])  # E(10) - E(11) = 2
    >>> batch = Batch(Instances(torch.zeros(1, 3), x, x), ExhaustiveSearch())
    >>> round(PerturbedFenchelYoung(strength=1e-3)(A, batch).item(), 2)
    2.0
    """

    strength: float = 1.0
    samples: int = 8
    solves, draws, capturable = True, True, False

    def __post_init__(self) -> None:
        check_numbers(strength=self.strength)
        check_counts(samples=self.samples)

    def terms(self, A: Qubo, batch: Batch) -> Terms:
        dense = as_dense(A)  # the noise is
        shape, draws = (self.samples, *dense.shape), stream(batch.seed, "fenchel-young")
        noise = self.strength * torch.randn(shape, generator=draws).to(dense) * (dense != 0)
        some = [batch.solver(dense + Z, 1).states[:, 0] for Z in noise]
        X = torch.stack([batch.x_true.to(A.dtype), *some], 1)
        moved = torch.stack([energies(Z, x) for Z, x in zip(noise, some, strict=True)]).mean(0)
        weights = torch.full(X.shape[:2], -1 / self.samples, dtype=A.dtype, device=A.device)
        weights[:, 0] = 1
        return Terms(X, weights, -moved)


@dataclass(frozen=True)
class CostRegression(Loss):
    """The two-stage baseline, without a solver: the mean squared error of A_ij + A_ji over i <= j.

    Reference: Elmachtoub and Grigas, Management Science 2022.

    >>> from qubolearn import Batch, Instances
    >>> A_true, x = torch.tensor([[[1.0, -3.0], [0.0, 1.0]]]), torch.tensor([[1.0, 1.0]])
    >>> batch = Batch(Instances(x, x, A_true), solver=None)
    >>> CostRegression()(A_true.mT + torch.eye(2), batch).item()
    0.6666666865348816
    """

    capturable = False

    def __call__(self, A: Qubo, batch: Batch) -> Tensor:
        apart = _combined(1, A, _costs(A, batch, "CostRegression"))
        if isinstance(apart, SparseQubo):
            return torch.cat([apart.linear, apart.quadratic], 1).square().mean(1)
        return upper_triangular(apart).square().sum((1, 2)) / (A.shape[2] * (A.shape[2] + 1) / 2)


@dataclass(frozen=True, eq=False)
class ListedStates(QuboSolver):
    """Search a list of allowed states ``[s, n]`` exactly.

    Paths, tours, assignments or subsets of up to about 10,000 states are one matrix product.

    >>> solver = ListedStates(torch.tensor([[1, 0], [0, 1]]))
    >>> solver(torch.tensor([[[1.0, -3.0], [0.0, 0.0]]]), 1).states.tolist()
    [[[0.0, 1.0]]]
    """

    states: Tensor

    def __post_init__(self) -> None:
        states = _tensor(self.states)
        if states.ndim != 2 or not len(states):
            raise QubolearnError(f"states are {list(states.shape)}; expected [s, n] with at least one state")
        check_bits(states, "states")
        object.__setattr__(self, "states", torch.unique(states, dim=0))

    def search(self, A: Tensor, count: int) -> SearchResult:
        if self.states.shape[1] != A.shape[2] or count > len(self.states):
            size = list(self.states.shape)
            raise QubolearnError(f"A is {list(A.shape)} and count={count}, but the listed states are {size}")
        states = self.states.to(A)
        i, j = (A != 0).any(0).nonzero().T
        E = A[:, i, j] @ (states[:, i] * states[:, j]).T  # [batch, s]
        lowest = states[E.topk(count, 1, largest=False).indices]
        return SearchResult(lowest, {"source": "exhaustive"}, distinct=True)


def _costs(A: Qubo, batch: Batch, name: str) -> Qubo:
    A_true: Any = batch.answer
    if not isinstance(A_true, (Tensor, SparseQubo)) or A_true.shape != A.shape:
        given = list(getattr(A_true, "shape", []))
        raise QubolearnError(f"{name} needs A_true {list(A.shape)}, got {given}; pass CostData(p, A_true)")
    return A_true.to(A.device, A.dtype)


def _combined(factor: float, A: Qubo, A_true: Qubo) -> Qubo:
    """Return factor · A - A_true, sparse if both are on one graph."""
    if isinstance(A, SparseQubo) and isinstance(A_true, SparseQubo) and torch.equal(A.edges, A_true.edges):
        return A.with_values(factor * A.linear - A_true.linear, factor * A.quadratic - A_true.quadratic)
    return factor * as_dense(A) - as_dense(A_true)
