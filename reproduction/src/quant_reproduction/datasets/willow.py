"""WILLOW-ObjectClass (Cho, Alahari, Ponce, ICCV 2013): images of five classes with ten keypoints each.

Read from the compact form in ``$QUBOLEARN_DATA/willow``: keypoints as JSON, images of 256 x 256 pixels, and AlexNet and
VGG16 features at the keypoints. Keypoints are (x, y) in pixels of the original image, counted from 1; their order is
the correspondence. Some cars are the same image under two names, and Caltech's faces show the same person several
times: splits keep every source on one side.
"""

from __future__ import annotations

import json
import math
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
from torch.nn.functional import normalize

from quant_reproduction.datasets.files import data_folder, load_npz, note_file
from qubolearn.errors import QubolearnError, missing_extra, unknown_name
from qubolearn.random import stream

CLASSES = ("car", "duck", "face", "motorbike", "winebottle")
KEYPOINTS = 10
SIDE = 256  # pixels of the square images of the compact form
VGG_LAYERS = ("relu4_2", "relu5_1")
LAYERS = ("relu1", "relu2", "relu3", "relu4", "relu5")  # of AlexNet


@dataclass(frozen=True)
class WillowImages:
    """The annotated images, sorted by class and name."""

    names: tuple[str, ...]
    classes: tuple[str, ...]
    files: tuple[Path, ...]
    sizes: Tensor  # [images, (width, height)], float32, of the original image
    keypoints: Tensor  # [images, 10, (x, y)], float32, pixels of the original image counted from 1

    def key(self, index: int) -> str:
        """Return the name of an image in records: class/name."""
        return f"{self.classes[index]}/{self.names[index]}"

    def keypoints_squashed(self) -> Tensor:
        """Return the keypoints in pixels of the 256 x 256 image: ``[images, 10, 2]``."""
        return self.keypoints * (SIDE / self.sizes[:, None])


def read_willow(folder: Path | str | None = None) -> WillowImages:
    """Read the compact form; by default from ``willow`` of the data folder."""
    folder = data_folder("willow") if folder is None else Path(folder)
    path = folder / "willow_keypoints.json"
    if not path.is_file():
        raise QubolearnError(f"no file {path}; its sources are in docs/data.md")
    note_file(path)
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        rows = [_compact_row(entry, folder) for entry in entries]
    except QubolearnError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise QubolearnError(f"{path}: expected a list of images ({type(error).__name__}: {error})") from error
    return collect_rows(rows, path)


def check_layer(layer: str) -> str:
    """Return the name of a layer of AlexNet."""
    if layer not in LAYERS:
        raise unknown_name("AlexNet layer", layer, LAYERS)
    return layer


def read_features(layer: str, images: WillowImages, folder: Path | str | None = None) -> Tensor:
    """Read AlexNet features of the compact form at the keypoints of these images: ``[images, 10, C]``, float32."""
    folder = data_folder("willow") if folder is None else Path(folder)
    path = folder / "willow_alexnet_features.npz"
    arrays = load_npz(path, {check_layer(layer): ("f", 3), "images": ("U", 1)})
    found = torch.tensor(arrays[layer], dtype=torch.float32)
    _check_order(arrays["images"], found, images, path)
    return found


def read_vgg_features(images: WillowImages, folder: Path | str | None = None) -> Tensor:
    """Read normalized VGG16 features relu4_2 and relu5_1 at keypoints: ``[images, 10, 1024]``, float32."""
    folder = data_folder("willow") if folder is None else Path(folder)
    path = folder / "willow_vgg16_features.npz"
    arrays = load_npz(path, {**dict.fromkeys(VGG_LAYERS, ("f", 3)), "images": ("U", 1)})
    layers = [torch.tensor(arrays[layer], dtype=torch.float32) for layer in VGG_LAYERS]
    for layer in layers:
        _check_order(arrays["images"], layer, images, path)
    return torch.cat([normalize(layer, dim=-1) for layer in layers], -1)


def _check_order(names: Any, features: Tensor, images: WillowImages, path: Path) -> None:
    if tuple(names.tolist()) != images.names or features.shape[:2] != (len(images.names), KEYPOINTS):
        raise QubolearnError(f"{path}: expected the images of willow_keypoints.json in its order; make both again")


@dataclass(frozen=True)
class WillowRow:
    """One annotated image."""

    class_name: str
    name: str
    file: Path
    size: tuple[float, float]
    keypoints: list[list[float]]


def _compact_row(entry: dict[str, Any], folder: Path) -> WillowRow:
    file = PurePosixPath(str(entry["file"]))
    if file.is_absolute() or ".." in file.parts:
        raise QubolearnError(f"image file {str(file)!r} is outside the dataset's folder")
    size = (float(entry["width"]), float(entry["height"]))
    keypoints = [[float(x), float(y)] for x, y in entry["keypoints_orig"]]
    return WillowRow(str(entry["class"]), str(entry["image"]), folder / file, size, keypoints)


def open_image(file: Path) -> Any:
    """Open an image with Pillow without decoding it."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise missing_extra("reading images", "plots") from None
    try:
        return Image.open(file)
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError) as error:
        raise QubolearnError(f"cannot read the image {file}: {error}") from error


def decoded_image(file: Path, mode: Literal["RGB", "L"] = "RGB") -> Any:
    """Return a decoded Pillow image, in color or in gray."""
    with open_image(file) as image:
        try:
            return image.convert(mode)
        except OSError as error:  # a truncated file
            raise QubolearnError(f"cannot read the image {file}: {error}") from error


def read_pixels(file: Path) -> Tensor:
    """Read an image as RGB ``[3, height, width]``, float32 in 0 ... 1."""
    return torch.from_numpy(np.array(decoded_image(file))).permute(2, 0, 1).float() / 255


def picture_of(key: str) -> Tensor | None:
    """Read the image of this :meth:`WillowImages.key`, or return None if it is missing."""
    try:
        images = read_willow()
        files = {images.key(index): file for index, file in enumerate(images.files)}
        return read_pixels(files[key]) if key in files else None
    except QubolearnError:
        return None


def collect_rows(rows: list[WillowRow], source: Path) -> WillowImages:
    """Sort and check annotated images."""
    rows = sorted(rows, key=lambda row: (row.class_name, row.name))
    for row in rows:
        if len(row.keypoints) != KEYPOINTS:
            raise QubolearnError(
                f"{source}: expected {KEYPOINTS} keypoints in image {row.name!r}, got {len(row.keypoints)}; drop it"
            )
        if not all(map(math.isfinite, [*row.size, *(value for point in row.keypoints for value in point)])):
            raise QubolearnError(f"{source}: image {row.name!r} has a size or keypoint that is not finite")
        if min(row.size) < 1:
            raise QubolearnError(f"{source}: image {row.name!r} is {row.size[0]:g} x {row.size[1]:g} pixels")
    if not rows:
        raise QubolearnError(f"{source}: expected at least one image")
    names, classes, files = zip(*((row.name, row.class_name, row.file) for row in rows), strict=True)
    sizes, keypoints = (torch.tensor([getattr(row, part) for row in rows]) for part in ("size", "keypoints"))
    return WillowImages(names, classes, files, sizes, keypoints)


THUMBNAIL = 32  # pixels a side
#: Minimum correlation of thumbnails of the same image, mirrored or rotated by 90°; different bottles reach 0.95.
SAME_PICTURE = 0.98
#: Minimum correlation of features at the keypoints of cropped or scaled copies; others reach 0.74.
SAME_FEATURES = 0.8
#: Caltech's faces are sorted by person: the number of the first image of each, found by eye. Features of one person
#: outdoors or against the light differ by more than those of two persons in one room.
FIRST_OF_PERSON = (
    *(1, 24, 44, 48, 72, 92, 116, 136, 140, 164, 172, 176, 196, 216),
    *(240, 264, 268, 288, 308, 328, 348, 368, 388, 392, 396, 400, 420),
)


def read_sources(images: WillowImages, folder: Path | str | None = None) -> list[int]:
    """Return the sources of the compact form's images, by their pixels and VGG16 features."""
    features = read_vgg_features(images, folder)
    deep = features[:, :, : features.shape[2] // len(VGG_LAYERS)]
    return sources_of(images.classes, deep, thumbnails(images), persons(images.names))


def persons(names: Sequence[str]) -> list[int]:
    """Return the person on each of Caltech's faces (image_0001, ...): 1, 2, ...; 0 for all other images."""
    faces = [re.fullmatch(r"image_(\d{4})", name) for name in names]
    return [bisect(FIRST_OF_PERSON, int(face[1])) if face else 0 for face in faces]


def thumbnails(images: WillowImages) -> Tensor:
    """Return the images in gray, ``[images, 32, 32]``, each with mean 0 and norm 1."""
    note_file(os.path.commonpath(images.files))
    small = torch.stack([_thumbnail(file) for file in images.files])
    return normalize(small - small.mean(1, keepdim=True), dim=1).reshape(-1, THUMBNAIL, THUMBNAIL)


def _thumbnail(file: Path) -> Tensor:
    small = decoded_image(file, "L").resize((THUMBNAIL, THUMBNAIL), reducing_gap=2.0)
    return torch.from_numpy(np.array(small, dtype=np.float32)).flatten()


def sources_of(
    classes: Sequence[str], features: Tensor, pictures: Tensor, shown: Sequence[int] | None = None
) -> list[int]:
    """Return the number of each image's source; images with the same number must be on one side of a split.

    Two images of a class share a source if they are the same image, mirrored or rotated by 90°, if their features agree
    at all keypoints ``[images, keypoints, m]``, if they show the same person, or if both share a source with a third.
    """
    flat = normalize(features, dim=-1).flatten(1)
    alike = flat @ flat.T / features.shape[1] > SAME_FEATURES
    for upright in (pictures, pictures.flip(2)):
        for quarters in range(4):
            other = torch.rot90(upright, quarters, (1, 2))
            alike |= pictures.flatten(1) @ other.flatten(1).T > SAME_PICTURE
    if shown is not None:
        person = torch.tensor(shown)
        alike |= (person == person[:, None]) & (person > 0)
    number = list(range(len(classes)))
    for first, second in alike.triu(1).nonzero().tolist():
        if classes[first] == classes[second]:
            old, new = number[second], number[first]
            number = [new if each == old else each for each in number]
    return number


def draw_split(classes: Sequence[str], sources: Sequence[int], size: int, seed: int) -> tuple[list[int], list[int]]:
    """Return ``size`` random images of each class, and all others; every source is on one side."""
    chosen: list[int] = []
    for name in sorted(set(classes)):
        members: dict[int, list[int]] = {}
        for image, source in enumerate(sources):
            if classes[image] == name:
                members.setdefault(source, []).append(image)
        groups, random = list(members.values()), stream(seed, "split", name)
        taken: list[int] = []
        for _ in range(100):
            taken = _fitting([groups[index] for index in torch.randperm(len(groups), generator=random).tolist()], size)
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


def _fitting(groups: Sequence[Sequence[int]], size: int) -> list[int]:
    """Return images of complete groups, skipping groups that exceed ``size``."""
    taken: list[int] = []
    for group in groups:
        if len(taken) + len(group) <= size:
            taken += group
    return taken
