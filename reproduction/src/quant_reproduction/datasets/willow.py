"""WILLOW-ObjectClass (Cho, Alahari, Ponce, ICCV 2013): five classes, ten keypoints per image.

Some cars are the same image under two names, and Caltech's faces show the same person several
times: splits keep every source on one side. The order of keypoints is the correspondence.
"""

from __future__ import annotations

import json
import os
import re
from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import conv2d, max_pool2d, normalize, pad, relu

from quant_reproduction.datasets.files import cached_data, data_folder, load_npz, note_file
from qubolearn.errors import QubolearnError, missing_extra
from qubolearn.random import stream

Names = Sequence[str]
CLASSES = ("car", "duck", "face", "motorbike", "winebottle")
KEYPOINTS = 10
SIDE = 256  # pixels of the square images of the compact form
VGG_LAYERS = ("relu4_2", "relu5_1")
AlexNetLayer = Literal["relu1", "relu2", "relu3", "relu4", "relu5"]
#: Pixels that conv5 of AlexNet sees for one output, and channels of the images it was trained on: mean and deviation.
SEEN, RED_GREEN_BLUE = 163, torch.tensor([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]])


@dataclass(frozen=True)
class WillowImages:
    """The annotated images, sorted by class and name."""

    names: tuple[str, ...]
    classes: tuple[str, ...]
    files: tuple[Path, ...]
    sizes: Tensor  # [images, (width, height)], float32, of the original image
    keypoints: Tensor  # [images, 10, (x, y)], original pixels counted from 1

    def key(self, index: int) -> str:
        """Return the name of an image in records: class/name."""
        return f"{self.classes[index]}/{self.names[index]}"

    def keypoints_squashed(self) -> Tensor:
        """Return keypoints ``[images, 10, 2]`` in the 256 x 256 image."""
        return self.keypoints * (SIDE / self.sizes[:, None])


def read_willow(folder: Path | str | None = None) -> WillowImages:
    """Read the compact form, by default of the data folder."""
    folder = data_folder("willow") if folder is None else Path(folder)
    path = folder / "willow_keypoints.json"
    if not path.is_file():
        raise QubolearnError(f"no file {path}; its sources are in docs/data.md")
    note_file(path)
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        rows = sorted(entries, key=lambda entry: (entry["class"], entry["image"]))
        classes, names, files = (tuple(str(row[key]) for row in rows) for key in ("class", "image", "file"))
        sizes = torch.tensor([[float(row["width"]), float(row["height"])] for row in rows])
        points = [[[float(x), float(y)] for x, y in row["keypoints_orig"]] for row in rows]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise QubolearnError(f"{path}: expected a list of images ({reason})") from error
    for name, file, size, found in zip(names, files, sizes, points, strict=True):
        if PurePosixPath(file).is_absolute() or ".." in PurePosixPath(file).parts:
            raise QubolearnError(f"image file {file!r} is outside the dataset's folder")
        if len(found) != KEYPOINTS:
            got = f"{len(found)}; drop it"
            raise QubolearnError(f"{path}: expected {KEYPOINTS} keypoints in {name!r}, got {got}")
        if not torch.isfinite(torch.cat([size[None], torch.tensor(found)])).all() or size.min() < 1:
            raise QubolearnError(f"{path}: size {size.tolist()} or keypoints of {name!r} are invalid")
    if not names:
        raise QubolearnError(f"{path}: expected at least one image")
    return WillowImages(names, classes, tuple(folder / file for file in files), sizes, torch.tensor(points))


def read_features(layer: str, images: WillowImages, folder: Path | str | None = None) -> Tensor:
    """Read AlexNet features at keypoints: ``[images, 10, C]``."""
    return _layers("willow_alexnet_features.npz", [layer], images, folder)[0]


@cached_data(1)
def patch_features(keypoints: int) -> Tensor:
    """Return AlexNet's conv4 and conv5 before the ReLU ``[images, keypoints, 512]``, as the released code reads them.

    They are the center of a patch of 224 x 224 pixels around each keypoint, truncated to pixels; images are reflected
    at their borders. The center sees no padding of the patch, only ``SEEN`` x ``SEEN`` pixels of it.
    """
    images, path = read_willow(), data_folder("alexnet") / "alexnet_conv_imagenet.npz"
    names = [(f"features.{layer}.weight", f"features.{layer}.bias") for layer in (0, 3, 6, 8, 10)]
    arrays = load_npz(
        path, {name: ("f", dims) for pair in names for name, dims in zip(pair, (4, 1), strict=True)}
    )
    layers = [[torch.from_numpy(arrays[name]) for name in pair] for pair in names]
    note_file(os.path.commonpath(images.files))
    mean, deviation = RED_GREEN_BLUE[:, :, None, None]
    found = []
    for file, points in zip(images.files, images.keypoints_squashed()[:, :keypoints].long(), strict=True):
        pixels = torch.from_numpy(np.array(decoded_image(file))).permute(2, 0, 1) / 255
        wide = pad((pixels - mean) / deviation, (SEEN // 2 + 1,) * 4, mode="reflect")
        h, outputs = torch.stack([wide[:, y : y + SEEN, x : x + SEEN] for x, y in points.tolist()]), []
        for place, (weight, bias) in enumerate(layers):
            outputs.append(conv2d(h, weight, bias, stride=4 if place == 0 else 1))
            h = max_pool2d(relu(outputs[-1]), 3, 2) if place < 2 else relu(outputs[-1])
        found.append(torch.cat([outputs[-2][:, :, 1, 1], outputs[-1][:, :, 0, 0]], 1))
    return torch.stack(found)


def read_vgg_features(images: WillowImages, folder: Path | str | None = None) -> Tensor:
    """Read VGG16 features relu4_2 and relu5_1: ``[images, 10, 1024]``."""
    layers = _layers("willow_vgg16_features.npz", VGG_LAYERS, images, folder)
    return torch.cat([normalize(layer, dim=-1) for layer in layers], -1)


def _layers(file: str, names: Sequence[str], images: WillowImages, folder: Any) -> list[Tensor]:
    path = (data_folder("willow") if folder is None else Path(folder)) / file
    arrays = load_npz(path, {**dict.fromkeys(names, ("f", 3)), "images": ("U", 1)})
    found = [torch.tensor(arrays[layer], dtype=torch.float32) for layer in names]
    same = tuple(arrays["images"].tolist()) == images.names
    if not same or any(layer.shape[:2] != (len(images.names), KEYPOINTS) for layer in found):
        wanted = "the images of willow_keypoints.json in order"
        raise QubolearnError(f"{path}: expected {wanted}; make both again")
    return found


def decoded_image(file: Path, mode: Literal["RGB", "L"] = "RGB") -> Any:
    """Return a decoded Pillow image, in color or in gray."""
    try:
        from PIL import Image
    except ImportError:
        raise missing_extra("reading images", "plots") from None
    try:
        with Image.open(file) as image:
            return image.convert(mode)
    except (OSError, Image.DecompressionBombError) as error:
        raise QubolearnError(f"cannot read the image {file}: {error}") from error


def picture_of(key: str) -> Any:
    """Return the pixels of the image of this key, or None."""
    try:
        images = read_willow()
        files = {images.key(index): file for index, file in enumerate(images.files)}
        return np.array(decoded_image(files[key])) if key in files else None
    except QubolearnError:
        return None


THUMBNAIL = 32  # pixels a side
#: Minimum correlation of thumbnails of copies; different bottles reach 0.95.
SAME_PICTURE = 0.98
#: Minimum correlation of features of cropped copies; others reach 0.74.
SAME_FEATURES = 0.8
#: Caltech's faces are sorted by person: the first image of each, found by eye.
#: Features of one person in other light differ more than those of two persons.
FIRST_OF_PERSON = (
    *(1, 24, 44, 48, 72, 92, 116, 136, 140, 164, 172, 176, 196, 216),
    *(240, 264, 268, 288, 308, 328, 348, 368, 388, 392, 396, 400, 420),
)


def read_sources(images: WillowImages, folder: Path | str | None = None) -> list[int]:
    """Return the sources of the images, by pixels and VGG16 features."""
    features = read_vgg_features(images, folder)
    deep = features[:, :, : features.shape[2] // 2]
    return sources_of(images.classes, deep, thumbnails(images), persons(images.names))


def persons(names: Sequence[str]) -> list[int]:
    """Return the person on each of Caltech's faces: 1, 2, ...; else 0."""
    faces = [re.fullmatch(r"image_(\d{4})", name) for name in names]
    return [bisect(FIRST_OF_PERSON, int(face[1])) if face else 0 for face in faces]


def thumbnails(images: WillowImages) -> Tensor:
    """Return gray images ``[images, 32, 32]`` of mean 0 and norm 1."""
    note_file(os.path.commonpath(images.files))
    small = torch.stack([_thumbnail(file) for file in images.files])
    return normalize(small - small.mean(1, keepdim=True), dim=1).reshape(-1, THUMBNAIL, THUMBNAIL)


def _thumbnail(file: Path) -> Tensor:
    small = decoded_image(file, "L").resize((THUMBNAIL, THUMBNAIL), reducing_gap=2.0)
    return torch.from_numpy(np.array(small, dtype=np.float32)).flatten()


def sources_of(classes: Names, features: Tensor, pictures: Tensor, shown: Sequence[int] = ()) -> list[int]:
    """Return the number of each image's source, which must be on one side.

    Images of a class share a source if they are the same, mirrored or rotated by 90°, if features
    agree at all keypoints, if they show the same person, or if both share one with a third.
    """
    flat = normalize(features, dim=-1).flatten(1)
    alike = flat @ flat.T / features.shape[1] > SAME_FEATURES
    for upright in (pictures, pictures.flip(2)):
        for quarters in range(4):
            other = torch.rot90(upright, quarters, (1, 2))
            alike |= pictures.flatten(1) @ other.flatten(1).T > SAME_PICTURE
    person = torch.tensor([*shown] or [0])
    alike |= (person == person[:, None]) & (person > 0)
    number = list(range(len(classes)))
    for first, second in alike.triu(1).nonzero().tolist():
        if classes[first] == classes[second]:
            old, new = number[second], number[first]
            number = [new if each == old else each for each in number]
    return number


def draw_split(classes: Names, sources: Sequence[int], size: int, seed: int) -> tuple[list[int], list[int]]:
    """Return ``size`` images of each class, and the others, by source."""
    chosen: list[int] = []
    for name in sorted(set(classes)):
        members: dict[int, list[int]] = {}
        for image, source in enumerate(sources):
            if classes[image] == name:
                members.setdefault(source, []).append(image)
        groups, random = list(members.values()), stream(seed, "split", name)
        for _ in range(100):
            taken: list[int] = []
            for index in torch.randperm(len(groups), generator=random).tolist():
                taken += groups[index] if len(taken) + len(groups[index]) <= size else []
            if len(taken) == size:
                break
        left = sum(map(len, groups)) - len(taken)
        if len(taken) < size or left < 2:
            raise QubolearnError(
                f"class {name!r} has {left + len(taken)} images in {len(groups)} sources, which give {len(taken)} of "
                f"{size} training images and leave {left}; expected at least 2"
            )
        chosen += taken
    trained = set(chosen)
    return chosen, [image for image in range(len(classes)) if image not in trained]
