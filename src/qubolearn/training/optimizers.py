"""Adam on one flat vector, and an adapter for torch optimizers."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from qubolearn.errors import QubolearnError, check_numbers

__all__ = ["BETAS", "Adam", "Cosine", "FlatAdam", "Schedule", "TorchOptimizer", "Update", "make_update"]

#: (step, steps) -> the factor of the learning rate.
Schedule = Callable[[int, int], float]
BETAS, EPSILON = (0.9, 0.999), 1e-8
#: A private function behind fused AdamW: three times faster on a CPU.
FUSED: Any = getattr(torch, "_fused_adamw_", None)
FIXED = {"beta1": BETAS[0], "beta2": BETAS[1], "eps": EPSILON, "amsgrad": False, "maximize": False}


@dataclass(frozen=True)
class Cosine:
    """Warm up over a share of the steps, then fall to zero along half a cosine.

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
    """Adam (Kingma and Ba, 2015) on one vector of all weights, the default of ``fit``.

    Args:
        learning_rate: the highest rate. Must be positive.
        schedule: (step, steps) -> the factor of the rate, such as :class:`Cosine`, or None.
        weight_decay: the share of each weight that a step removes, times the rate (AdamW; Loshchilov and Hutter, 2019).

    >>> Adam(1e-3, schedule=lambda step, steps: 1 - step / steps).rate(50, 100)
    0.0005
    """

    learning_rate: float = 1e-3
    schedule: Schedule | None = None
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        check_numbers(learning_rate=self.learning_rate)
        check_numbers(zero=True, weight_decay=self.weight_decay)
        if self.schedule is not None and not callable(self.schedule):
            raise QubolearnError(f"schedule={self.schedule!r}; expected a function such as Cosine()")

    def rate(self, step: int, steps: int) -> float:
        """Return the learning rate of ``step``, counted from 0."""
        return self.learning_rate * (1.0 if self.schedule is None else self.schedule(step, steps))


def make_update(network: nn.Module, optimizer: Any, schedule: Any, steps: int) -> FlatAdam | TorchOptimizer:
    """Return the optimizer at work on a network."""
    if isinstance(optimizer, torch.optim.Optimizer):
        return TorchOptimizer(network, optimizer, schedule)
    if optimizer is not None and not isinstance(optimizer, Adam):
        raise QubolearnError(f"optimizer={optimizer!r}; expected qubolearn.Adam(...) or a torch optimizer")
    if schedule is not None:
        raise QubolearnError(f"schedule={schedule!r} is for torch optimizers; pass Adam(schedule=Cosine())")
    return FlatAdam(network, optimizer, steps)


def trainable(network: nn.Module) -> list[nn.Parameter]:
    """Return the trained parameters, which share dtype and device."""
    found = [parameter for parameter in network.parameters() if parameter.requires_grad]
    kinds = sorted({f"{parameter.dtype} on {parameter.device}" for parameter in found})
    if len(kinds) != 1:
        what = ", ".join(kinds) or "missing"
        raise QubolearnError(f"trainable parameters are {what}; expected one dtype and device")
    return found


def flat_gradient(parameters: list[nn.Parameter]) -> Tensor:
    """Return zeros ``[size]``, of which the parameters' ``grad`` become views."""
    gradient = torch.cat([torch.zeros_like(parameter.detach()).flatten() for parameter in parameters])
    for parameter, piece in _views(gradient, parameters):
        parameter.grad = piece
    return gradient


def _views(vector: Tensor, parameters: list[nn.Parameter]) -> Iterator[tuple[nn.Parameter, Tensor]]:
    """Yield every parameter with its part of a flat vector."""
    pieces = torch.split(vector, [parameter.numel() for parameter in parameters])
    return ((one, piece.view_as(one)) for one, piece in zip(parameters, pieces, strict=True))


class FlatAdam:
    """:class:`Adam` on a network, whose parameters become views of ``values``.

    torch.optim.Adam is slow for small networks, and importing it takes seconds.
    """

    def __init__(self, network: nn.Module, choice: Adam | None = None, steps: int = 1) -> None:
        self.choice, self.steps, parameters = choice or Adam(), steps, trainable(network)
        self.gradient = flat_gradient(parameters)
        self.values = torch.cat([parameter.detach().flatten() for parameter in parameters])
        self.first, self.second = torch.zeros_like(self.values), torch.zeros_like(self.values)
        self._count = torch.zeros((), device=self.values.device)
        for parameter, piece in _views(self.values, parameters):
            parameter.data = piece

    def rates(self, number: int) -> tuple[float, float, float]:
        """Return step size, epsilon and decay of a step, from 1 on, bias-corrected."""
        unbiased = math.sqrt(1 - BETAS[1] ** number)
        rate = self.choice.rate(number - 1, self.steps)
        step_size, decay = rate / (1 - BETAS[0] ** number) * unbiased, 1 - rate * self.choice.weight_decay
        return step_size, EPSILON * unbiased, decay

    def step(self, number: int) -> None:
        """Move the weights against ``gradient`` in a step, from 1 on."""
        if FUSED is None:
            self.move(*self.rates(number))
            return
        place: Any = [self.values], [self.gradient], [self.first], [self.second], []
        self._count.fill_(number)
        rate, decay = self.choice.rate(number - 1, self.steps), self.choice.weight_decay
        FUSED(*place, [self._count], lr=rate, weight_decay=decay, **FIXED)

    def move(self, step_size: Tensor | float, epsilon: Tensor | float, decay: Tensor | float) -> None:
        """Take a step; if its :meth:`rates` are tensors, without the host."""
        slope = self.gradient
        self.first.lerp_(slope, 1 - BETAS[0])
        self.second.mul_(BETAS[1]).addcmul_(slope, slope, value=1 - BETAS[1])
        scale = self.second.sqrt().add_(epsilon)
        self.values.mul_(decay).sub_(torch.div(self.first, scale, out=scale).mul_(step_size))

    def state(self) -> tuple[dict[str, Tensor], str]:
        """Return what a checkpoint stores: tensors, and the rest as text."""
        return {"first": self.first, "second": self.second}, ""

    def load(self, tensors: Mapping[str, Tensor], text: str = "") -> None:
        self.first.copy_(tensors["first"])
        self.second.copy_(tensors["second"])


class TorchOptimizer:
    """A torch optimizer and scheduler with the interface of :class:`FlatAdam`."""

    def __init__(self, network: nn.Module, optimizer: torch.optim.Optimizer, schedule: Any = None) -> None:
        known = {id(parameter) for parameter in network.parameters()}
        mine = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        if foreign := sum(id(parameter) not in known for parameter in mine):
            what = f"{foreign} of {len(mine)} parameters of {type(optimizer).__name__} are not the network's"
            raise QubolearnError(f"{what}; make it with network.parameters(), after the network")
        if schedule is not None and schedule.optimizer is not optimizer:
            raise QubolearnError(f"{type(schedule).__name__} does not belong to {optimizer!r:.40}")
        self._optimizer, self._schedule = optimizer, schedule
        self.gradient = flat_gradient(trainable(network))

    def step(self, number: int) -> None:
        self._optimizer.step()
        if self._schedule is not None:
            self._schedule.step()

    def state(self) -> tuple[dict[str, Tensor], str]:
        saved = self._optimizer.state_dict()
        tensors: dict[str, Tensor] = {}
        plain: dict[str, dict[str, Any]] = {}
        for index, values in saved["state"].items():
            own = {name: value for name, value in values.items() if isinstance(value, Tensor)}
            tensors |= {f"{index}.{name}": value for name, value in own.items()}
            plain[str(index)] = {name: value for name, value in values.items() if name not in own}
        schedule = self._schedule.state_dict() if self._schedule is not None else {}
        text = {"state": plain, "groups": saved["param_groups"], "schedule": schedule}
        return tensors, json.dumps(text, default=lambda value: None)

    def load(self, tensors: Mapping[str, Tensor], text: str) -> None:
        given = json.loads(text)
        state = {int(index): dict(values) for index, values in given["state"].items()}
        for key, tensor in tensors.items():
            index, _, name = key.partition(".")
            state[int(index)][name] = tensor
        now = self._optimizer.state_dict()["param_groups"]
        groups = [{**new, **_known(old)} for new, old in zip(now, given["groups"])]  # noqa: B905
        self._optimizer.load_state_dict({"state": state, "param_groups": groups})
        if self._schedule is not None:
            self._schedule.load_state_dict({**self._schedule.state_dict(), **_known(given["schedule"])})


Update = FlatAdam | TorchOptimizer


def _known(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
