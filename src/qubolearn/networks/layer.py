"""A solver as a layer of any network, with a choice of gradient through its argmin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from qubolearn.errors import check_counts, check_numbers, unknown_name
from qubolearn.qubo import Qubo, SparseQubo, check_qubo
from qubolearn.random import stream
from qubolearn.solvers.contract import Solver, check_solver

Backward = Literal["none", "blackbox", "perturbed"]

#: The default step of ``blackbox``, in units of A. Max-cut had 36 % regret at 0.3, 7 % at 10.
RELATIVE = 10.0


class QuboLayer(nn.Module):
    """Map A ``[batch, n, n]`` to its minimizer x* ``[batch, n]``, or to its pairs x*x*ᵀ.

    A linear loss needs x*; a quadratic one, such as the cost <A_true, x*x*ᵀ>, needs
    the pairs. The gradient of the minimizer is zero almost everywhere; ``backward``
    replaces it:

    - ``none``: no gradient.
    - ``blackbox``: with g = ∂L/∂x*, solve once more for x' = argmin of A + strength·diag(g), or of A + strength·G with
      G = ∂L/∂φ for pairs; the gradient is (φ(x') - φ(x*)) / strength. Vlastelica et al., ICLR 2020.
    - ``perturbed``: return the mean of x* over ``samples`` draws of A + strength·Z, Z standard normal on the entries
      of A that are not zero; the gradient is E[<g, x*> Z] / strength. Berthet et al., NeurIPS 2020.

    Args:
        solver: any solver.
        backward: one of the three rules.
        strength: the step of ``blackbox``, by default one that moves A by ten times its norm; the standard deviation of
            ``perturbed``, by default 1.
        samples, seed: the number of draws of ``perturbed``, and their seed.
        pairs: return x*x*ᵀ ``[batch, n, n]``; of a sparse A, x* and the products ``[batch, m]`` of its edges.

    >>> from qubolearn.solvers import ExhaustiveSearch
    >>> A = torch.tensor([[[1.0, -3.0], [0.0, 1.0]]], requires_grad=True)
    >>> x = QuboLayer(ExhaustiveSearch(), backward="blackbox", strength=2.0)(A)
    >>> x[0, 0].backward()  # x = 11; descending L = x_0 makes x_0 = 1 cost more
    >>> A.grad.tolist()
    [[[-0.5, -0.5], [-0.5, -0.5]]]
    """

    def __init__(
        self,
        solver: Solver,
        backward: Backward = "blackbox",
        strength: float | None = None,
        samples: int = 16,
        seed: int = 0,
        pairs: bool = False,
    ) -> None:
        super().__init__()
        check_solver(solver)
        if backward not in get_args(Backward):
            raise unknown_name("backward rule", backward, get_args(Backward))
        check_numbers(strength=1.0 if strength is None else strength)
        check_counts(samples=samples)
        self.solver, self.backward_rule, self.strength = solver, backward, strength
        self.samples, self.pairs, self._noise = samples, pairs, stream(seed, "perturbed")

    def forward(self, A: Qubo) -> Any:
        check_qubo(A)
        rule: Any = {"blackbox": _Blackbox, "perturbed": _Perturbed}.get(self.backward_rule)
        if rule is None:
            found = self.outputs(A, self.solver(A.detach(), 1).states[:, 0])
        else:
            found = rule.apply(self, A.detach(), *_numbers(A))
        return found if len(found) > 1 else found[0]

    def outputs(self, A: Qubo, x: Tensor) -> tuple[Tensor, ...]:
        """Return the layer's output for states x ``[..., n]``."""
        return _features(A, x) if self.pairs else (x,)

    def noise(self, A: Qubo) -> list[Tensor]:
        """Draw Z ``[samples, ...]`` for A's numbers; zero entries get none."""
        draw = (torch.randn(self.samples, *some.shape, generator=self._noise) for some in _numbers(A))
        return [Z.to(some) * (some != 0) for Z, some in zip(draw, _numbers(A), strict=True)]

    def extra_repr(self) -> str:
        return f"{self.solver}, backward={self.backward_rule!r}, strength={self.strength}"


class _Blackbox(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, layer: QuboLayer, A: Qubo, *numbers: Tensor) -> tuple[Tensor, ...]:
        x_star = layer.solver(A, 1).states[:, 0]
        ctx.layer, ctx.A = layer, A
        ctx.save_for_backward(x_star)
        return layer.outputs(A, x_star)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (x_star,), numbers = ctx.saved_tensors, _numbers(ctx.A)
        steps = [*grads, *map(torch.zeros_like, numbers[len(grads) :])]  # of x*, only linear terms move
        if not ctx.layer.pairs and len(numbers) == 1:
            steps = [torch.diag_embed(grads[0])]
        strength = _strength(ctx.layer, numbers, steps)
        moved = (some + scale * step for some, scale, step in zip(numbers, strength, steps, strict=True))
        x_moved = ctx.layer.solver(_with_numbers(ctx.A, *moved), 1).states[:, 0]
        pairs = zip(_features(ctx.A, x_moved), _features(ctx.A, x_star), strength, strict=True)
        return None, None, *((after - before) / scale for after, before, scale in pairs)


class _Perturbed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, layer: QuboLayer, A: Qubo, *numbers: Tensor) -> tuple[Tensor, ...]:
        Z = layer.noise(A)
        ctx.strength = 1.0 if layer.strength is None else layer.strength
        noisy = (some + ctx.strength * noise for some, noise in zip(numbers, Z, strict=True))
        states = layer.solver(_with_numbers(A, *(some.flatten(0, 1) for some in noisy)), 1).states
        x = states.reshape(layer.samples, len(A), A.shape[2])
        ctx.layer, ctx.A = layer, A
        ctx.save_for_backward(x, *Z)
        return tuple(some.mean(0) for some in layer.outputs(A, x))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, *Z = ctx.saved_tensors
        # Centering keeps the expectation, since E[Z] = 0, and lowers the variance.
        outputs = ctx.layer.outputs(ctx.A, x)
        inner = sum(((y - y.mean(0)) * g).flatten(2).sum(-1) for y, g in zip(outputs, grads, strict=True))
        scaled = (inner.reshape(*inner.shape, *[1] * (some.ndim - 2)) * some for some in Z)
        return None, None, *(some.mean(0) / ctx.strength for some in scaled)


def _strength(layer: QuboLayer, numbers: Sequence[Tensor], steps: Sequence[Tensor]) -> list[Any]:
    """Return the factor of each tensor of steps."""
    if layer.strength is not None:
        return [layer.strength] * len(steps)
    size, step = (torch.cat([one.flatten(1) for one in some], 1).norm(dim=1) for some in (numbers, steps))
    scale = torch.where((size > 0) & (step > 0), RELATIVE * size / step, 1.0)
    return [scale.reshape(-1, *[1] * (some.ndim - 1)) for some in steps]


def _numbers(A: Qubo) -> tuple[Tensor, ...]:
    """Return the tensors that have gradients."""
    return (A.linear, A.quadratic) if isinstance(A, SparseQubo) else (A,)


def _with_numbers(A: Qubo, *numbers: Tensor) -> Qubo:
    return A.with_values(*numbers) if isinstance(A, SparseQubo) else numbers[0]


def _features(A: Qubo, x: Tensor) -> tuple[Tensor, ...]:
    """Return φ(x), the gradient of xᵀAx in A's numbers."""
    if isinstance(A, SparseQubo):
        i, j = A.edges
        return x, x[..., i] * x[..., j]
    return (x[..., :, None] * x[..., None, :],)
