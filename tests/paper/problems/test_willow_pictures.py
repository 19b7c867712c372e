"""Pictures: one panel per pair, green lines for right matches and red ones for wrong matches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from qubolearn.errors import QubolearnError
from qubolearn.paper.datasets.willow import WillowImages
from qubolearn.paper.problems.willow import Pairs
from qubolearn.paper.problems.willow_pictures import draw_matches, right_and_wrong

pytest.importorskip("matplotlib")


@pytest.fixture
def images(tmp_path: Path) -> WillowImages:
    from PIL import Image

    files = (tmp_path / "a.jpg", tmp_path / "b.jpg")
    for file in files:
        Image.fromarray(np.full((256, 256, 3), 128, dtype=np.uint8)).save(file)
    keypoints = torch.rand(2, 10, 2, generator=torch.Generator().manual_seed(0)) * 100
    return WillowImages(("a", "b"), ("duck", "duck"), files, torch.tensor([[200.0, 100.0], [100.0, 100.0]]), keypoints)


def some_pairs(count: int) -> Pairs:
    order = torch.tensor([[3, 7, 1]]).expand(count, 3)
    P = torch.tensor([[1, 2, 0]]).expand(count, 3)
    return Pairs(torch.zeros(count).long(), torch.ones(count).long(), order, order.gather(1, P.argsort(1)), P)


def test_lines_join_what_was_matched_and_tell_right_from_wrong(images: WillowImages, tmp_path: Path) -> None:
    pairs = some_pairs(2)
    P = torch.tensor([[1, 2, 0], [1, 0, 5]])  # right; and one right, one wrong, one outside
    figure = draw_matches(images, pairs, P, columns=3)
    figure.savefig(tmp_path / "matches.png")
    assert (tmp_path / "matches.png").stat().st_size > 1000
    first, second, empty = figure.axes
    assert [line.get_color() for line in first.lines if len(line.get_xdata()) == 2] == ["limegreen"] * 3
    assert [line.get_color() for line in second.lines if len(line.get_xdata()) == 2] == ["limegreen", "red"]
    assert "3/3" in first.get_title()
    assert "1/3" in second.get_title()
    assert not empty.lines
    # the line of node 0 starts at keypoint 3 of the first image, in units of its height of 100 pixels
    start = (images.keypoints[0, 3] - 0.5) / 100
    line = next(line for line in first.lines if len(line.get_xdata()) == 2)
    assert (line.get_xdata()[0], line.get_ydata()[0]) == pytest.approx(tuple(start.tolist()))


def test_right_and_wrong_picks_both() -> None:
    pairs = some_pairs(6)
    P = pairs.P.clone()
    P[[1, 4, 5]] = torch.tensor([0, 1, 2])
    assert right_and_wrong(pairs, P, each=2).tolist() == [0, 2, 1, 4]


def test_bad_counts(images: WillowImages) -> None:
    with pytest.raises(QubolearnError, match="1 matchings for 2 pairs"):
        draw_matches(images, some_pairs(2), torch.zeros(1, 3).long())
    with pytest.raises(QubolearnError, match="1 to 64"):
        draw_matches(images, some_pairs(65), torch.zeros(65, 3).long())
