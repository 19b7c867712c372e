"""A training step of the paper's network without autograd: the same loss and gradients, with far less overhead.

For a network of this size autograd spends more time on bookkeeping than the mathematics takes. Here
∂L/∂A comes in closed form, since with φ(x) = xxᵀ all losses are sums of energies E(x) = <A, φ(x)>, and the chain rule
through the layers is written out. Losses without a closed form here use autograd for ∂L/∂A alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from qubolearn.losses import best_other
from qubolearn.networks import MLP, QuboNetwork
from qubolearn.objectives import OBJECTIVES, Context
from qubolearn.problems.contract import Instances
from qubolearn.qubo import energies
from qubolearn.solvers.partition import log_partition_and_marginals

__all__ = ["can_fuse", "fused_step"]


def can_fuse(network: QuboNetwork) -> bool:
    """Whether :func:`fused_step` can take the place of autograd: for the paper's network, not for others."""
    return isinstance(network.body, MLP)


@torch.no_grad()
def fused_step(network: QuboNetwork, batch: Instances, context: Context, share: float = 1.0) -> Tensor:
    """The mean loss of a batch, times ``share``; its gradient is left in the parameters' ``grad``."""
    assert isinstance(network.body, MLP)
    layers, outputs = _forward(network.body, network.standardise(batch.p))
    A = network.assemble(network.entries(outputs))
    values, G = GRADIENTS.get(context.config.loss, _by_autograd)(A, batch, context)

    factor, sparse = share / len(batch.p), context.config.weight_mlp
    loss = factor * values.sum()
    if sparse:  # L_mlp = Σ_f ‖f‖₁ / |f|, and no feature f is negative
        features = torch.cat([layer.features for layer in layers[1:]], 1)
        loss += sparse * factor / layers[1].features.shape[1] * features.sum()
    slope = factor * network.gather(G)
    slope *= -1 if network.method == "pure" else torch.cos(outputs)
    _backward(layers, slope, sparse * factor)
    return loss


class _Layer(NamedTuple):
    """A layer and what it was given."""

    linear: nn.Linear
    inputs: Tensor  # [batch, width]: the features of the layer below, p behind them where the layer skips
    features: Tensor  # [batch, hidden]: these alone


def _forward(body: MLP, p: Tensor) -> tuple[list[_Layer], Tensor]:
    """:meth:`MLP.forward`, with what :func:`_backward` needs."""
    layers: list[_Layer] = []
    outputs = p
    for linear, skip in zip(body.linears, body.skips, strict=True):
        assert isinstance(linear, nn.Linear)
        h = torch.relu(outputs) if layers else p
        layers.append(_Layer(linear, torch.cat([h, p], 1) if skip else h, h))
        outputs = torch.addmm(linear.bias, layers[-1].inputs, linear.weight.t())
    return layers, outputs


def _backward(layers: list[_Layer], slope: Tensor, sparse: float) -> None:
    """The chain rule, from ``slope`` = ∂L/∂outputs ``[batch, outputs]`` back to every weight and bias.

    L_mlp adds ``sparse`` / hidden to the slope of each feature.
    """
    for layer in reversed(layers):
        weight, bias = layer.linear.weight, layer.linear.bias
        if weight.grad is None or bias.grad is None:
            weight.grad, bias.grad = torch.empty_like(weight), torch.empty_like(bias)
        torch.mm(slope.t(), layer.inputs, out=weight.grad)
        torch.sum(slope, 0, out=bias.grad)
        if layer is layers[0]:
            return
        hidden = layer.features.shape[1]
        slope = slope @ weight[:, :hidden]
        if sparse:
            slope += sparse / hidden
        slope *= layer.features > 0


# ∂L/∂A of the losses: (A, batch, context) -> values [batch], G [batch, n, n], symmetric


def _gap(A: Tensor, batch: Instances, context: Context) -> tuple[Tensor, Tensor]:
    weight = context.config.weight_unique
    states = context.solver(A, 2 if weight else 1).states
    X = torch.cat([batch.x_true[:, None], states], 1)  # x̂, x*, x⁺
    E = energies(A, X)
    one = torch.ones_like(E[:, 0])
    if weight:  # -λ|E(x̂) - E(x⁺)| = s E(x⁺) - s E(x̂)
        s = weight * torch.sign(E[:, 0] - E[:, 2])
        c = torch.stack([one - s, -one, s], 1)
    else:
        c = torch.stack([one, -one], 1)
    return (c * E).sum(1), _phi(X, c)


def _hinge(A: Tensor, batch: Instances, context: Context) -> tuple[Tensor, Tensor]:
    x_star, x_plus = context.solver(A, 2).states.unbind(1)
    X = torch.stack([batch.x_true, best_other(batch.x_true, x_star, x_plus)], 1)
    E = energies(A, X)
    values = context.config.margin + E[:, 0] - E[:, 1]
    active = (values > 0).to(A.dtype)
    return values * active, _phi(X, torch.stack([active, -active], 1))


def _nll(A: Tensor, batch: Instances, context: Context) -> tuple[Tensor, Tensor]:
    beta = context.config.beta
    targets = context.problem.soft_targets(batch.x_true)
    X = batch.x_true[:, None] if targets is None else targets[0]
    c = beta * (torch.ones_like(X[:, :, 0]) if targets is None else targets[1])
    log_z, marginals = log_partition_and_marginals(A, beta)
    return (c * energies(A, X)).sum(1) + log_z, _phi(X, c).sub_(marginals, alpha=beta)


def _by_autograd(A: Tensor, batch: Instances, context: Context) -> tuple[Tensor, Tensor]:
    with torch.enable_grad():
        leaf = A.requires_grad_()
        values = OBJECTIVES[context.config.loss](leaf, batch, context)
        (G,) = torch.autograd.grad(values.sum(), leaf)
    return values.detach(), (G + G.mT) / 2


def _phi(X: Tensor, c: Tensor) -> Tensor:
    """Σ_t c_t x_t x_tᵀ for states X ``[batch, t, n]`` and weights c ``[batch, t]`` -> ``[batch, n, n]``."""
    return (X * c[:, :, None]).mT @ X


GRADIENTS: Mapping[str, Callable[[Tensor, Instances, Context], tuple[Tensor, Tensor]]] = {
    "gap": _gap,
    "hinge": _hinge,
    "nll": _nll,
}
