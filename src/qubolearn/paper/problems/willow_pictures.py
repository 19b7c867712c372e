"""Pictures of matched Willow images: pairs side by side, with lines between the keypoints that were matched."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.paper.datasets.willow import WillowImages, read_pixels
from qubolearn.paper.problems.willow import Pairs
from qubolearn.plots import figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_matches", "right_and_wrong"]

MAX_PICTURES = 64
#: Space between two images, in units of their height.
GAP = 0.05


def right_and_wrong(pairs: Pairs, P: Tensor, each: int = 4) -> Tensor:
    """Indices of the first ``each`` pairs whose matching P ``[batch, k]`` is right, then of as many wrong ones."""
    right = (P == pairs.P).all(-1)
    return torch.cat([right.nonzero()[:each, 0], (~right).nonzero()[:each, 0]])


def draw_matches(images: WillowImages, pairs: Pairs, P: Tensor, columns: int = 4) -> Figure:
    """All pairs with their matchings P ``[batch, k]``: green lines are right, red ones are wrong.

    Where node i was matched to nothing (an entry of P outside 0 ... k-1), its keypoint has a red cross and no line.
    """
    count = len(P)
    if not 1 <= count <= MAX_PICTURES or pairs.P.shape != P.shape:
        raise QubolearnError(
            f"{count} matchings for {len(pairs.P)} pairs; want as many, 1 to {MAX_PICTURES} (pick with right_and_wrong)"
        )
    made, grid = figure(columns, rows=-(-count // columns), width=3.2, height=1.4)
    for axes in grid:
        axes.axis("off")
    for index, axes in enumerate(grid[:count]):
        _draw_pair(axes, images, Pairs(*(tensor[index] for tensor in pairs)), P[index])
    return made


def _draw_pair(axes: Axes, images: WillowImages, pair: Pairs, P: Tensor) -> None:
    """One pair, its images as high as each other; tensors without a batch."""
    x, shift = _place(axes, images, int(pair.source), 0.0)
    y, width = _place(axes, images, int(pair.target), shift + GAP)
    x, y = x[pair.source_keypoints], y[pair.target_keypoints]
    for i, (found, true) in enumerate(zip(P.tolist(), pair.P.tolist(), strict=True)):
        colour = "limegreen" if found == true else "red"
        axes.plot(*x[i], marker="o", color=colour, markersize=3)
        if 0 <= found < len(P):
            axes.plot(*zip(x[i].tolist(), y[found].tolist(), strict=True), color=colour, linewidth=1.2)
        else:
            axes.plot(*x[i], marker="x", color=colour, markersize=8)
    axes.scatter(y[:, 0], y[:, 1], color="white", edgecolors="black", s=12, zorder=3)
    axes.set(xlim=(0, width), ylim=(1, 0), aspect="equal")
    right = int((P == pair.P).sum())
    name = f"{images.classes[int(pair.source)]}: {images.names[int(pair.source)]}, {images.names[int(pair.target)]}"
    axes.set_title(f"{name}  {right}/{len(P)}", fontsize=7, color="green" if right == len(P) else "red")


def _place(axes: Axes, images: WillowImages, index: int, left: float) -> tuple[Tensor, float]:
    """Show an image of height 1 at ``left`` -> its keypoints there ``[10, 2]`` and where it ends."""
    width, height = images.sizes[index].tolist()
    right = left + width / height
    axes.imshow(read_pixels(images.files[index]).permute(1, 2, 0).numpy(), extent=(left, right, 1, 0))
    # Pixels are counted from 1, their centres lie half a pixel inside.
    return (images.keypoints[index] - 0.5) / height + torch.tensor([left, 0.0]), right
