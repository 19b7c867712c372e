"""The original WILLOW-ObjectClass archive: fetch it, unpack it safely, and turn it into the compact form."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import torch

from qubolearn.errors import QubolearnError
from qubolearn.paper.datasets.alexnet import AlexNetConvolutions, features_at
from qubolearn.paper.datasets.willow import CLASSES, SIDE, WillowImages, decoded_image, read_archive, read_pixels
from qubolearn.problems.data import ZIP_ERRORS, download_file, open_zip

__all__ = ["ARCHIVE_URL", "download_archive", "unpack_archive", "write_compact"]

ARCHIVE_URL = "https://www.di.ens.fr/willow/research/graphlearning/WILLOW-ObjectClass_dataset.zip"
#: The archive has about 70 MB and 700 files.
MAX_ARCHIVE_BYTES, MAX_UNPACKED_BYTES, MAX_FILES = 2**28, 2**29, 10_000


def download_archive(target: Path | str, sha256: str | None = None, url: str = ARCHIVE_URL) -> WillowImages:
    """Fetch the archive from its authors' site into the folder ``target``, unpack it there and read it."""
    target = Path(target)
    archive = download_file(url, target / "WILLOW-ObjectClass_dataset.zip", MAX_ARCHIVE_BYTES, sha256)
    unpack_archive(archive, target)
    return read_archive(target)


def unpack_archive(archive: Path | str, target: Path | str) -> None:
    """Images and keypoints of the zip file into ``target/Car``, ``target/Duck``, ...; everything else stays packed.

    Nothing is written where a path climbs out of the archive or it unpacks to more than the dataset could.
    """
    try:
        with open_zip(archive) as packed:
            for member, place in _wanted_members(packed, str(archive)):
                path = Path(target) / place
                path.parent.mkdir(parents=True, exist_ok=True)
                # piece by piece, zipfile reads no more than the size in the member's header, which was counted before
                with packed.open(member) as source, path.open("wb") as sink:
                    shutil.copyfileobj(source, sink)
    except ZIP_ERRORS as error:
        raise QubolearnError(f"cannot unpack {archive}: {error}; fetch it anew") from error


def _wanted_members(packed: zipfile.ZipFile, source: str) -> list[tuple[zipfile.ZipInfo, PurePosixPath]]:
    """The members that are data, each with its place below the target."""
    folders = {name.capitalize() for name in CLASSES}
    wanted = []
    for member in packed.infolist():
        path = PurePosixPath(member.filename.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts or ":" in member.filename:
            raise QubolearnError(f"{source}: path {member.filename!r} climbs out of the archive; nothing was unpacked")
        hidden = any(part.startswith(("__MACOSX", ".")) for part in path.parts)
        if path.suffix in {".png", ".jpg", ".mat"} and path.parent.name in folders and not hidden:
            wanted.append((member, PurePosixPath(path.parent.name, path.name)))
    total = sum(member.file_size for member, _ in wanted)
    if total > MAX_UNPACKED_BYTES or len(wanted) > MAX_FILES:
        raise QubolearnError(
            f"{source} unpacks to {total} bytes in {len(wanted)} files "
            f"(limit {MAX_UNPACKED_BYTES} in {MAX_FILES}); nothing was unpacked"
        )
    return wanted


@torch.no_grad()
def write_compact(images: WillowImages, network: AlexNetConvolutions, target: Path | str) -> Path:
    """Images, keypoints and features of an archive into the folder ``target``, as ``read_willow`` wants them."""
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
    """Write the image as a JPEG of 256 x 256 pixels -> what is read back from it, ``[1, 3, 256, 256]`` in 0 ... 1."""
    target.parent.mkdir(parents=True, exist_ok=True)
    decoded_image(file).resize((SIDE, SIDE), resample=3).save(target, quality=95, subsampling=0)  # bicubic
    return read_pixels(target)[None]
