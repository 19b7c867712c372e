"""What a loss is: a value that takes A and a batch to one number per instance, and states its equation once.

With φ(x) = xxᵀ the energy is E(x) = <A, φ(x)>, and all losses that ask a solver are sums of energies around the present
A: L = c + Σ_t w_t E(x_t) [+ log Z]. Such a loss only says its :class:`Terms`. Value and gradient follow from these:
here by autograd, in ``training/fast`` by compiled kernels, and on a GPU as a part of a CUDA graph.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from qubolearn.errors import QubolearnError, inside
from qubolearn.problems.contract import Instances, RightAnswers, SoftTargets
from qubolearn.qubo import Qubo, SparseQubo, energies
from qubolearn.solvers.contract import Solver
from qubolearn.solvers.partition import log_partition

__all__ = ["Batch", "EnergyLoss", "Loss", "OwnLoss", "Sum", "Terms", "as_loss", "value_of"]


class Batch:
    """The instances of a step, the solver and the network's features: all that a loss may use besides A.

    All arguments are attributes, too, and so are ``p``, ``x_true``, ``answer`` and ``right`` of the instances.

    Args:
        instances: the :class:`qubolearn.Instances` of the step.
        solver: the solver of the training, with the randomness of this step. States of a wrong shape are refused.
        soft: states that are nearly right with their weights, where the problem has them and the loss wants them.
        features: outputs of the network's hidden layers, ``[batch, hidden]`` each; empty for most networks.
        energies: how to compute energies of states ``[batch, t, n]``; engines pass a faster function.
        seed: the seed of this step, for a loss that draws random numbers.

    >>> from qubolearn import ExhaustiveSearch
    >>> x = torch.tensor([[1.0, 0.0]])
    >>> batch = Batch(Instances(torch.zeros(1, 3), x, x), ExhaustiveSearch())
    >>> len(batch), batch.best(torch.tensor([[[1.0, -3.0], [0.0, 1.0]]]), 1).tolist()
    (1, [[[1.0, 1.0]]])
    """

    def __init__(
        self,
        instances: Instances,
        solver: Solver,
        soft: SoftTargets | None = None,
        features: Sequence[Tensor] = (),
        energies: Callable[[Any, Tensor], Tensor] = energies,
        seed: int = 0,
    ) -> None:
        self.p, self.x_true, self.answer, self.right = instances
        self.solver, self.soft, self.features = solver, soft, features
        self.seed = seed
        self.energies = energies  # of states [batch, t, n]; an engine may bring a faster one
        self._solved: tuple[Tensor, int, Tensor] | None = None

    def __len__(self) -> int:
        return len(self.x_true)

    def best(self, A: Qubo, count: int) -> Tensor:
        """The ``count`` lowest states of A that the solver finds, ``[batch, count, n]``, best first.

        Losses that are added up share one call, as long as the first one asks for the most states.
        """
        numbers = A.linear if isinstance(A, SparseQubo) else A
        if self._solved is None or self._solved[0].data_ptr() != numbers.data_ptr() or self._solved[1] < count:
            self._solved = numbers, count, self._ask(A.detach(), count)
        states = self._solved[2]
        return states if states.shape[1] == count else states[:, :count]

    def _ask(self, A: Qubo, count: int) -> Tensor:
        """The solver's states, whoever wrote it."""
        with inside("the solver", self.solver, A=A):
            found = self.solver(A, count)
        states, want = getattr(found, "states", None), (A.shape[0], count, A.shape[2])
        if not isinstance(states, Tensor) or states.shape != want:
            shape = list(states.shape) if isinstance(states, Tensor) else "none"
            raise QubolearnError(f"the solver {self.solver!r} returned states {shape}; want a Solution of {list(want)}")
        return states

    def solution(self, A: Qubo) -> Tensor:
        """x̂ ``[batch, n]``: the right state, or where there are several the one of lowest energy under A."""
        if self.right is None:
            return self.x_true
        E = self.energies(A, self.right.states).masked_fill(~self.right.valid, float("inf"))
        lowest = E.argmin(1)[:, None, None].expand(-1, 1, self.x_true.shape[1])
        return self.right.states.gather(1, lowest)[:, 0]


class Loss(ABC):
    """A loss as a value: ``loss(A, batch)`` gives one number per instance, ``[batch]``, differentiable in A.

    Losses can be added up and multiplied by numbers: ``Gap() + 1e-4 * SparseFeatures()``. Derive from this class where
    the equation is no sum of energies; a plain function ``f(A, batch)`` will do as well. A dataclass with a field
    ``beta`` refuses values that are no finite number above 0.

    >>> class MeanEnergy(Loss):
    ...     def __call__(self, A, batch):
    ...         return energies(A, batch.x_true)
    >>> len((MeanEnergy() + 0.5 * MeanEnergy()).parts)
    2
    """

    #: How many of the lowest states it asks of the solver; 0 where it needs none.
    states: int = 0
    #: Whether it wants the soft targets of a problem.
    soft: bool = False
    #: Whether it calls the solver at all.
    solves: bool = False
    #: Whether it draws random numbers, from ``batch.seed``.
    draws: bool = False
    #: Whether nothing in it needs the host on a GPU, if the solver does not either.
    capturable: bool = True

    def __post_init__(self) -> None:
        """Refuse an inverse temperature that is none; a dataclass calls this."""
        beta = getattr(self, "beta", 1.0)
        if not isinstance(beta, (int, float)) or not 0 < beta < float("inf"):
            raise QubolearnError(f"beta={beta!r}; want a finite inverse temperature above 0")

    @abstractmethod
    def __call__(self, A: Qubo, batch: Batch) -> Tensor:
        """A ``[batch, n, n]`` -> losses ``[batch]``."""

    def begin(self) -> Loss:
        """The loss as a training begins with it: one that remembers anything of its steps returns a new copy."""
        return self

    @property
    def parts(self) -> tuple[tuple[float, Loss], ...]:
        """The losses that this one adds up, with their weights."""
        return ((1.0, self),)

    def __add__(self, other: Loss | Callable[..., Tensor] | Literal[0]) -> Loss:
        if other == 0:  # from which sum() starts
            return self
        return Sum(self.parts + as_loss(other).parts)

    def __mul__(self, weight: float) -> Loss:
        return Sum(tuple((weight * own, part) for own, part in self.parts))

    __radd__, __rmul__ = __add__, __mul__


class Terms(NamedTuple):
    """The terms of a loss: L = constant + Σ_t weights_t E(states_t) [+ log Z at ``beta``].

    They hold in a neighbourhood of the A that they were stated for, so their gradient is that of the loss.

    Args:
        states: x_t, ``[batch, t, n]``.
        weights: w_t, ``[batch, t]``.
        constant: c, ``[batch]``, or None for 0.
        beta: the inverse temperature of log Z, or None where it is not added.
        energies: E(x_t) ``[batch, t]``, where the loss has computed them anyway.

    >>> terms = Terms(torch.ones(1, 1, 2), torch.tensor([[2.0]]))  # L = 2 E(11)
    >>> value_of(torch.tensor([[[1.0, -3.0], [0.0, 1.0]]]), terms).tolist()
    [-2.0]
    """

    states: Tensor
    weights: Tensor
    constant: Tensor | None = None
    beta: float | None = None
    energies: Tensor | None = None


class EnergyLoss(Loss):
    """A loss that is a sum of energies: subclasses state their terms, and nothing else.

    Value and gradient follow from the :class:`Terms` in every engine of ``fit``; docs/losses.md shows a whole one.

    >>> class Energy(EnergyLoss):
    ...     def terms(self, A, batch):
    ...         return Terms(batch.x_true[:, None], torch.ones(len(batch), 1))
    >>> x = torch.tensor([[1.0, 1.0]])
    >>> batch = Batch(Instances(torch.zeros(1, 3), x, x), solver=None)  # this loss asks no solver
    >>> Energy()(torch.tensor([[[1.0, -3.0], [0.0, 1.0]]]), batch).tolist()
    [-1.0]
    """

    @abstractmethod
    def terms(self, A: Qubo, batch: Batch) -> Terms:
        """The terms of the loss around A ``[batch, n, n]``, which carries no gradient here."""

    def __call__(self, A: Qubo, batch: Batch) -> Tensor:
        with torch.no_grad():
            terms = self.terms(A.detach(), batch)
        return value_of(A, terms)


def value_of(A: Qubo, terms: Terms) -> Tensor:
    """The value ``[batch]`` of terms, whose gradient is ∂L/∂A = Σ_t w_t φ(x_t) - β E[φ]."""
    value = (terms.weights * energies(A, terms.states)).sum(-1)
    if terms.constant is not None:
        value = value + terms.constant
    return value if terms.beta is None else value + log_partition(A, terms.beta)


@dataclass(frozen=True)
class Sum(Loss):
    """A weighted sum of losses; one solver call serves all that ask for the states of A itself."""

    added: tuple[tuple[float, Loss], ...]

    @property
    def parts(self) -> tuple[tuple[float, Loss], ...]:
        return self.added

    def __post_init__(self) -> None:
        losses = [part for _, part in self.added]
        vars(self).update(  # a frozen value is not assigned to
            states=max(part.states for part in losses),
            soft=any(part.soft for part in losses),
            solves=any(part.solves for part in losses),
            draws=any(part.draws for part in losses),
            capturable=all(part.capturable for part in losses),
        )

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
    """Any callable ``f(A, batch)`` of the user's as a loss: one value per instance, checked."""

    function: Callable[[Any, Batch], Tensor]
    solves = True

    def __call__(self, A: Qubo, batch: Batch) -> Tensor:
        value = self.function(A, batch)
        if not isinstance(value, Tensor) or value.shape != (len(batch),):
            shape = list(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise QubolearnError(
                f"the loss {self!r} returned {shape} for {len(batch)} instances; want one value each, [{len(batch)}]"
            )
        return value

    def __repr__(self) -> str:
        return getattr(self.function, "__name__", None) or repr(self.function)


def as_loss(loss: Loss | Callable[..., Tensor]) -> Loss:
    """A loss of ours as it is, and any other callable as :class:`OwnLoss`."""
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, type) or not callable(loss):
        hint = f"; call it: {loss.__name__}()" if isinstance(loss, type) else "; e.g. Likelihood(beta=6.0)"
        raise QubolearnError(f"loss={loss!r} is no loss: want a loss value or a callable f(A, batch){hint}")
    return OwnLoss(loss)


def refuse_several(right: RightAnswers | None, name: str, instead: str) -> None:
    """Raise where instances have several right answers and a loss cannot use them."""
    if right is not None:
        raise QubolearnError(f"{name} knows one right answer per instance, but these have several; use {instead}")
