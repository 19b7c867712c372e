"""Optimizers: our Adam as a value, and any optimizer of torch's behind the same few calls."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from qubolearn.errors import QubolearnError

__all__ = ["Adam", "Cosine", "Schedule", "TorchOptimizer", "Update", "flat_gradient"]

#: (step, steps) -> the factor of the learning rate at this step of so many.
Schedule = Callable[[int, int], float]


@dataclass(frozen=True)
class Cosine:
    """A learning rate that rises over a share of the steps and then falls to zero along half a cosine.

    Args:
        warm_up: the share of the steps in which it rises.

    >>> [round(Cosine()(step, 100), 3) for step in (0, 1, 2, 51, 99)]
    [0.5, 1.0, 1.0, 0.5, 0.0]
    """

    warm_up: float = 0.02

    def __call__(self, step: int, steps: int) -> float:
        rising = max(1, int(steps * self.warm_up + 1e-9))
        if step < rising:
            return (step + 1) / rising
        return 0.5 * (1 + math.cos(math.pi * (step - rising) / max(1, steps - rising)))


@dataclass(frozen=True)
class Adam:
    """Adam (Kingma and Ba, 2015) on one vector of all weights: the fast default of ``fit``.

    Args:
        learning_rate: the highest rate; what is no positive number is refused.
        schedule: the factor of the rate as a function of (step, steps), such as :class:`Cosine`; None keeps the rate
            constant.

    >>> Adam(1e-3, schedule=lambda step, steps: 1 - step / steps).rate(50, 100)
    0.0005
    """

    learning_rate: float = 1e-3
    schedule: Schedule | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.learning_rate, (int, float)) or not 0 < self.learning_rate < math.inf:
            raise QubolearnError(f"learning_rate={self.learning_rate!r}; want a positive number, such as 1e-3")
        if self.schedule is not None and not callable(self.schedule):
            raise QubolearnError(f"schedule={self.schedule!r}; want a function of (step, steps), such as Cosine()")

    def rate(self, step: int, steps: int) -> float:
        """The learning rate of step number ``step``, counted from 0, out of ``steps``."""
        return self.learning_rate * (1.0 if self.schedule is None else self.schedule(step, steps))


class Update(Protocol):
    """What a step asks of an optimizer."""

    gradient: Tensor  # [1 + size]: room for the loss in front, then all gradients, of which `grad` are views

    def step(self, number: int) -> None:
        """Move the weights against the gradient, in the step of this number, from 1 on."""

    def state(self) -> tuple[dict[str, Tensor], str]:
        """What a checkpoint keeps beside the network: tensors, and the rest as text."""

    def load(self, tensors: Mapping[str, Tensor], text: str) -> None:
        """Go on from a state."""


def flat_gradient(parameters: list[nn.Parameter]) -> Tensor:
    """One vector ``[1 + size]`` of zeros, of which the parameters' ``grad`` become views from its second place on."""
    kinds = {(parameter.dtype, parameter.device) for parameter in parameters}
    if len(kinds) != 1:
        says = ", ".join(sorted(f"{dtype} on {device}" for dtype, device in kinds)) or "none"
        raise QubolearnError(f"the network's trainable parameters are {says}; want one dtype on one device")
    gradient = parameters[0].detach().new_zeros(1 + sum(parameter.numel() for parameter in parameters))
    pieces = torch.split(gradient[1:], [parameter.numel() for parameter in parameters])
    for parameter, piece in zip(parameters, pieces, strict=True):
        parameter.grad = piece.view_as(parameter)
    return gradient


class TorchOptimizer:
    """Any optimizer of torch's, with a schedule of torch's that moves once a step, as an :class:`Update`."""

    def __init__(self, network: nn.Module, optimizer: torch.optim.Optimizer, schedule: Any = None) -> None:
        known = {id(parameter) for parameter in network.parameters()}
        mine = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        if foreign := sum(id(parameter) not in known for parameter in mine):
            raise QubolearnError(
                f"{foreign} of the {len(mine)} parameters of {type(optimizer).__name__} are not the network's; make it "
                "with network.parameters(), after the network"
            )
        if schedule is not None and schedule.optimizer is not optimizer:
            raise QubolearnError(f"{type(schedule).__name__} belongs to another optimizer than {optimizer!r:.40}")
        self._optimizer, self._schedule = optimizer, schedule
        self.gradient = flat_gradient([parameter for parameter in network.parameters() if parameter.requires_grad])

    def step(self, number: int) -> None:
        self._optimizer.step()
        if self._schedule is not None:
            self._schedule.step()

    def state(self) -> tuple[dict[str, Tensor], str]:
        saved = self._optimizer.state_dict()
        tensors = {
            f"{index}.{name}": value
            for index, values in saved["state"].items()
            for name, value in values.items()
            if isinstance(value, Tensor)
        }
        plain = {
            str(index): {name: value for name, value in values.items() if not isinstance(value, Tensor)}
            for index, values in saved["state"].items()
        }
        schedule = self._schedule.state_dict() if self._schedule is not None else {}
        text = {"state": plain, "groups": saved["param_groups"], "schedule": schedule}
        return tensors, json.dumps(text, default=lambda value: None)

    def load(self, tensors: Mapping[str, Tensor], text: str) -> None:
        given = json.loads(text)
        state: dict[int, dict[str, Any]] = {int(index): dict(values) for index, values in given["state"].items()}
        for key, tensor in tensors.items():
            index, _, name = key.partition(".")
            state[int(index)][name] = tensor
        now = self._optimizer.state_dict()["param_groups"]
        groups = [{**new, **{k: v for k, v in old.items() if v is not None}} for new, old in zip(now, given["groups"])]  # noqa: B905
        self._optimizer.load_state_dict({"state": state, "param_groups": groups})
        if self._schedule is not None:
            known = {name: value for name, value in given["schedule"].items() if value is not None}
            self._schedule.load_state_dict({**self._schedule.state_dict(), **known})
