"""The reader of Willow's compact form."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import conv2d, max_pool2d, relu

from quant_reproduction.datasets.files import data_folder
from quant_reproduction.datasets.willow import decoded_image, patch_features, read_features, read_willow
from qubolearn.errors import QubolearnError


def entry(**changes: object) -> dict[str, object]:
    usual = {"class": "car", "image": "a", "file": "a.jpg", "width": 9, "height": 9}
    return {**usual, "keypoints_orig": [[i, i * i] for i in range(10)], **changes}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([entry(keypoints_orig=[[1, 2]] * 8)], "'a', got 8"),
        ([entry(file="../../etc/passwd")], "outside the dataset"),
        ([entry(width=0)], "0.0, 9.0"),
        ([{"class": "car"}], "willow_keypoints.json"),
    ],
)
def test_bad_compact_forms(tmp_path: Path, content: object, message: str) -> None:
    (tmp_path / "willow_keypoints.json").write_text(json.dumps(content))
    with pytest.raises(QubolearnError, match=message):
        read_willow(tmp_path)


def test_the_real_dataset() -> None:
    try:
        data_folder("willow")
    except QubolearnError as error:
        pytest.skip(str(error))
    images = read_willow()
    assert Counter(images.classes) == {"car": 40, "duck": 50, "face": 108, "motorbike": 40, "winebottle": 66}
    assert images.keypoints.shape == (304, 10, 2)
    assert bool((images.keypoints > 0).all())
    assert bool((images.keypoints <= images.sizes[:, None] + 1).all())
    assert read_features("relu3", images).shape == (304, 10, 384)
    shipped = json.loads((data_folder("willow") / "willow_keypoints.json").read_text())
    squashed = torch.tensor([row["keypoints_256"] for row in shipped])
    assert torch.allclose(images.keypoints_squashed(), squashed, atol=2e-3)


def test_features_of_patches_are_the_center_of_the_padded_network() -> None:
    """AlexNet on whole patches of 224 x 224 pixels, with the padding of its layers."""
    try:
        data_folder("willow"), data_folder("alexnet")
    except QubolearnError as error:
        pytest.skip(str(error))
    images, found = read_willow(), patch_features(4)
    assert found.shape == (304, 4, 512)
    weights = np.load(data_folder("alexnet") / "alexnet_conv_imagenet.npz")
    for image in (0, 99, 303):
        pixels = np.array(decoded_image(images.files[image])) / 255
        normal = (pixels - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
        wide = np.pad(normal, ((112, 112), (112, 112), (0, 0)), mode="reflect")
        for point in range(4):
            x, y = (int(each) for each in images.keypoints_squashed()[image, point])
            h = torch.from_numpy(wide[y : y + 224, x : x + 224]).permute(2, 0, 1)[None].float()
            for layer, stride, padding in ((0, 4, 2), (3, 1, 2), (6, 1, 1), (8, 1, 1), (10, 1, 1)):
                weight, bias = (
                    torch.from_numpy(weights[f"features.{layer}.{each}"]) for each in ("weight", "bias")
                )
                z = conv2d(h, weight, bias, stride, padding)
                h = max_pool2d(relu(z), 3, 2) if layer < 6 else relu(z)
                if layer >= 8:
                    part = slice(0, 256) if layer == 8 else slice(256, 512)
                    torch.testing.assert_close(found[image, point, part], z[0, :, 6, 6], rtol=1e-3, atol=1e-3)
