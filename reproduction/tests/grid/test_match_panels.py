"""Panels of matchings: lines join what was matched, right and wrong ones apart, and the truth where it was missed."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from quant_reproduction.datasets.willow import WillowImages
from quant_reproduction.grid.figures import match_panel, pair_panel, right_and_wrong
from quant_reproduction.problems.willow import Pairs


def some_pairs(count: int) -> Pairs:
    order = torch.tensor([[3, 7, 1]]).expand(count, 3)
    P = torch.tensor([[1, 2, 0]]).expand(count, 3)
    return Pairs(torch.zeros(count).long(), torch.ones(count).long(), order, order.gather(1, P.argsort(1)), P)


def test_lines_join_what_was_matched_and_tell_right_from_wrong() -> None:
    x, y = torch.tensor([[0.0, 0], [0, 1], [0, 2]]), torch.tensor([[1.0, 0], [1, 1], [1, 2]])
    true = torch.tensor([1, 2, 0])
    panel = match_panel("duck: ", x, y, torch.tensor([1, 0, 5]), true)  # right, wrong, and no such node
    assert panel["title"] == "duck: 1 of 3 right"
    assert panel["lines"] == [[[0, 0], [1, 1]], [[0, 1], [1, 0]]]
    assert {each["name"]: each["points"] for each in panel["series"]} == {
        "right": [[0, 0], [1, 1]],
        "wrong": [[0, 1], [0, 2], [1, 2], [1, 0]],
    }
    assert panel["missed"] == [[[0, 1], [1, 2]], [[0, 2], [1, 0]]]
    right = match_panel("", x, y, true, true)
    assert [each["name"] for each in right["series"]] == ["right"]
    assert right["missed"] == []


def test_a_pair_of_images_stands_side_by_side(tmp_path: Path) -> None:
    files = (tmp_path / "a.png", tmp_path / "b.png")
    keypoints = torch.rand(2, 10, 2, generator=torch.Generator().manual_seed(0)) * 50
    sizes = torch.tensor([[200.0, 100.0], [50.0, 50.0]])
    images = WillowImages(("a", "b"), ("duck", "duck"), files, sizes, keypoints)
    pairs = some_pairs(1)
    panel = pair_panel(images, pairs, pairs.P, 0)
    (first, first_box), (second, second_box) = panel["images"]
    assert (first, second) == ("duck/a", "duck/b")  # names alone: records hold no picture
    # each image is 1 high; the second starts a tenth of the first one's width behind it
    assert first_box == pytest.approx((0.005, 2.005, -1.005, -0.005))
    assert second_box == pytest.approx((2.21, 3.21, -1.01, -0.01))
    # node 0 is keypoint 3 of the first image, and its match is the same keypoint of the second
    start, end = panel["lines"][0]
    (x, y), (u, v) = keypoints[:, 3].tolist()
    assert start == pytest.approx([x / 100, -y / 100], abs=1e-4)
    assert end == pytest.approx([2.2 + u / 50, -v / 50], abs=1e-4)


def test_right_and_wrong_picks_both() -> None:
    pairs = some_pairs(6)
    P = pairs.P.clone()
    P[[1, 4, 5]] = torch.tensor([0, 1, 2])
    assert right_and_wrong(pairs, P, each=2).tolist() == [0, 2, 1, 4]
