"""The contract of losses, A and a batch -> one number per instance; likelihoods.

With φ(x) = xxᵀ the energy is E(x) = <A, φ(x)>. Losses that call a solver are sums
of energies around the present A: L = c + Σ_t w_t E(x_t) [+ log Z]. Such a loss
states its :class:`Terms`, which give value and gradient.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from qubolearn.data.contract import Instances, SoftTargets
from qubolearn.errors import QubolearnError, check_numbers, error_context
from qubolearn.qubo import Qubo, SparseQubo, energies
from qubolearn.solvers.contract import Solver
from qubolearn.solvers.partition import log_partition, log_partition_and_marginals


class Batch:
    """Everything besides A that a loss may use: instances, solver, features.

    ``p``, ``x_true``, ``answer`` and ``right`` of the instances are attributes, too.

    Args:
        instances: the :class:`qubolearn.Instances` of the step.
        solver: the solver of the training run, seeded for this step.
        soft: nearly right states with weights, if problem and loss have them.
        features: outputs of hidden layers, ``[batch, hidden]`` each; often empty.
        seed: the seed of this step, for a loss that draws random numbers.
    """

    def __init__(
        self,
        instances: Instances,
        solver: Solver,
        soft: SoftTargets | None = None,
        features: Sequence[Tensor] = (),
        seed: int = 0,
    ) -> None:
        self.p, self.x_true, self.answer, self.right = instances
        self.solver, self.soft, self.features = solver, soft, features
        self.seed = seed
        self._solved: tuple[Qubo, list[int], int, Tensor] | None = None

    def __len__(self) -> int:
        return len(self.x_true)

    def best(self, A: Qubo, count: int) -> Tensor:
        """Return the ``count`` lowest states that the solver finds, ``[batch, count, n]``.

        Losses of a sum share one call if the first of them requests the most states.
        """
        numbers = (A.linear, A.quadratic) if isinstance(A, SparseQubo) else (A,)
        changes = [0 if some.is_inference() else some._version for some in numbers]  # made in place
        last = self._solved
        if last is None or last[0] is not A or last[1] != changes or last[2] < count:
            self._solved = last = A, changes, count, self._ask(A.detach(), count)
        return last[3][:, :count]

    def _ask(self, A: Qubo, count: int) -> Tensor:
        """Call the solver and validate its output."""
        with error_context("the solver", self.solver, A=A):
            found = self.solver(A, count)
        states, want = getattr(found, "states", None), (A.shape[0], count, A.shape[2])
        if not isinstance(states, Tensor) or states.shape != want:
            shape = list(getattr(states, "shape", ["none"]))
            raise QubolearnError(f"the solver {self.solver!r} returned states {shape}, not {list(want)}")
        return states

    def solution(self, A: Qubo) -> Tensor:
        """Return x̂ ``[batch, n]``: the right state of lowest energy under A."""
        if self.right is None:
            return self.x_true
        E = energies(A, self.right.states).masked_fill(~self.right.valid, float("inf"))
        lowest = E.argmin(1)[:, None, None].expand(-1, 1, self.x_true.shape[1])
        return self.right.states.gather(1, lowest)[:, 0]


class Loss(ABC):
    """Base class of losses: ``loss(A, batch)`` returns one value per instance, differentiable in A.

    Losses can be added and multiplied: ``Gap() + 1e-4 * SparseFeatures()``. Derive
    from this class if the equation is not a sum of energies; a plain function
    ``f(A, batch)`` works as well.

    >>> class MeanEnergy(Loss):
    ...     def __call__(self, A, batch):
    ...         return energies(A, batch.x_true)
    >>> len((MeanEnergy() + 0.5 * MeanEnergy()).parts)
    2
    """

    #: The number of lowest states that it requests.
    states: int = 0
    #: True if it uses the soft targets of a problem.
    soft: bool = False
    #: True if it calls the solver.
    solves: bool = False
    #: True if it draws random numbers, from ``batch.seed``.
    draws: bool = False
    #: True if it runs on a GPU without the host, if the solver does.
    capturable: bool = True

    def __post_init__(self) -> None:
        check_numbers(beta=getattr(self, "beta", 1.0))

    @abstractmethod
    def __call__(self, A: Qubo, batch: Batch) -> Tensor:
        """Return the losses ``[batch]`` of A ``[batch, n, n]``."""

    def begin(self) -> Loss:
        """Return the loss for a new run: a copy if it keeps state."""
        return self

    @property
    def parts(self) -> tuple[tuple[float, Loss], ...]:
        """The losses that this one adds up, with weights."""
        return ((1.0, self),)

    def __add__(self, other: Loss | Callable[..., Tensor] | Literal[0]) -> Loss:
        if other == 0:  # sum() starts from 0
            return self
        return Sum(self.parts + as_loss(other).parts)

    def __mul__(self, weight: float) -> Loss:
        return Sum(tuple((weight * own, part) for own, part in self.parts))

    __radd__, __rmul__ = __add__, __mul__


class Terms(NamedTuple):
    """The terms of a loss: L = constant + Σ_t weights_t E(states_t) [+ log Z at ``beta``].

    They are valid near the A for which they were computed, so their gradient is the loss's.

    >>> terms = Terms(torch.ones(1, 1, 2), torch.tensor([[2.0]]))  # L = 2 E(11)
    >>> value_of(torch.tensor([[[1.0, -3.0], [0.0, 1.0]]]), terms).tolist()
    [-2.0]
    """

    states: Tensor
    weights: Tensor
    constant: Tensor | None = None
    beta: float | None = None


class EnergyLoss(Loss):
    """Base class of losses that are sums of energies; subclasses define :meth:`terms`.

    Value and gradient follow from the :class:`Terms`; docs/losses.md has an example.

    >>> class Energy(EnergyLoss):
    ...     def terms(self, A, batch):
    ...         return Terms(batch.x_true[:, None], torch.ones(len(batch), 1))
    >>> Energy()(A, batch).tolist()  # of the example of Likelihood
    [1.0]
    """

    @abstractmethod
    def terms(self, A: Qubo, batch: Batch) -> Terms:
        """Return the terms of the loss around A; no gradient is recorded."""

    def __call__(self, A: Qubo, batch: Batch) -> Tensor:
        with torch.no_grad():
            terms = self.terms(A, batch)
        if isinstance(A, SparseQubo) or not A.requires_grad:
            return value_of(A, terms)
        return _Value.apply(A, terms)  # type: ignore[no-untyped-call, no-any-return]


class _Value(torch.autograd.Function):
    """The value of terms with a closed-form gradient, faster than autograd."""

    @staticmethod
    def forward(ctx: Any, A: Tensor, terms: Terms) -> Tensor:
        states, weights = terms.states.to(A.dtype), terms.weights.to(A.dtype)
        scaled = (states * weights[:, :, None]).mT
        slope = scaled * states if states.shape[1] == 1 else scaled @ states  # both are Σ_t w_t φ(x_t)
        value = (slope * A).sum((1, 2))
        if terms.constant is not None:
            value = value + terms.constant
        if terms.beta is not None:
            log_z, marginals = log_partition_and_marginals(A.detach(), terms.beta)
            beta = min(terms.beta, torch.finfo(A.dtype).max)  # beyond, log Z overflows
            value, slope = value + log_z, slope.sub_(marginals, alpha=beta)
        ctx.save_for_backward(slope)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (slope,) = ctx.saved_tensors
        return grad[:, None, None] * slope, None


def value_of(A: Qubo, terms: Terms) -> Tensor:
    """Return the value ``[batch]``; ∂L/∂A = Σ_t w_t φ(x_t) - β E[φ]."""
    value = (terms.weights * energies(A, terms.states)).sum(-1)
    if terms.constant is not None:
        value = value + terms.constant
    return value if terms.beta is None else value + log_partition(A, terms.beta)


@dataclass(frozen=True)
class Likelihood(EnergyLoss):
    """Minus the log-likelihood of the solution: βE(x̂) + log Σ_x exp(-βE(x)).

    ∂L/∂A = β(φ(x̂) - E[φ]), with exact log Z and marginals. Several right answers
    count as a set: -log Σ_{x right} exp(-βE(x)) + log Z. Cost: 2ⁿ states, at most 30
    bits. Reference: Lafferty, McCallum and Pereira, ICML 2001.

    Args:
        beta: β, the inverse temperature.

    >>> from qubolearn import Batch, ExhaustiveSearch, Instances
    >>> A = torch.tensor([[[1.0, -3.0], [0.0, 1.0]]])
    >>> x = torch.tensor([[1.0, 0.0]])  # E(10) = 1, E(11) = -1
    >>> batch = Batch(Instances(torch.zeros(1, 3), x, x), ExhaustiveSearch())
    >>> round(Likelihood(beta=1.0)(A, batch).item(), 3)
    2.494
    """

    beta: float = 6.0

    def terms(self, A: Qubo, batch: Batch) -> Terms:
        return right_terms(A, batch, self.beta)._replace(beta=self.beta)


def right_terms(A: Qubo, batch: Batch, beta: float) -> Terms:
    """Return the terms of -log Σ_{x right} exp(-βE(x)), which for one right answer is βE(x̂)."""
    if batch.right is None:
        X = batch.x_true[:, None]
        weight = min(beta, torch.finfo(A.dtype).max)  # beyond, log Z raises for its overflow
        return Terms(X, torch.full(X.shape[:2], weight, dtype=A.dtype, device=A.device))
    X = batch.right.states
    E = energies(A, X)
    logits = (-beta * E).masked_fill(~batch.right.valid, float("-inf"))
    c = beta * logits.softmax(1)
    return Terms(X, c, -logits.logsumexp(1) - (c * E).sum(1))


@dataclass(frozen=True)
class SoftLikelihood(EnergyLoss):
    """Cross entropy against soft targets: βΣ_t w_t E(x_t) + log Σ_x exp(-βE(x)).

    Use it for numbers, whose neighboring bins are nearly right; the problem defines
    the targets. Cost: 2ⁿ states. Reference: Szegedy et al., CVPR 2016 (label smoothing).

    Args:
        beta: β, the inverse temperature.

    >>> # A and batch are those of the example of Likelihood
    >>> states = torch.tensor([[[1.0, 0.0], [1.0, 1.0]]])
    >>> batch.soft = SoftTargets(states, torch.tensor([[0.5, 0.5]]))
    >>> round(SoftLikelihood(beta=1.0)(A, batch).item(), 3)
    1.494
    """

    beta: float = 6.0
    soft = True

    def terms(self, A: Qubo, batch: Batch) -> Terms:
        if batch.soft is None:
            raise QubolearnError("SoftLikelihood needs a problem with soft_targets; use Likelihood")
        states, weights = batch.soft
        return Terms(states, self.beta * weights.to(A.dtype), beta=self.beta)


@dataclass(frozen=True)
class Contrastive(EnergyLoss):
    """The likelihood's gradient from samples x_r at β: β(E(x̂) - mean_r E(x_r)).

    Use it if n is too large for exact sums. Its value is not a likelihood. The solver needs
    ``solver.sample(A, beta)``. Reference: Hinton, Neural Computation 2002.

    Args:
        beta: β, the inverse temperature of likelihood and samples.

    >>> from qubolearn import SimulatedAnnealing
    >>> batch.solver = SimulatedAnnealing(reads=50, sweeps=100, seed=0)  # see Likelihood
    >>> bool(Contrastive(beta=6.0)(A, batch) > 11)  # at most β(E(10) - E(11)) = 12
    True
    """

    beta: float = 6.0
    solves, capturable = True, False

    def terms(self, A: Qubo, batch: Batch) -> Terms:
        sample = getattr(batch.solver, "sample", None)
        if sample is None:
            raise QubolearnError(f"{batch.solver!r} has no sample for Contrastive; use SimulatedAnnealing")
        reads = sample(A, beta=self.beta).to(A.dtype)
        down = right_terms(A, batch, self.beta)
        up = torch.full(reads.shape[:2], -self.beta / reads.shape[1], dtype=A.dtype, device=A.device)
        X, c = torch.cat([down.states.to(A.dtype), reads], 1), torch.cat([down.weights, up], 1)
        return Terms(X, c, down.constant)


@dataclass(frozen=True)
class Sum(Loss):
    """A weighted sum of losses with one solver call."""

    added: tuple[tuple[float, Loss], ...]

    @property
    def parts(self) -> tuple[tuple[float, Loss], ...]:
        return self.added

    def __post_init__(self) -> None:
        combined = {"states": max, "soft": any, "solves": any, "draws": any, "capturable": all}
        for name, combine in combined.items():
            vars(self)[name] = combine(getattr(part, name) for _, part in self.added)  # type: ignore[operator]

    def begin(self) -> Loss:
        return Sum(tuple((weight, part.begin()) for weight, part in self.added))

    def __call__(self, A: Qubo, batch: Batch) -> Tensor:
        if self.states:
            batch.best(A, self.states)
        return torch.stack([weight * part(A, batch) for weight, part in self.added]).sum(0)

    def __repr__(self) -> str:
        return " + ".join(f"{weight:g} * {part!r}" for weight, part in self.added)


@dataclass(frozen=True)
class OwnLoss(Loss):
    """A user's ``f(A, batch)`` as a loss, checked."""

    function: Callable[[Any, Batch], Tensor]
    solves = True

    def __call__(self, A: Qubo, batch: Batch) -> Tensor:
        value = self.function(A, batch)
        if not isinstance(value, Tensor) or value.shape != (len(batch),):
            shape = list(getattr(value, "shape", [type(value).__name__]))
            raise QubolearnError(f"the loss {self!r} returned {shape}; expected values [{len(batch)}]")
        return value

    def __repr__(self) -> str:
        return getattr(self.function, "__name__", None) or repr(self.function)


def as_loss(loss: Loss | Callable[..., Tensor]) -> Loss:
    """Return a ``Loss`` unchanged, other callables as :class:`OwnLoss`."""
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, type) or not callable(loss):
        hint = f"; call it: {loss.__name__}()" if isinstance(loss, type) else "; e.g. Likelihood(beta=6.0)"
        raise QubolearnError(f"expected a loss or a callable f(A, batch), got {loss!r}{hint}")
    return OwnLoss(loss)
