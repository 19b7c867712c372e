"""A training step of the paper's network on a CPU without autograd: the same loss and gradients, with less overhead.

For a network of this size torch spends more time on bookkeeping than the mathematics takes. Here all but the
solver is compiled, and ∂L/∂A comes in closed form, since with φ(x) = xxᵀ the losses are sums of energies
E(x) = <A, φ(x)>. Losses without a closed form here use autograd for ∂L/∂A alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from qubolearn.losses.equations import best_other
from qubolearn.losses.objectives import OBJECTIVES, Context
from qubolearn.networks.network import MLP, QuboNetwork
from qubolearn.problems.contract import Instances
from qubolearn.solvers.partition import log_partition_and_marginals
from qubolearn.training.fast.adam import Adam

__all__ = ["FusedStep", "can_fuse"]

Floats = npt.NDArray[np.float32]


def can_fuse(network: QuboNetwork) -> bool:
    """Whether :class:`FusedStep` can take the place of autograd: for the paper's network on a CPU, not for others."""
    return isinstance(network.body, MLP) and network.column.is_cpu


class FusedStep:
    """The step of a network whose parameters and gradients an :class:`Adam` keeps as one vector each."""

    def __init__(self, network: QuboNetwork, optimizer: Adam) -> None:
        body = network.body
        assert isinstance(body, MLP)
        self._pure, self._n = network.method == "pure", network.n
        self._values, self._gradient = optimizer.values.numpy(), optimizer.gradient.numpy()[1:]
        weights = [parameter for parameter in body.parameters() if parameter.ndim == 2]
        self._layers = np.array([tuple(weight.shape) for weight in weights]), np.array(body.skips)
        self._standardise = network.standardise.mean.numpy(), network.standardise.scale.numpy()
        self._column = network.column.numpy()
        # where each entry first stands in A, and how often; what does not exist is counted behind them
        _, place, times = np.unique(self._column, return_index=True, return_counts=True)
        entries = weights[-1].shape[0]
        self._place, self._times = place[:entries], times[:entries].astype(np.float32)

    def __call__(self, batch: Instances, context: Context, share: float = 1.0) -> float:
        """The mean loss of a batch, times ``share``; its gradient is left in that of the optimiser."""
        from qubolearn.kernels import mlp_numba as kernels

        shapes, skips = self._layers
        given, outputs = kernels.forward(_array(batch.p), *self._standardise, self._values, shapes, skips)
        entries = -outputs if self._pure else np.sin(outputs)
        A = kernels.assemble(entries, self._column, self._n)

        losses, G = GRADIENTS.get(context.config.loss, _by_autograd)(A, batch, context)

        factor = share / len(outputs)
        slope = kernels.gather(G, self._place, self._times)
        slope *= -factor if self._pure else factor * np.cos(outputs)
        sparse = factor * context.config.weight_mlp
        added = kernels.backward(slope, given, self._values, shapes, sparse, self._gradient)
        return float(factor * losses.sum() + added)


# ∂L/∂A of the losses: (A, batch, context) -> losses [batch], G [batch, n, n], symmetric


def _gap(A: Floats, batch: Instances, context: Context) -> tuple[Floats, Floats]:
    weight = context.config.weight_unique
    states = context.solver(torch.from_numpy(A), 2 if weight else 1).states
    X = np.concatenate([_array(batch.x_true)[:, None], states.numpy()], 1)  # x̂, x*, x⁺
    E = _energies(A, X)
    c = np.empty_like(E)
    c[:, 0], c[:, 1] = 1, -1
    if weight:  # -λ|E(x̂) - E(x⁺)| = s E(x⁺) - s E(x̂)
        c[:, 2] = weight * np.sign(E[:, 0] - E[:, 2])
        c[:, 0] -= c[:, 2]
    return (c * E).sum(1), _outer(X, c)


def _hinge(A: Floats, batch: Instances, context: Context) -> tuple[Floats, Floats]:
    other = best_other(batch.x_true, *context.solver(torch.from_numpy(A), 2).states.unbind(1))
    X = np.stack([_array(batch.x_true), other.numpy()], 1)
    E = _energies(A, X)
    losses = context.config.margin + E[:, 0] - E[:, 1]
    active = (losses > 0).astype(np.float32)
    return losses * active, _outer(X, np.stack([active, -active], 1))


def _nll(A: Floats, batch: Instances, context: Context) -> tuple[Floats, Floats]:
    beta = context.config.beta
    targets = context.soft_targets(batch.x_true)
    X = _array(batch.x_true)[:, None] if targets is None else _array(targets[0])
    c = np.full(X.shape[:2], beta, np.float32) if targets is None else np.float32(beta) * _array(targets[1])
    log_z, marginals = log_partition_and_marginals(torch.from_numpy(A), beta)
    return (c * _energies(A, X)).sum(1) + log_z.numpy(), _outer(X, c) - _array(beta * marginals)


def _by_autograd(A: Floats, batch: Instances, context: Context) -> tuple[Floats, Floats]:
    with torch.enable_grad():
        leaf = torch.from_numpy(A).requires_grad_()
        losses = OBJECTIVES[context.config.loss](leaf, batch, context)
        (G,) = torch.autograd.grad(losses.sum(), leaf)
    return losses.detach().numpy(), ((G + G.mT) / 2).numpy()


def _energies(A: Floats, X: Floats) -> Floats:
    from qubolearn.kernels.mlp_numba import energies

    E: Floats = energies(A, X)
    return E


def _outer(X: Floats, c: Floats) -> Floats:
    from qubolearn.kernels.mlp_numba import outer

    G: Floats = outer(X, c)
    return G


def _array(tensor: Tensor) -> Floats:
    """As the kernels take it: in one piece."""
    return np.ascontiguousarray(tensor.numpy(), np.float32)


GRADIENTS: Mapping[str, Callable[[Floats, Instances, Context], tuple[Floats, Floats]]] = {
    "gap": _gap,
    "hinge": _hinge,
    "nll": _nll,
}
