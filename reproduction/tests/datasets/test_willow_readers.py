"""Readers of both forms of Willow, on small archives made here and on the real one where it is."""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from quant_reproduction.datasets.alexnet import AlexNetConvolutions
from quant_reproduction.datasets.files import data_folder
from quant_reproduction.datasets.willow import CLASSES, read_features, read_willow
from quant_reproduction.datasets.willow_archive import download_archive, read_archive, write_compact
from qubolearn.errors import QubolearnError


def write_image(folder: Path, name: str, points: np.ndarray, size: tuple[int, int] = (80, 60)) -> None:
    from PIL import Image
    from scipy.io import savemat

    folder.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (200, 100, 50)).save(folder / f"{name}.png")
    savemat(folder / f"{name}.mat", {"pts_coord": points})


def points(seed: int, count: int = 10) -> np.ndarray:
    return np.random.default_rng(seed).uniform(1, 60, size=(2, count))


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    pytest.importorskip("PIL")
    root = tmp_path / "WILLOW-ObjectClass"
    for seed, name in enumerate(CLASSES):
        write_image(root / name.capitalize(), f"{name}_b", points(seed))
        write_image(root / name.capitalize(), f"{name}_a", points(10 + seed))
    return tmp_path


def test_archive_is_read_in_order_of_class_and_name(archive: Path) -> None:
    images = read_archive(archive)
    assert images.names[:3] == ("car_a", "car_b", "duck_a")
    assert Counter(images.classes) == dict.fromkeys(CLASSES, 2)
    assert torch.allclose(images.keypoints[1], torch.tensor(points(0).T, dtype=torch.float32))
    assert images.sizes[0].tolist() == [80, 60]
    assert images.files[0].name == "car_a.png"


def test_known_faults_of_the_archive_are_fixed(archive: Path) -> None:
    root = archive / "WILLOW-ObjectClass"
    write_image(root / "Face", "image_0160", points(5, count=8))
    wrong = points(6)
    wrong[1, 5], wrong[1, 6] = 40.0, 30.0  # keypoint 6 below keypoint 7
    write_image(root / "Car", "Cars_030a", wrong)
    images = read_archive(archive)
    assert "image_0160" not in images.names
    fixed = images.keypoints[images.names.index("Cars_030a")]
    assert fixed[5].tolist() == pytest.approx(wrong[:, 6])
    write_image(root / "Car", "Cars_030a", fixed.T.numpy())
    again = read_archive(archive)
    assert torch.equal(again.keypoints[again.names.index("Cars_030a")], fixed)


def test_compact_form_round_trip(archive: Path, tmp_path: Path) -> None:
    images = read_archive(archive)
    folder = write_compact(images, AlexNetConvolutions(), tmp_path / "compact")
    again = read_willow(folder)
    assert again.names == images.names
    assert again.classes == images.classes
    assert torch.allclose(again.keypoints, images.keypoints)
    assert all(file.is_file() for file in again.files)
    features = read_features("relu4", again, folder)
    assert features.shape == (10, 10, 256)
    assert float(features.abs().max()) > 0


def test_download(archive: Path, monkeypatch: pytest.MonkeyPatch, served: Callable[[Path], str]) -> None:
    monkeypatch.setenv("QUBOLEARN_DATA", str(archive / "data"))
    with zipfile.ZipFile(archive / "willow.zip", "w") as target:
        for path in sorted((archive / "WILLOW-ObjectClass").rglob("*.*")):
            target.write(path, path.relative_to(archive))
        target.writestr("__MACOSX/WILLOW-ObjectClass/Car/._car_a.mat", b"junk")
    images = download_archive(url=served(archive / "willow.zip"))
    assert images.names == read_archive(archive).names
    assert {path.parent.name for path in images.files} == {name.capitalize() for name in CLASSES}


def test_bad_archives(archive: Path) -> None:
    root = archive / "WILLOW-ObjectClass"
    write_image(root / "Duck", "few", points(0, count=9))
    with pytest.raises(QubolearnError, match="'few', got 9"):
        read_archive(archive)
    (root / "Duck" / "few.mat").write_bytes(b"MATLAB 5.0 MAT-file, or so it says" * 9)
    with pytest.raises(QubolearnError, match=r"few\.mat"):
        read_archive(archive)
    write_image(root / "Duck", "few", np.full((2, 10), np.nan))
    with pytest.raises(QubolearnError, match="'few'"):
        read_archive(archive)
    (root / "Duck" / "few.png").unlink()
    with pytest.raises(QubolearnError, match=r"few\.png"):
        read_archive(archive)
    (root / "Duck" / "few.png").write_bytes(b"no image")
    with pytest.raises(QubolearnError, match="cannot read the image"):
        read_archive(archive)
    with pytest.raises(QubolearnError, match="nowhere"):
        read_archive(archive / "nowhere")


def entry(**changes: object) -> dict[str, object]:
    keypoints = [[float(i), float(i * i)] for i in range(10)]
    usual = {"class": "car", "image": "a", "file": "a.jpg", "width": 9, "height": 9, "keypoints_orig": keypoints}
    return usual | changes


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([entry(keypoints_orig=[[1, 2]] * 8)], "'a', got 8"),
        ([entry(file="../../etc/passwd")], "outside the dataset"),
        ([entry(width=0)], "0 x 9 pixels"),
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
