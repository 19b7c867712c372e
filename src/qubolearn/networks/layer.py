"""A solver as a layer of any network, with a choice of gradient through its argmin."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from qubolearn.errors import QubolearnError, unknown_name
from qubolearn.randomness import stream
from qubolearn.solvers.contract import Solver

__all__ = ["Backward", "QuboLayer"]

Backward = Literal["none", "blackbox", "perturbed"]


class QuboLayer(nn.Module):
    """A ``[batch, n, n]`` -> its minimiser x* ``[batch, n]``.

    The minimiser is piecewise constant in A, so its true gradient is zero almost everywhere. ``backward`` says
    what stands in for it:

    - ``none``: no gradient. Losses that are differentiable in A itself (gap, hinge, NLL) need nothing else.
    - ``blackbox``: with g = ∂L/∂x*, solve once more for x' = argmin of A + strength·diag(g); the gradient is
      (φ(x') - φ(x*)) / strength. One more solver call in the backward pass. Vlastelica et al., ICLR 2020.
    - ``perturbed``: returns the mean of x* over ``samples`` draws of A + strength·Z, Z standard normal on the
      entries of A that are not zero; the gradient is E[<g, x*> Z] / strength. ``samples`` solver calls forward,
      none backward. Berthet et al., NeurIPS 2020.

    Args:
        solver: any solver.
        backward: one of the three.
        strength: the step of ``blackbox``, the deviation of ``perturbed``; above 0.
        samples: draws of ``perturbed``.
        seed: fixes these draws.

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
        self,
        solver: Solver,
        backward: Backward = "blackbox",
        strength: float = 1.0,
        samples: int = 16,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if backward not in ("none", "blackbox", "perturbed"):
            raise unknown_name("backward rule", backward, ["none", "blackbox", "perturbed"])
        if not strength > 0 or samples < 1:
            raise QubolearnError(f"strength={strength}, samples={samples}; both must be positive")
        self.solver = solver
        self.backward_rule = backward
        self.strength = strength
        self.samples = samples
        self._noise = stream(seed, "perturbed")

    def forward(self, A: Tensor) -> Tensor:
        if self.backward_rule == "none":
            return self.solver(A.detach(), 1).states[:, 0]
        if self.backward_rule == "blackbox":
            return _Blackbox.apply(A, self.solver, self.strength)  # type: ignore[no-any-return, no-untyped-call]
        Z = torch.randn(self.samples, *A.shape, generator=self._noise, dtype=torch.float32).to(A)
        return _Perturbed.apply(A, self.solver, self.strength, Z * (A != 0))  # type: ignore[no-any-return, no-untyped-call]

    def extra_repr(self) -> str:
        return f"{self.solver}, backward={self.backward_rule!r}, strength={self.strength}"


class _Blackbox(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, A: Tensor, solver: Solver, strength: float) -> Tensor:
        x_star = solver(A.detach(), 1).states[:, 0]
        ctx.solver, ctx.strength = solver, strength
        ctx.save_for_backward(A, x_star)
        return x_star

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        A, x_star = ctx.saved_tensors
        x_moved = ctx.solver(A + ctx.strength * torch.diag_embed(grads[0]), 1).states[:, 0]
        return (_outer(x_moved) - _outer(x_star)) / ctx.strength, None, None


class _Perturbed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, A: Tensor, solver: Solver, strength: float, Z: Tensor) -> Tensor:
        samples, batch, n, _ = Z.shape
        noisy = (A.detach() + strength * Z).reshape(samples * batch, n, n)
        x = solver(noisy, 1).states[:, 0].reshape(samples, batch, n)
        ctx.strength = strength
        ctx.save_for_backward(x, Z)
        return x.mean(0)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        x, Z = ctx.saved_tensors
        # Centring x on its mean leaves the expectation as it is, since E[Z] = 0, and lowers the variance.
        inner = ((x - x.mean(0)) * grads[0]).sum(-1)  # [samples, batch]
        return (inner[:, :, None, None] * Z).mean(0) / ctx.strength, None, None, None


def _outer(x: Tensor) -> Tensor:
    return x[:, :, None] * x[:, None, :]
