"""Adam on one vector: the parameters of a network, their gradients and both moments lie each in one piece.

For networks of the paper's size torch.optim.Adam spends its time on bookkeeping, and importing it imports torch's
compiler, which takes seconds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib.util import find_spec

import torch
from torch import Tensor, nn

from qubolearn.training.optimizers import Adam, flat_gradient

__all__ = ["FlatAdam", "flat_values", "move", "rates"]

BETAS, EPSILON = (0.9, 0.999), 1e-8


def rates(number: int, rate: float) -> tuple[float, float]:
    """Size of the step of this number, from 1 on, and epsilon, both corrected for moments that started at zero."""
    unbiased = math.sqrt(1 - BETAS[1] ** number)
    return rate / (1 - BETAS[0] ** number) * unbiased, EPSILON * unbiased


def move(
    values: Tensor, slope: Tensor, first: Tensor, second: Tensor, step_size: Tensor | float, epsilon: Tensor | float
) -> None:
    """Adam's step on any device and for any shape, in place: values, gradient, and both moments.

    Of many networks, ``[runs, size]`` with sizes of steps ``[runs, 1]``, it is one kernel on a GPU.
    """
    if values.is_cuda and values.ndim == 2 and values.dtype == torch.float32 and find_spec("triton"):
        from qubolearn.kernels import adam_triton

        assert isinstance(step_size, Tensor)
        assert isinstance(epsilon, Tensor)
        adam_triton.move(values, slope, first, second, step_size, epsilon, BETAS)
        return
    first.lerp_(slope, 1 - BETAS[0])
    second.mul_(BETAS[1]).addcmul_(slope, slope, value=1 - BETAS[1])
    values.sub_((first / (second.sqrt() + epsilon)).mul_(step_size))


def flat_values(network: nn.Module) -> Tensor:
    """All trainable parameters as one vector ``[size]``, of which they become views."""
    parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]
    values = torch.cat([parameter.detach().flatten() for parameter in parameters])
    _point(parameters, values)
    return values


def _point(parameters: Sequence[nn.Parameter], values: Tensor) -> None:
    """Make parameters views of a vector that holds their values."""
    pieces = torch.split(values, [parameter.numel() for parameter in parameters])
    for parameter, piece in zip(parameters, pieces, strict=True):
        parameter.data = piece.view_as(parameter)


class FlatAdam:
    """:class:`qubolearn.Adam` at work on a network, whose parameters become views of ``values`` ``[size]``.

    ``gradient`` ``[1 + size]`` has room for the loss in front; the parameters' ``grad`` are views of the rest.
    """

    def __init__(self, network: nn.Module, choice: Adam | None = None, steps: int = 1) -> None:
        self.choice, self.steps = choice or Adam(), steps
        self._parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]
        self.gradient = flat_gradient(self._parameters)
        self.values = flat_values(network)
        self.first, self.second = torch.zeros_like(self.values), torch.zeros_like(self.values)

    def lie_in(self, values: Tensor, first: Tensor, second: Tensor) -> None:
        """Move parameters and moments to other places in memory, ``[size]`` each."""
        for place, tensor in zip((values, first, second), (self.values, self.first, self.second), strict=True):
            place.copy_(tensor)
        self.values, self.first, self.second = values, first, second
        _point(self._parameters, values)

    def rates_of(self, number: int) -> tuple[float, float]:
        """Size and epsilon of the step of this number, from 1 on."""
        return rates(number, self.choice.rate(number - 1, self.steps))

    def step(self, number: int) -> None:
        """Move the parameters against the gradient, in the step of this number, from 1 on."""
        step_size, epsilon = self.rates_of(number)
        if self.values.is_cpu and self.values.dtype == torch.float32:
            from qubolearn.kernels.adam_numba import move

            slope = self.gradient[1:]
            values, gradient, first, second = (t.numpy() for t in (self.values, slope, self.first, self.second))
            move(values, gradient, first, second, BETAS[0], BETAS[1], step_size, epsilon)
        else:
            self.move(step_size, epsilon)

    def move(self, step_size: Tensor | float, epsilon: Tensor | float) -> None:
        """One step on any device; where both arguments are tensors, nothing in it needs the host."""
        move(self.values, self.gradient[1:], self.first, self.second, step_size, epsilon)

    def state(self) -> tuple[dict[str, Tensor], str]:
        """What a checkpoint keeps beside the network."""
        return {"first": self.first, "second": self.second}, ""

    def load(self, tensors: Mapping[str, Tensor], text: str = "") -> None:
        """Go on from a state of the same shapes."""
        self.first.copy_(tensors["first"])
        self.second.copy_(tensors["second"])
