"""WILLOW-ObjectClass (Cho, Alahari, Ponce, ICCV 2013): images of five classes with ten keypoints each.

Read from the compact form in ``$QUBOLEARN_DATA/willow``: keypoints as JSON, images of 256 x 256 pixels, and AlexNet and
VGG16 features at the keypoints. Keypoints are (x, y) in pixels of the original image, counted from 1; their order is
the correspondence. :mod:`~quant_reproduction.datasets.willow_archive` makes this form from the original archive.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from quant_reproduction.datasets.alexnet import check_layer
from quant_reproduction.datasets.files import data_folder, load_npz, note_file
from qubolearn.errors import QubolearnError, missing_extra

__all__ = [
    "CLASSES",
    "KEYPOINTS",
    "SIDE",
    "VGG_LAYERS",
    "WillowImages",
    "WillowRow",
    "collect_rows",
    "decoded_image",
    "open_image",
    "picture_of",
    "read_features",
    "read_pixels",
    "read_vgg_features",
    "read_willow",
]

CLASSES = ("car", "duck", "face", "motorbike", "winebottle")
KEYPOINTS = 10
SIDE = 256  # pixels of the square images of the compact form
VGG_LAYERS = ("relu4_2", "relu5_1")


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
        raise QubolearnError(f"no file {path}; make it from the original archive with willow_archive.write_compact")
    note_file(path)
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        rows = [_compact_row(entry, folder) for entry in entries]
    except QubolearnError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise QubolearnError(f"{path}: expected a list of images ({type(error).__name__}: {error})") from error
    return collect_rows(rows, path)


def read_features(layer: str, images: WillowImages, folder: Path | str | None = None) -> Tensor:
    """Read AlexNet features of the compact form at the keypoints of these images: ``[images, 10, C]``, float32."""
    folder = data_folder("willow") if folder is None else Path(folder)
    path = folder / "willow_alexnet_features.npz"
    arrays = load_npz(path, {check_layer(layer): ("f", 3), "images": ("U", 1)})
    found = torch.tensor(arrays[layer], dtype=torch.float32)
    _check_order(arrays["images"], found, images, path)
    return found


def read_vgg_features(images: WillowImages, folder: Path | str | None = None) -> Tensor:
    """Read VGG16 features of the compact form at the keypoints of these images: ``[images, 10, 1024]``, float32.

    They are relu4_2 and relu5_1, 512 numbers each, both normalized.
    """
    folder = data_folder("willow") if folder is None else Path(folder)
    path = folder / "willow_vgg16_features.npz"
    arrays = load_npz(path, {**dict.fromkeys(VGG_LAYERS, ("f", 3)), "images": ("U", 1)})
    layers = [torch.tensor(arrays[layer], dtype=torch.float32) for layer in VGG_LAYERS]
    _check_order(arrays["images"], layers[0], images, path)
    _check_order(arrays["images"], layers[1], images, path)
    return torch.cat([torch.nn.functional.normalize(layer, dim=-1) for layer in layers], -1)


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
    return WillowImages(
        names=tuple(row.name for row in rows),
        classes=tuple(row.class_name for row in rows),
        files=tuple(row.file for row in rows),
        sizes=torch.tensor([row.size for row in rows]),
        keypoints=torch.tensor([row.keypoints for row in rows]),
    )
