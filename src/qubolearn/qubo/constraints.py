"""Linear inequality constraints a·x <= b on the bits of a QUBO."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.qubo.clamps import FREE
from qubolearn.qubo.groups import Groups

#: The rounding error allowed in a·x, relative to the sum of all |a_i| and |b|.
TOLERANCE = 1e-9

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LinearConstraint:
    """The constraint a·x <= b.

    Args:
        coefficients: a, as ``{bit: value}``, or an array or tensor ``[n]`` or ``[batch, n]``.
        bound: b, a number, or one number per instance ``[batch]``.

    For a·x >= b negate both; for a·x = b pass both inequalities.

    >>> from qubolearn import ExhaustiveSearch, solve
    >>> values = torch.tensor([[3.0, 4.0, 5.0]])  # a knapsack
    >>> fits = LinearConstraint([2, 3, 4], 5)  # weights and capacity
    >>> solve(-torch.diag_embed(values), ExhaustiveSearch(), 1, constraints=[fits]).states
    tensor([[[1., 1., 0.]]])
    """

    coefficients: Mapping[int, float] | npt.ArrayLike
    bound: float | npt.ArrayLike

    def arrays(self, batch: int, n: int) -> tuple[Floats, Floats]:
        """Return the coefficients ``[batch, n]`` and the bounds ``[batch]`` in float64."""
        if isinstance(self.coefficients, Mapping):
            a = np.zeros(n)
            for bit, value in self.coefficients.items():
                if not 0 <= operator.index(bit) < n:
                    raise QubolearnError(f"coefficient of bit {bit}, but the QUBO has bits 0 to {n - 1}")
                a[bit] = value
        else:
            a = _numbers("coefficients", self.coefficients)
        if a.shape not in ((n,), (1, n), (batch, n)):
            raise QubolearnError(f"coefficients of shape {list(a.shape)}; expected [{n}] or [{batch}, {n}]")
        b = _numbers("bounds", self.bound)
        if b.shape not in ((), (1,), (batch,)):
            raise QubolearnError(f"bounds of shape {list(b.shape)}; expected a number or [{batch}]")
        return np.broadcast_to(a, (batch, n)), np.broadcast_to(b, (batch,))


def _numbers(name: str, given: Any) -> Floats:
    try:
        values = np.asarray(given.detach().cpu() if isinstance(given, Tensor) else given, dtype=np.float64)
    except (TypeError, ValueError):
        raise QubolearnError(f"{name} {given!r}; expected numbers") from None
    if (wrong := values[~np.isfinite(values)]).size:
        raise QubolearnError(f"{wrong[0]} among the {name}; expected finite numbers")
    return values


class Inequalities:
    """Checked constraints: ``coefficients [batch, m, n]`` and ``bounds [batch, m]``."""

    def __init__(self, constraints: Sequence[LinearConstraint], batch: int, n: int) -> None:
        pairs = []
        for number, constraint in enumerate(constraints):
            try:
                pairs.append(constraint.arrays(batch, n))
            except QubolearnError as error:
                raise QubolearnError(f"constraint {number}: {error}") from None
            except AttributeError:
                raise QubolearnError(f"expected a list of LinearConstraint, got {constraints!r}") from None
        self.coefficients = np.stack([a for a, _ in pairs], 1) if pairs else np.zeros((batch, 0, n))
        self.bounds = np.stack([b for _, b in pairs], 1) if pairs else np.zeros((batch, 0))
        self.tolerance = TOLERANCE * (np.abs(self.coefficients).sum(2) + np.abs(self.bounds))

    def lists(self) -> tuple[Any, ...]:
        """Return what kernels take: starts, numbers, coefficients and bounds."""
        n = self.coefficients.shape[2]
        bit, which = np.nonzero((self.coefficients != 0).any(0).T)
        starts = np.zeros(n + 1, np.int64)
        np.cumsum(np.bincount(bit, minlength=n), out=starts[1:])
        values = np.ascontiguousarray(self.coefficients[:, which, bit])
        return starts, which.astype(np.int64), values, np.ascontiguousarray(self.bounds)

    def satisfied(self, states: Tensor) -> Tensor:
        """Return which states ``[batch, c, n]`` satisfy all constraints."""
        loads = np.einsum("bmn,bcn->bcm", self.coefficients, states.detach().cpu().double().numpy())
        return torch.from_numpy((loads <= (self.bounds + self.tolerance)[:, None]).all(2)).to(states.device)

    def check_possible(self, clamp: Tensor, groups: Groups) -> None:
        """Raise if a constraint alone excludes every allowed state."""
        held = clamp.numpy()[:, None]
        single = np.where(held == FREE, np.minimum(self.coefficients, 0), self.coefficients * held)
        inside = groups.of_bits(clamp.shape[1]).numpy() >= 0
        least = single[:, :, ~inside].sum(2)
        for group in groups.members:
            bits = list(group)
            least += np.where(held[:, :, bits] == 0, np.inf, self.coefficients[:, :, bits]).min(2)
        wrong = least > self.bounds + self.tolerance
        if wrong.any():
            row, number = (int(k[0]) for k in np.nonzero(wrong))
            raise QubolearnError(
                f"constraint {number} of instance {row} excludes every state: a·x is at least {least[row, number]:g}, "
                f"its bound is {self.bounds[row, number]:g}"
            )
