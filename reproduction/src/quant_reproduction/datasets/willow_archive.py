"""The original WILLOW-ObjectClass archive: download it and convert it to the compact form."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import torch
from scipy.io import loadmat

from quant_reproduction.datasets import fetch, willow
from quant_reproduction.datasets.alexnet import AlexNetConvolutions, features_at
from quant_reproduction.datasets.willow import SIDE, WillowImages, WillowRow
from qubolearn.errors import QubolearnError

__all__ = ["ARCHIVE_URL", "download_archive", "read_archive", "write_compact"]

ARCHIVE_URL = "https://www.di.ens.fr/willow/research/graphlearning/WILLOW-ObjectClass_dataset.zip"
#: Known faults of the archive: an image with eight keypoints, and a car whose keypoints 6 and 7 are swapped.
DROPPED = frozenset({"image_0160"})
SWAPPED = "Cars_030a"


def download_archive(sha256: str | None = None, url: str = ARCHIVE_URL) -> WillowImages:
    """Download the archive to ``$QUBOLEARN_DATA/willow/original`` and read it."""
    return read_archive(fetch(url, "willow", sha256))


def read_archive(folder: Path | str) -> WillowImages:
    """Read the unpacked archive (``Car/Cars_000a.png`` next to ``Car/Cars_000a.mat``, ...) and fix its known faults."""
    inner = Path(folder) / "WILLOW-ObjectClass"
    root = inner if inner.is_dir() else Path(folder)
    rows: list[WillowRow] = []
    for name in willow.CLASSES:
        annotations = sorted((root / name.capitalize()).glob("[!.]*.mat"))  # macOS adds ._NAME.mat
        if not annotations:
            raise QubolearnError(f"no .mat keypoints in {root / name.capitalize()}; unpack WILLOW-ObjectClass there")
        rows += [_row(path, name) for path in annotations if path.stem not in DROPPED]
    return willow.collect_rows(rows, root)


def _row(path: Path, class_name: str) -> WillowRow:
    file = next((path.with_suffix(end) for end in (".png", ".jpg") if path.with_suffix(end).is_file()), None)
    if file is None:
        raise QubolearnError(f"{path}: expected an image {path.stem}.png or .jpg next to it")
    try:
        points = np.asarray(loadmat(path, variable_names=["pts_coord"])["pts_coord"], dtype=np.float64)
    except Exception as error:  # scipy raises many types for damaged files
        raise QubolearnError(f"{path}: expected a MATLAB file with pts_coord ({error})") from error
    if points.ndim != 2 or points.shape[0] != 2:
        raise QubolearnError(f"{path}: expected pts_coord of shape [2, 10], got {list(points.shape)}")
    keypoints = points.T.tolist()
    # in every car keypoint 6 is above keypoint 7, so a corrected copy stays as it is
    if path.stem == SWAPPED and len(keypoints) > 6 and keypoints[5][1] > keypoints[6][1]:
        keypoints[5], keypoints[6] = keypoints[6], keypoints[5]
    with willow.open_image(file) as image:
        return WillowRow(class_name, path.stem, file, (float(image.width), float(image.height)), keypoints)


@torch.no_grad()
def write_compact(images: WillowImages, network: AlexNetConvolutions, target: Path | str) -> Path:
    """Write images, keypoints and features in the form that ``read_willow`` reads."""
    target = Path(target)
    squashed = images.keypoints_squashed()
    entries: list[dict[str, Any]] = []
    features: dict[str, list[np.ndarray[Any, Any]]] = {}
    for index, (name, class_name, file) in enumerate(zip(images.names, images.classes, images.files, strict=True)):
        place = PurePosixPath(f"images{SIDE}", class_name.capitalize(), f"{name}.jpg")
        pixels = _squash(file, target / place)
        for layer, maps in network(pixels).items():
            at_keypoints = features_at(maps, squashed[index : index + 1], layer)[0]
            features.setdefault(layer, []).append(at_keypoints.half().numpy())
        width, height = images.sizes[index].int().tolist()
        entries.append(
            {
                "class": class_name,
                "image": name,
                "file": str(place),
                "width": width,
                "height": height,
                "keypoints_orig": images.keypoints[index].tolist(),
                "keypoints_256": squashed[index].tolist(),
            }
        )
    (target / "willow_keypoints.json").write_text(json.dumps(entries, indent=1), encoding="utf-8")
    arrays: dict[str, Any] = {layer: np.stack(rows) for layer, rows in features.items()}
    np.savez_compressed(
        target / "willow_alexnet_features.npz",
        images=np.array(images.names),
        classes=np.array(images.classes),
        **arrays,
    )
    return target


def _squash(file: Path, target: Path) -> torch.Tensor:
    """Write the image as a JPEG of 256 x 256 pixels and read it back: ``[1, 3, 256, 256]`` in 0 ... 1."""
    target.parent.mkdir(parents=True, exist_ok=True)
    willow.decoded_image(file).resize((SIDE, SIDE), resample=3).save(target, quality=95, subsampling=0)  # bicubic
    return willow.read_pixels(target)[None]
