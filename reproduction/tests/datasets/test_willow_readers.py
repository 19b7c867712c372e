"""The reader of Willow's compact form."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
import torch

from quant_reproduction.datasets.files import data_folder
from quant_reproduction.datasets.willow import read_features, read_willow
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
