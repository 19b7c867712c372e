"""Finds Willow images that come from one source, and splits that keep every source on one side.

Some cars are the same image under two names, and Caltech's faces show the same person several times. A test on such an
image would test what was trained.
"""

from __future__ import annotations

import os
import re
from bisect import bisect
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from quant_reproduction.datasets.files import note_file
from quant_reproduction.datasets.willow import VGG_LAYERS, WillowImages, decoded_image, read_vgg_features
from qubolearn.errors import QubolearnError
from qubolearn.random import stream

__all__ = ["draw_split", "persons", "read_sources", "sources_of", "thumbnails"]

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
    """Return the person on each of Caltech's faces (image_0001, ...): 1, 2, ...; 0 for all other images.

    >>> persons(["image_0308", "image_0324", "image_0328", "Cars_030a"])
    [19, 19, 20, 0]
    """
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
    at all keypoints, if they show the same person, or if both share a source with a third.

    Args:
        classes: of the images.
        features: at their keypoints, ``[images, keypoints, m]``.
        pictures: their :func:`thumbnails`, ``[images, 32, 32]``.
        shown: the :func:`persons` on them; 0 is unknown.
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
    """Return ``size`` random images of each class, and all others; every source is on one side.

    Sources are taken in random order as long as they fit; if that leaves a gap, another order is tried.
    """
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
