"""Which Willow images come from one source, and splits that keep every source on one side.

Some cars are one picture under two names, and Caltech's faces show the same persons in the same rooms several times. A
test on such an image would ask for what was trained.
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

from qubolearn.errors import QubolearnError
from qubolearn.paper.datasets.willow import VGG_LAYERS, WillowImages, decoded_image, read_vgg_features
from qubolearn.problems.data import note_file
from qubolearn.randomness import stream

__all__ = ["draw_split", "persons", "read_sources", "sources_of", "thumbnails"]

THUMBNAIL = 32  # pixels a side
#: The same picture, mirrored or turned by quarters, where thumbnails correlate by more; different bottles reach 0.95.
SAME_PICTURE = 0.98
#: One picture cropped or scaled, or one face in one room, where features at the keypoints do; others reach 0.74.
SAME_FEATURES = 0.8
#: Caltech's faces stand person by person: the number of the first image of each, read off the pictures by eye, since
#: features of one person outdoors or against the light differ by more than those of two persons in one room.
FIRST_OF_PERSON = (
    *(1, 24, 44, 48, 72, 92, 116, 136, 140, 164, 172, 176, 196, 216),
    *(240, 264, 268, 288, 308, 328, 348, 368, 388, 392, 396, 400, 420),
)


def read_sources(images: WillowImages, folder: Path | str | None = None) -> list[int]:
    """The sources of the compact form's images, by their pixels and VGG16 features."""
    features = read_vgg_features(images, folder)
    deep = features[:, :, : features.shape[2] // len(VGG_LAYERS)]
    return sources_of(images.classes, deep, thumbnails(images), persons(images.names))


def persons(names: Sequence[str]) -> list[int]:
    """Who is on each of Caltech's faces, which are called image_0001 and so on: 1, 2, ...; 0 for all other images.

    >>> persons(["image_0308", "image_0324", "image_0328", "Cars_030a"])
    [19, 19, 20, 0]
    """
    faces = [re.fullmatch(r"image_(\d{4})", name) for name in names]
    return [bisect(FIRST_OF_PERSON, int(face[1])) if face else 0 for face in faces]


def thumbnails(images: WillowImages) -> Tensor:
    """The images in grey, ``[images, 32, 32]``, each with mean 0 and length 1."""
    note_file(os.path.commonpath(images.files))
    small = torch.stack([_thumbnail(file) for file in images.files])
    return normalize(small - small.mean(1, keepdim=True), dim=1).reshape(-1, THUMBNAIL, THUMBNAIL)


def _thumbnail(file: Path) -> Tensor:
    small = decoded_image(file, "L").resize((THUMBNAIL, THUMBNAIL), reducing_gap=2.0)
    return torch.from_numpy(np.array(small, dtype=np.float32)).flatten()


def sources_of(
    classes: Sequence[str], features: Tensor, pictures: Tensor, shown: Sequence[int] | None = None
) -> list[int]:
    """The number of each image's source; images with the same number must not be on two sides of a split.

    Two images of a class have one source where they are the same picture, mirrored or turned by quarters, where their
    features agree at all keypoints, where they show one person, or where both share a source with a third.

    Args:
        classes: of the images.
        features: at their keypoints, ``[images, keypoints, m]``.
        pictures: their :func:`thumbnails`, ``[images, 32, 32]``.
        shown: the :func:`persons` on them; 0 is nobody that is known.
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
    """``size`` random images of each class, and all others; every source is whole on one side.

    Sources are taken in random order as long as they fit; where that leaves a gap, in another order.
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
                f"class {name!r} has {left + len(taken)} images in {len(groups)} sources; whole sources make up "
                f"{len(taken)} of {size} training images and leave {left}, want at least 2"
            )
        chosen += taken
    trained = set(chosen)
    return chosen, [image for image in range(len(classes)) if image not in trained]


def _fitting(groups: Sequence[Sequence[int]], size: int) -> list[int]:
    """Images of whole groups, each taken in turn unless that makes more than ``size``."""
    taken: list[int] = []
    for group in groups:
        if len(taken) + len(group) <= size:
            taken += group
    return taken
