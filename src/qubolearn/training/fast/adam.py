"""Adam on one vector: the parameters of a network, their gradients and both moments lie each in one piece.

For networks of the paper's size torch.optim.Adam spends its time on bookkeeping, and every process that uses it waits
for torch's compiler to be imported.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

__all__ = ["Adam", "rates"]

BETAS, EPSILON = (0.9, 0.999), 1e-8


def rates(number: int, rate: float) -> tuple[float, float]:
    """Size of the step of this number, from 1 on, and epsilon, both corrected for moments that started at zero."""
    unbiased = math.sqrt(1 - BETAS[1] ** number)
    return rate / (1 - BETAS[0] ** number) * unbiased, EPSILON * unbiased


class Adam:
    """The optimiser of a network (Kingma and Ba, 2015), whose parameters become views of ``values`` ``[size]``.

    ``gradient`` ``[1 + size]`` has room for the loss in front; the parameters' ``grad`` are views of the rest.
    """

    def __init__(self, network: nn.Module) -> None:
        parameters = list(network.parameters())
        sizes = [parameter.numel() for parameter in parameters]
        self.values = torch.cat([parameter.detach().flatten() for parameter in parameters])
        self.gradient = self.values.new_zeros(1 + len(self.values))
        self.first, self.second = torch.zeros_like(self.values), torch.zeros_like(self.values)
        pieces = zip(torch.split(self.values, sizes), torch.split(self.gradient[1:], sizes), strict=True)
        for parameter, (value, slope) in zip(parameters, pieces, strict=True):
            parameter.data = value.view_as(parameter)
            parameter.grad = slope.view_as(parameter)

    def step(self, number: int, rate: float) -> None:
        """Move the parameters against the gradient, in the step of this number, from 1 on."""
        step_size, epsilon = rates(number, rate)
        if self.values.is_cpu:
            from qubolearn.kernels.adam_numba import move

            slope = self.gradient[1:]
            values, gradient, first, second = (t.numpy() for t in (self.values, slope, self.first, self.second))
            move(values, gradient, first, second, BETAS[0], BETAS[1], step_size, epsilon)
        else:
            self.move(step_size, epsilon)

    def move(self, step_size: Tensor | float, epsilon: Tensor | float) -> None:
        """One step on any device, in which nothing needs the host where both are tensors."""
        slope = self.gradient[1:]
        self.first.lerp_(slope, 1 - BETAS[0])
        self.second.mul_(BETAS[1]).addcmul_(slope, slope, value=1 - BETAS[1])
        self.values.sub_((self.first / (self.second.sqrt() + epsilon)).mul_(step_size))

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint keeps beside the network."""
        return {"first": self.first, "second": self.second}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state of the same shapes."""
        self.first.copy_(state["first"])
        self.second.copy_(state["second"])
