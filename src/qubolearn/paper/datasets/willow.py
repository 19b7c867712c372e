"""WILLOW-ObjectClass (Cho, Alahari, Ponce, ICCV 2013): images of five classes with ten keypoints each.

Two forms on disk: the original archive (a folder per class with images and ``.mat`` keypoints) and the compact
form in ``$QUBOLEARN_DATA/willow`` (keypoints as JSON, images of 256 x 256 pixels, AlexNet features at the keypoints).
Keypoints are (x, y) in pixels of the original image counted from 1; their order is the correspondence.
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

from qubolearn.errors import QubolearnError, missing_extra
from qubolearn.paper.datasets.alexnet import check_layer
from qubolearn.paper.datasets.mat import read_matrix
from qubolearn.problems.data import data_folder, load_npz, note_file

__all__ = [
    "CLASSES",
    "KEYPOINTS",
    "SIDE",
    "WillowImages",
    "decoded_image",
    "picture_of",
    "read_archive",
    "read_features",
    "read_pixels",
    "read_vgg_features",
    "read_willow",
]

CLASSES = ("car", "duck", "face", "motorbike", "winebottle")
KEYPOINTS = 10
#: The compact form squashes every image to SIDE x SIDE pixels.
SIDE = 256
VGG_LAYERS = ("relu4_2", "relu5_1")
#: No annotation comes near this; a stranger's file must not choose how much is read.
MAX_JSON_BYTES, MAX_MAT_BYTES = 2**24, 2**20
#: Known faults of the original archive: an image with eight keypoints, and a car whose keypoints 6 and 7 are swapped.
DROPPED = frozenset({"image_0160"})
SWAPPED = "Cars_030a"


@dataclass(frozen=True)
class WillowImages:
    """The annotated images in order of class and name."""

    names: tuple[str, ...]
    classes: tuple[str, ...]
    files: tuple[Path, ...]
    sizes: Tensor  # [images, (width, height)], float32, of the original image
    keypoints: Tensor  # [images, 10, (x, y)], float32, pixels of the original image counted from 1

    def key(self, index: int) -> str:
        """What an image is called in records: its class and name."""
        return f"{self.classes[index]}/{self.names[index]}"

    def keypoints_squashed(self) -> Tensor:
        """The keypoints in pixels of the image squashed to 256 x 256. ``[images, 10, 2]``"""
        return self.keypoints * (SIDE / self.sizes[:, None])


def read_willow(folder: Path | str | None = None) -> WillowImages:
    """The compact form; by default the folder ``willow`` of the data folder."""
    folder = data_folder("willow") if folder is None else Path(folder)
    path = folder / "willow_keypoints.json"
    if not path.is_file():
        raise QubolearnError(f"no file {path}; make it from the original archive with write_compact")
    if path.stat().st_size > MAX_JSON_BYTES:
        raise QubolearnError(f"{path} has {path.stat().st_size} bytes (limit {MAX_JSON_BYTES}); is it the right file?")
    note_file(path)
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        rows = [_compact_row(entry, folder) for entry in entries]
    except QubolearnError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise QubolearnError(f"{path} is no list of annotated images ({type(error).__name__}: {error})") from error
    return _collect(rows, path)


def read_features(layer: str, images: WillowImages, folder: Path | str | None = None) -> Tensor:
    """AlexNet features of the compact form at the keypoints of these images: ``[images, 10, C]``, float32."""
    folder = data_folder("willow") if folder is None else Path(folder)
    path = folder / "willow_alexnet_features.npz"
    arrays = load_npz(path, {check_layer(layer): ("f", 3), "images": ("U", 1)})
    found = torch.tensor(arrays[layer], dtype=torch.float32)
    _check_order(arrays["images"], found, images, path)
    return found


def read_vgg_features(images: WillowImages, folder: Path | str | None = None) -> Tensor:
    """VGG16 features of the compact form at the keypoints of these images: ``[images, 10, 1024]``, float32.

    relu4_2 and relu5_1, 512 numbers each and each of length 1.
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
        raise QubolearnError(f"{path} does not hold the images of willow_keypoints.json in its order; make both anew")


def read_archive(folder: Path | str) -> WillowImages:
    """The original archive: ``Car/Cars_000a.png`` beside ``Car/Cars_000a.mat`` and so on, its known faults mended."""
    folder = Path(folder)
    inner = folder / "WILLOW-ObjectClass"
    root = inner if inner.is_dir() else folder
    rows: list[_Row] = []
    for name in CLASSES:
        annotations = sorted((root / name.capitalize()).glob("[!.]*.mat"))  # macOS adds ._NAME.mat
        if not annotations:
            raise QubolearnError(
                f"no .mat keypoints in {root / name.capitalize()}; want the unpacked WILLOW-ObjectClass"
            )
        rows += [_archive_row(path, name) for path in annotations if path.stem not in DROPPED]
    return _collect(rows, root)


@dataclass(frozen=True)
class _Row:
    class_name: str
    name: str
    file: Path
    size: tuple[float, float]
    keypoints: list[list[float]]


def _compact_row(entry: dict[str, Any], folder: Path) -> _Row:
    file = PurePosixPath(str(entry["file"]))
    if file.is_absolute() or ".." in file.parts:
        raise QubolearnError(f"image file {str(file)!r} lies outside the dataset's folder")
    size = (float(entry["width"]), float(entry["height"]))
    keypoints = [[float(x), float(y)] for x, y in entry["keypoints_orig"]]
    return _Row(str(entry["class"]), str(entry["image"]), folder / file, size, keypoints)


def _archive_row(path: Path, class_name: str) -> _Row:
    file = next((path.with_suffix(end) for end in (".png", ".jpg") if path.with_suffix(end).is_file()), None)
    if file is None:
        raise QubolearnError(f"{path} has no image beside it; want {path.stem}.png or .jpg")
    keypoints = _read_mat(path)
    # In every car keypoint 6 lies above keypoint 7, so a copy that is already corrected is left as it is.
    if path.stem == SWAPPED and len(keypoints) > 6 and keypoints[5][1] > keypoints[6][1]:
        keypoints[5], keypoints[6] = keypoints[6], keypoints[5]
    return _Row(class_name, path.stem, file, image_size(file), keypoints)


def _read_mat(path: Path) -> list[list[float]]:
    """``pts_coord [2, 10]`` of a MATLAB file as ten pairs."""
    if path.stat().st_size > MAX_MAT_BYTES:
        raise QubolearnError(f"{path} has {path.stat().st_size} bytes (limit {MAX_MAT_BYTES}); is it the right file?")
    points = read_matrix(path.read_bytes(), "pts_coord", str(path))
    if points.shape[0] != 2:
        raise QubolearnError(f"{path}: pts_coord has shape {list(points.shape)}, want [2, {KEYPOINTS}]")
    return [[float(x), float(y)] for x, y in points.T]


def image_size(file: Path) -> tuple[float, float]:
    """Width and height of an image file."""
    with open_image(file) as image:
        return float(image.width), float(image.height)


def open_image(file: Path) -> Any:
    """A Pillow image, opened but not decoded; Pillow itself refuses decompression bombs."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise missing_extra("reading images", "plots") from None
    try:
        return Image.open(file)
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError) as error:
        raise QubolearnError(f"cannot read the image {file}: {error}") from error


def decoded_image(file: Path, mode: Literal["RGB", "L"] = "RGB") -> Any:
    """A Pillow image with all its pixels, in colour or in grey."""
    with open_image(file) as image:
        try:
            return image.convert(mode)
        except OSError as error:  # a file that ends early is only noticed here
            raise QubolearnError(f"cannot read the image {file}: {error}") from error


def read_pixels(file: Path) -> Tensor:
    """An image as RGB ``[3, height, width]``, float32 in 0 ... 1."""
    return torch.from_numpy(np.array(decoded_image(file))).permute(2, 0, 1).float() / 255


def picture_of(key: str) -> Tensor | None:
    """The image of this :meth:`WillowImages.key` in the data folder; None where the folder or the image is missing."""
    try:
        images = read_willow()
        files = {images.key(index): file for index, file in enumerate(images.files)}
        return read_pixels(files[key]) if key in files else None
    except QubolearnError:  # no such folder: figures are drawn without
        return None


def _collect(rows: list[_Row], source: Path) -> WillowImages:
    rows = sorted(rows, key=lambda row: (row.class_name, row.name))
    for row in rows:
        if len(row.keypoints) != KEYPOINTS:
            raise QubolearnError(
                f"{source}: image {row.name!r} has {len(row.keypoints)} keypoints, want {KEYPOINTS}; leave it out"
            )
        if not all(map(math.isfinite, [*row.size, *(value for point in row.keypoints for value in point)])):
            raise QubolearnError(f"{source}: image {row.name!r} has a size or keypoint that is not finite")
        if min(row.size) < 1:
            raise QubolearnError(f"{source}: image {row.name!r} is {row.size[0]:g} x {row.size[1]:g} pixels")
    if not rows:
        raise QubolearnError(f"{source} holds no image")
    return WillowImages(
        names=tuple(row.name for row in rows),
        classes=tuple(row.class_name for row in rows),
        files=tuple(row.file for row in rows),
        sizes=torch.tensor([row.size for row in rows]),
        keypoints=torch.tensor([row.keypoints for row in rows]),
    )
