"""AlexNet's convolutions with weights from a file, and its feature maps at keypoints."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, cast, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from quant_reproduction.datasets.files import data_folder, load_npz
from qubolearn.errors import QubolearnError, unknown_name

__all__ = ["AlexNetConvolutions", "Layer", "features_at", "load_alexnet"]

Layer = Literal["relu1", "relu2", "relu3", "relu4", "relu5"]

#: torchvision's names and shapes of the five convolutions, as in the weight file.
SHAPES = {
    "features.0": (64, 3, 11, 11),
    "features.3": (192, 64, 5, 5),
    "features.6": (384, 192, 3, 3),
    "features.8": (256, 384, 3, 3),
    "features.10": (256, 256, 3, 3),
}
#: Cell u of a layer's map is centered at pixel stride·u + center, counted from 0.
RECEPTIVE_FIELD = {"relu1": (4, 3), "relu2": (8, 7), "relu3": (16, 15), "relu4": (16, 15), "relu5": (16, 15)}


class AlexNetConvolutions(nn.Module):
    """Maps RGB images ``[batch, 3, H, W]`` in 0 ... 1 to the output of each rectified convolution, by layer name.

    At 256 x 256 pixels the maps are [64, 63, 63], [192, 31, 31], [384, 15, 15], [256, 15, 15], [256, 15, 15].
    """

    mean: Tensor
    std: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 11, stride=4, padding=2)
        self.conv2 = nn.Conv2d(64, 192, 5, padding=2)
        self.conv3 = nn.Conv2d(192, 384, 3, padding=1)
        self.conv4 = nn.Conv2d(384, 256, 3, padding=1)
        self.conv5 = nn.Conv2d(256, 256, 3, padding=1)
        # of ImageNet, on which the weights were trained
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406])[:, None, None], persistent=False)
        self.register_buffer("std", torch.tensor([0.229, 0.224, 0.225])[:, None, None], persistent=False)

    def forward(self, images: Tensor) -> dict[Layer, Tensor]:
        if images.ndim != 4 or images.shape[1] != 3 or min(images.shape[2:]) < 63:
            raise QubolearnError(f"expected images [batch, 3, H, W] with H, W >= 63, got {list(images.shape)}")
        relu1 = self.conv1((images - self.mean) / self.std).relu()
        relu2 = self.conv2(F.max_pool2d(relu1, 3, 2)).relu()
        relu3 = self.conv3(F.max_pool2d(relu2, 3, 2)).relu()
        relu4 = self.conv4(relu3).relu()
        relu5 = self.conv5(relu4).relu()
        return {"relu1": relu1, "relu2": relu2, "relu3": relu3, "relu4": relu4, "relu5": relu5}


def load_alexnet(path: Path | str | None = None) -> AlexNetConvolutions:
    """Load weights from an .npz with torchvision's names; by default from ``alexnet/`` of the data folder."""
    if path is None:
        path = data_folder("alexnet") / "alexnet_conv_imagenet.npz"
    required = {f"{name}.{part}": ("f", 4 if part == "weight" else 1) for name in SHAPES for part in ("weight", "bias")}
    arrays = load_npz(path, required)
    network = AlexNetConvolutions()
    convolutions = [module for module in network.modules() if isinstance(module, nn.Conv2d)]
    for (name, shape), convolution in zip(SHAPES.items(), convolutions, strict=True):
        weight, bias = arrays[f"{name}.weight"], arrays[f"{name}.bias"]
        if weight.shape != shape or bias.shape != shape[:1]:
            raise QubolearnError(f"{path}: expected {name} of shape {shape}, got {weight.shape} and {bias.shape}")
        convolution.weight.data.copy_(torch.tensor(weight))
        convolution.bias.data.copy_(torch.tensor(bias))  # type: ignore[union-attr]
    return network.eval().requires_grad_(False)


def features_at(maps: Tensor, keypoints: Tensor, layer: str) -> Tensor:
    """Interpolate one layer's maps ``[batch, C, h, w]`` at keypoints ``[batch, k, (x, y)]``: ``[batch, k, C]``.

    Keypoints are pixels of the network's input, counted from 1 as in MATLAB and the Willow annotations.
    """
    stride, center = RECEPTIVE_FIELD[check_layer(layer)]
    cell = (keypoints - 1 - center) / stride
    size = torch.tensor([maps.shape[3], maps.shape[2]], device=maps.device)
    grid = 2 * cell / (size - 1) - 1
    found = F.grid_sample(maps, grid[:, None].to(maps.dtype), padding_mode="border", align_corners=True)
    return found[:, :, 0].mT


def check_layer(layer: str) -> Layer:
    if layer not in get_args(Layer):
        raise unknown_name("AlexNet layer", layer, get_args(Layer))
    return cast(Layer, layer)
