"""A solver as a layer of any network, with a choice of gradient through its argmin."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from qubolearn.errors import check_counts, check_numbers, unknown_name
from qubolearn.qubo import Qubo, SparseQubo, check_qubo
from qubolearn.random import stream
from qubolearn.solvers.contract import Solver, check_solver

__all__ = ["Backward", "QuboLayer"]

Backward = Literal["none", "blackbox", "perturbed"]


class QuboLayer(nn.Module):
    """Map A ``[batch, n, n]``, dense or sparse, to its minimizer x* ``[batch, n]``.

    The minimizer is piecewise constant in A, so its true gradient is zero almost everywhere. ``backward`` selects a
    replacement:

    - ``none``: no gradient. Losses that are differentiable in A itself (gap, hinge, likelihood) need nothing else.
    - ``blackbox``: with g = ∂L/∂x*, solve once more for x' = argmin of A + strength·diag(g); the gradient is
      (φ(x') - φ(x*)) / strength. One more solver call in the backward pass. Vlastelica et al., ICLR 2020.
    - ``perturbed``: return the mean of x* over ``samples`` draws of A + strength·Z, Z standard normal on the entries
      of A that are not zero; the gradient is E[<g, x*> Z] / strength. ``samples`` solver calls forward, none backward.
      Berthet et al., NeurIPS 2020.

    Args:
        solver: any solver.
        backward: one of the three rules.
        strength: the step of ``blackbox``, the standard deviation of ``perturbed``; above 0.
        samples: the number of draws of ``perturbed``.
        seed: the seed of these draws.

    >>> from qubolearn.solvers import ExhaustiveSearch
    >>> A = torch.tensor([[[1.0, -3.0], [0.0, 1.0]]], requires_grad=True)
    >>> x = QuboLayer(ExhaustiveSearch(), backward="blackbox", strength=2.0)(A)
    >>> x.tolist()
    [[1.0, 1.0]]
    >>> x[0, 0].backward()  # L = x_0: the gradient raises the couplings that switch bit 0 on
    >>> A.grad.tolist()
    [[[-0.5, -0.5], [-0.5, -0.5]]]
    """

    def __init__(
        self, solver: Solver, backward: Backward = "blackbox", strength: float = 1.0, samples: int = 16, seed: int = 0
    ) -> None:
        super().__init__()
        check_solver(solver)
        if backward not in ("none", "blackbox", "perturbed"):
            raise unknown_name("backward rule", backward, ["none", "blackbox", "perturbed"])
        check_numbers(strength=strength)
        check_counts(samples=samples)
        self.solver = solver
        self.backward_rule = backward
        self.strength = strength
        self.samples = samples
        self._noise = stream(seed, "perturbed")

    def forward(self, A: Qubo) -> Tensor:
        check_qubo(A)
        rule: Any = {"blackbox": _Blackbox, "perturbed": _Perturbed}.get(self.backward_rule)
        if rule is None:
            return self.solver(A.detach(), 1).states[:, 0]
        minimizer: Tensor = rule.apply(self, A.detach(), *_numbers(A))
        return minimizer

    def noise(self, A: Qubo) -> list[Tensor]:
        """Draw Z ``[samples, ...]`` for each tensor of A's numbers; zero entries get none."""
        draw = (torch.randn(self.samples, *some.shape, generator=self._noise) for some in _numbers(A))
        return [Z.to(some) * (some != 0) for Z, some in zip(draw, _numbers(A), strict=True)]

    def extra_repr(self) -> str:
        return f"{self.solver}, backward={self.backward_rule!r}, strength={self.strength}"


class _Blackbox(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, layer: QuboLayer, A: Qubo, *numbers: Tensor) -> Tensor:
        x_star = layer.solver(A, 1).states[:, 0]
        ctx.layer, ctx.A = layer, A
        ctx.save_for_backward(x_star)
        return x_star

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (x_star,), strength = ctx.saved_tensors, ctx.layer.strength
        step, first, *rest = strength * grads[0], *_numbers(ctx.A)
        moved = _with_numbers(ctx.A, first + step if rest else first + torch.diag_embed(step), *rest)
        x_moved = ctx.layer.solver(moved, 1).states[:, 0]
        pairs = zip(_features(ctx.A, x_moved), _features(ctx.A, x_star), strict=True)
        return None, None, *((after - before) / strength for after, before in pairs)


class _Perturbed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, layer: QuboLayer, A: Qubo, *numbers: Tensor) -> Tensor:
        Z = layer.noise(A)
        noisy = (some + layer.strength * noise for some, noise in zip(numbers, Z, strict=True))
        states = layer.solver(_with_numbers(A, *(some.flatten(0, 1) for some in noisy)), 1).states
        x = states.reshape(layer.samples, len(A), A.shape[2])
        ctx.strength = layer.strength
        ctx.save_for_backward(x, *Z)
        return x.mean(0)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, *Z = ctx.saved_tensors
        # Centering x on its mean keeps the expectation, since E[Z] = 0, and lowers the variance.
        inner = ((x - x.mean(0)) * grads[0]).sum(-1)  # [samples, batch]
        scaled = (inner.reshape(*inner.shape, *[1] * (some.ndim - 2)) * some for some in Z)
        return None, None, *(some.mean(0) / ctx.strength for some in scaled)


def _numbers(A: Qubo) -> tuple[Tensor, ...]:
    """Return the tensors that a gradient is taken for."""
    return (A.linear, A.quadratic) if isinstance(A, SparseQubo) else (A,)


def _with_numbers(A: Qubo, *numbers: Tensor) -> Qubo:
    return A.with_values(*numbers) if isinstance(A, SparseQubo) else numbers[0]


def _features(A: Qubo, x: Tensor) -> tuple[Tensor, ...]:
    """Return φ(x), the gradient of xᵀAx in each of the numbers of A."""
    if isinstance(A, SparseQubo):
        i, j = A.edges
        return x, x[:, i] * x[:, j]
    return (x[:, :, None] * x[:, None, :],)
