"""Copies of images, and splits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from quant_reproduction.datasets.files import data_root
from quant_reproduction.datasets.willow import (
    WillowImages,
    draw_split,
    persons,
    read_sources,
    read_vgg_features,
    read_willow,
    sources_of,
    thumbnails,
)
from quant_reproduction.problems.willow import split_images
from qubolearn.errors import QubolearnError

Image = pytest.importorskip("PIL.Image")
needs_willow = pytest.mark.skipif(
    not (data_root() / "willow" / "willow_vgg16_features.npz").is_file(),
    reason="needs $QUBOLEARN_DATA/willow",
)


def pictures(folder: Path) -> WillowImages:
    """Return six images of noise and three copies."""
    random = np.random.default_rng(0)
    made = [Image.fromarray(random.integers(0, 255, (8, 8, 3), np.uint8)).resize((64, 64)) for _ in range(6)]
    made += [made[0].transpose(Image.Transpose.FLIP_LEFT_RIGHT), made[1], made[2]]
    files = []
    for number, picture in enumerate(made):
        files.append(folder / f"{number}.jpg")
        picture.save(files[-1], quality=20 if number == 7 else 95)
    classes = (*["car"] * 8, "duck")
    names = tuple(str(number) for number in range(9))
    return WillowImages(names, classes, tuple(files), torch.full((9, 2), 64.0), torch.zeros(9, 10, 2))


def test_planted_copies_are_found(tmp_path: Path) -> None:
    images = pictures(tmp_path)
    features = torch.randn(9, 10, 64, generator=torch.Generator().manual_seed(0))
    features[5] = 3 * features[4] + 0.3 * torch.randn(10, 64)  # as if cropped: other pixels
    sources = sources_of(images.classes, features, thumbnails(images))
    assert sources == [0, 1, 2, 3, 4, 4, 0, 1, 8]


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("quarters", range(4))
def test_a_rotated_image_has_the_same_source(quarters: int, mirrored: bool) -> None:
    features, pictures = torch.eye(3)[:, None].expand(3, 10, 3), torch.zeros(3, 32, 32)
    pictures[0, 3, 5], pictures[1, 9, 9] = 1, 1
    copy = pictures[0].flip(1) if mirrored else pictures[0]
    pictures[2] = torch.rot90(copy, quarters)
    assert sources_of(["car"] * 3, features, pictures) == [0, 1, 0]


def test_images_of_one_person_have_one_source() -> None:
    """Faces in other light share neither pixels nor features."""
    names = ["image_0288", "image_0292", "image_0296", "image_0308", "0308", "Cars_030a"]
    features = torch.eye(6)[:, None].expand(6, 10, 6)
    pictures = torch.eye(6, 1024).reshape(6, 32, 32)
    assert sources_of(["face"] * 6, features, pictures) == [0, 1, 2, 3, 4, 5]
    assert sources_of(["face"] * 6, features, pictures, persons(names)) == [0, 0, 0, 3, 4, 5]


def test_splits_keep_sources_on_one_side_and_have_the_requested_size() -> None:
    sources = [0, 0, 0, 1, 1, *range(5, 20)]
    classes = ["car"] * 20
    seen = set()
    for seed in range(30):
        trained, tested = draw_split(classes, sources, 8, seed)
        assert len(trained) == 8
        assert sorted(trained + tested) == list(range(20))
        assert not {sources[image] for image in trained} & {sources[image] for image in tested}
        seen.add(tuple(sorted(trained)))
    assert len(seen) > 20  # another seed is another split


def test_too_few_images_are_rejected() -> None:
    with pytest.raises(QubolearnError, match="'car' has 4 images in 2 sources"):
        draw_split(["car"] * 4, [0, 0, 0, 1], 2, 0)


@needs_willow
def test_the_known_copies_among_the_cars_are_found_and_no_other_outside_of_the_faces() -> None:
    images = read_willow()
    sources = sources_of(images.classes, read_vgg_features(images)[:, :, :512], thumbnails(images))
    shared: dict[int, list[str]] = {}
    for name, kind, source in zip(images.names, images.classes, sources, strict=True):
        if kind != "face":
            shared.setdefault(source, []).append(name)
    assert [names for names in shared.values() if len(names) > 1] == [
        ["Cars_004b", "Cars_030a"],
        ["Cars_013a", "Cars_025a"],
        ["Cars_017b", "Cars_027a"],
    ]


@needs_willow
def test_no_person_is_on_two_sides_of_a_split() -> None:
    """One person each, by eye."""
    images, parts = read_willow(), ("train", "validation", "test")
    sources = read_sources(images)
    for split in range(1, 6):
        faces = {part: split_images(images, part, split, sources)["face"] for part in parts}
        side = {images.names[i]: part for part in parts for i in faces[part]}
        for numbers in ((1, 16), (176, 188), (196, 208, 212), (288, 292, 296), (308, 316), (420, 432)):
            assert len({side[f"image_{number:04}"] for number in numbers}) == 1
