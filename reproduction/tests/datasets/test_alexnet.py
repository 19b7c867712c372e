"""AlexNet's convolutions: the maps against shipped features of real images, sampling against its definition."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from quant_reproduction.datasets.alexnet import RECEPTIVE_FIELD, SHAPES, AlexNetConvolutions, features_at, load_alexnet
from quant_reproduction.datasets.files import data_folder
from quant_reproduction.datasets.willow import read_features, read_pixels, read_willow
from qubolearn.errors import QubolearnError


@pytest.fixture(scope="module")
def network() -> AlexNetConvolutions:
    try:
        data_folder("willow")
        return load_alexnet()
    except QubolearnError as error:
        pytest.skip(f"needs the AlexNet weights and Willow: {error}")


@pytest.mark.parametrize("index", [0, 100, 303])
def test_shipped_features_are_those_of_the_network(network: AlexNetConvolutions, index: int) -> None:
    pytest.importorskip("PIL")
    images = read_willow()
    maps = network(read_pixels(images.files[index])[None])
    for layer in RECEPTIVE_FIELD:
        found = features_at(maps[layer], images.keypoints_squashed()[index : index + 1], layer)[0]
        shipped = read_features(layer, images)[index]
        assert (found - shipped).norm() < 1e-3 * shipped.norm()  # they were rounded to float16


@pytest.mark.parametrize("layer", ["relu1", "relu2", "relu5"])
def test_sampling_is_exact_at_centers_and_bilinear_between(layer: str) -> None:
    stride, center = RECEPTIVE_FIELD[layer]
    maps = torch.rand(1, 3, 15, 12, generator=torch.Generator().manual_seed(0))
    u, v = 4, 7
    cell = torch.tensor([stride * u + center + 1.0, stride * v + center + 1.0])
    right = cell + torch.tensor([stride / 4, 0.0])
    outside = torch.tensor([-500.0, cell[1]])
    found = features_at(maps, torch.stack([cell, right, outside])[None], layer)[0]
    assert torch.allclose(found[0], maps[0, :, v, u], atol=1e-5)
    assert torch.allclose(found[1], 0.75 * maps[0, :, v, u] + 0.25 * maps[0, :, v, u + 1], atol=1e-5)
    assert torch.allclose(found[2], maps[0, :, v, 0], atol=1e-5)


def test_weights_come_from_the_file(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    arrays = {f"{name}.weight": generator.normal(size=shape).astype("float32") for name, shape in SHAPES.items()}
    arrays |= {f"{name}.bias": generator.normal(size=shape[0]).astype("float32") for name, shape in SHAPES.items()}
    np.savez(tmp_path / "weights.npz", **arrays)
    network = load_alexnet(tmp_path / "weights.npz")
    assert np.array_equal(network.conv3.weight.numpy(), arrays["features.6.weight"])
    assert not network.conv1.weight.requires_grad

    arrays["features.8.weight"] = arrays["features.8.weight"][:100]
    np.savez(tmp_path / "cut.npz", **arrays)
    with pytest.raises(QubolearnError, match=r"features\.8 .*\(100, 384, 3, 3\)"):
        load_alexnet(tmp_path / "cut.npz")
