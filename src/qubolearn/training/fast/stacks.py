"""Which networks can be compiled: stacks of linear layers and pointwise activations, as one vector of weights."""

from __future__ import annotations

from typing import NamedTuple

from torch import nn

from qubolearn.networks import MLP, QuboNetwork

__all__ = ["ACTIVATIONS", "Layer", "layers_of"]

#: What the kernels of ``kernels/mlp_numba.py`` can apply behind a layer, by number.
ACTIVATIONS: dict[type[nn.Module], int] = {
    nn.Identity: 0,
    nn.ReLU: 1,
    nn.Tanh: 2,
    nn.Sigmoid: 3,
    nn.LeakyReLU: 4,
    nn.SiLU: 5,
    nn.GELU: 6,
}


class Layer(NamedTuple):
    """A linear layer and what comes after it."""

    outputs: int
    inputs: int
    bias: bool
    skips: bool  # whether the standardised p is appended to its inputs
    activation: int
    slope: float = 0.0  # of LeakyReLU below zero


def layers_of(network: nn.Module) -> list[Layer] | None:
    """The layers of a network's body in the order of its parameters, or None where it is anything else."""
    if type(network) is not QuboNetwork or network.sparse:
        return None
    body = network.body
    if type(body) is MLP and not len(body.dropout):
        last = len(body.linears) - 1
        layers: list[Layer] | None = [
            _layer(linear, skip)._replace(activation=ACTIVATIONS[nn.ReLU] if number < last else 0)
            for number, (linear, skip) in enumerate(zip(body.linears, body.skips, strict=True))
            if isinstance(linear, nn.Linear)
        ]
    elif type(body) is nn.Sequential:
        layers = _of_sequential(body)
    elif type(body) is nn.Linear:
        layers = [_layer(body)]
    else:
        return None
    if layers is None or any(not parameter.requires_grad for parameter in network.parameters()) or _hooked(network):
        return None
    weights = sum(layer.outputs * (layer.inputs + layer.bias) for layer in layers)
    return layers if weights == sum(parameter.numel() for parameter in network.parameters()) else None


def _layer(linear: nn.Linear, skips: bool = False) -> Layer:
    return Layer(linear.out_features, linear.in_features, linear.bias is not None, skips, 0)


def _of_sequential(body: nn.Sequential) -> list[Layer] | None:
    layers: list[Layer] = []
    for module in body:
        if type(module) is nn.Linear:
            layers.append(_layer(module))
        elif type(module) is nn.Identity:
            continue
        elif type(module) in ACTIVATIONS and layers and layers[-1].activation == 0:
            if isinstance(module, nn.GELU) and module.approximate != "none":
                return None
            slope = module.negative_slope if isinstance(module, nn.LeakyReLU) else 0.0
            layers[-1] = layers[-1]._replace(activation=ACTIVATIONS[type(module)], slope=slope)
        else:
            return None
    return layers or None


def _hooked(network: nn.Module) -> bool:
    """Whether somebody hung functions into a module, which compiled code would not call."""
    names = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return any(getattr(module, name) for module in network.modules() for name in names) or any(
        hasattr(module, "parametrizations") for module in network.modules()
    )
