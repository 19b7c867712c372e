"""The step of a stack of linear layers on a CPU without autograd: the same losses and gradients, with less overhead.

For a network of the paper's size torch spends more time on bookkeeping than the mathematics takes. Here all but the
solver is compiled. A loss that states its terms has ∂L/∂A = Σ_t w_t φ(x_t) - β E[φ]; any other one is differentiated by
autograd, as a function of A alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from qubolearn.errors import inside
from qubolearn.losses.contract import Batch, EnergyLoss, Loss, Terms
from qubolearn.losses.local import SparseFeatures
from qubolearn.networks import MLP, QuboNetwork
from qubolearn.problems.contract import Instances
from qubolearn.solvers.partition import log_partition_and_marginals
from qubolearn.training.fast.adam import FlatAdam, flat_values
from qubolearn.training.fast.stacks import layers_of
from qubolearn.training.steps import Steps, Task

__all__ = ["CompiledSteps", "can_compile"]

Floats = npt.NDArray[np.float32]


def can_compile(task: Task) -> bool:
    """Whether :class:`CompiledSteps` can take the place of autograd: for stacks of layers in float32 on a CPU."""
    first = next(task.network.parameters())
    sparse = any(isinstance(part, SparseFeatures) for _, part in task.loss.parts)
    known = first.is_cpu and first.dtype == torch.float32 and layers_of(task.network) is not None
    return known and (not sparse or isinstance(task.network.body, MLP))


class CompiledSteps(Steps):
    """Steps whose forward and backward pass are compiled; the weights become views of one vector."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        network, layers = task.network, layers_of(task.network)
        assert isinstance(network, QuboNetwork)
        assert layers is not None
        self._pure, self._n = network.method == "pure", network.n
        optimizer = task.optimizer
        values = optimizer.values if isinstance(optimizer, FlatAdam) else flat_values(network)
        self._values, self._gradient = values.numpy(), optimizer.gradient.numpy()[1:]
        self._layers = (
            np.array([(layer.outputs, layer.inputs, layer.bias, layer.skips, layer.activation) for layer in layers]),
            np.array([layer.slope for layer in layers], np.float32),
        )
        m = layers[0].inputs
        scale = network.standardise
        self._standardise = (
            (np.zeros(m, np.float32), np.ones(m, np.float32))
            if scale is None
            else (scale.mean.numpy(), scale.scale.numpy())
        )
        self._column = network.column.numpy()
        # where each entry first stands in A, and how often; places without an entry share the last number
        _, place, times = np.unique(self._column, return_index=True, return_counts=True)
        self._place, self._times = place[: network.size], times[: network.size].astype(np.float32)

    @np.errstate(over="ignore", invalid="ignore")  # the caller checks whether the loss is finite
    def gradient(self, instances: Instances, draw: int, share: float) -> float:
        from qubolearn.kernels import mlp_numba as kernels

        layers, slopes = self._layers
        p, (mean, scale) = _array(instances.p), self._standardise
        given, before, outputs = kernels.forward(p, mean, scale, self._values, layers, slopes)
        entries = -outputs if self._pure else np.sin(outputs)
        A = torch.from_numpy(kernels.assemble(entries, self._column, self._n))

        with inside("the loss", self.task.loss, A=A, x_true=instances.x_true):
            total, G, sparse = self._loss(A, self.task.batch(instances, draw, energies=_energies))

        factor = share / len(outputs)
        slope = kernels.gather(G, self._place, self._times)
        slope *= -factor if self._pure else factor * np.cos(outputs)
        sparse *= factor
        added = kernels.backward(slope, outputs, given, before, self._values, layers, slopes, sparse, self._gradient)
        return float(factor * total + added)

    def _loss(self, A: Tensor, batch: Batch) -> tuple[float, Floats, float]:
        """The sum of the losses, ∂/∂A ``[batch, n, n]``, symmetric, and the weight of sparse features."""
        loss = self.task.loss
        if loss.states and len(loss.parts) > 1:
            batch.best(A, loss.states)
        total, G, sparse = 0.0, None, 0.0
        for weight, part in loss.parts:
            if isinstance(part, SparseFeatures):
                sparse += weight
                continue
            values, slope = (
                _from_terms(A, part.terms(A, batch)) if isinstance(part, EnergyLoss) else _slope(A, part, batch)
            )
            if weight != 1.0:
                values, slope = weight * values, np.float32(weight) * slope
            total += float(values.sum())
            G = slope if G is None else G + slope
        return total, np.zeros(A.shape, np.float32) if G is None else G, sparse


def _from_terms(A: Tensor, terms: Terms) -> tuple[Any, Floats]:
    """Values ``[batch]`` and ∂L/∂A ``[batch, n, n]`` of a loss that is a sum of energies."""
    from qubolearn.kernels import mlp_numba as kernels

    X, c = _array(terms.states), _array(terms.weights)
    E = kernels.energies(A.numpy(), X) if terms.energies is None else terms.energies.numpy()
    values, G = (c * E).sum(1), kernels.outer(X, c)
    if terms.constant is not None:
        values = values + terms.constant.numpy()
    if terms.beta is not None:
        log_z, marginals = log_partition_and_marginals(A, terms.beta)
        values, G = values + log_z.numpy(), G - np.float32(terms.beta) * _array(marginals)
    return values, G


def _slope(A: Tensor, loss: Loss, batch: Batch) -> tuple[Any, Floats]:
    """The same for any loss, by autograd."""
    with torch.enable_grad():
        leaf = A.detach().requires_grad_()
        losses = loss(leaf, batch)
        (G,) = torch.autograd.grad(losses.sum(), leaf)
    return losses.detach().numpy(), _array((G + G.mT) / 2)


def _energies(A: Tensor, X: Tensor) -> Tensor:
    from qubolearn.kernels.mlp_numba import energies

    return torch.from_numpy(energies(A.numpy(), _array(X)))


def _array(tensor: Tensor) -> Floats:
    """As the kernels take it: in one piece."""
    return np.ascontiguousarray(tensor.numpy(), np.float32)
