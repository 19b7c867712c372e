"""The page on Willow's ten keypoints."""

from __future__ import annotations

from pathlib import Path
from statistics import mean

import pytest

from qubolearn.paper.report.tables import fill
from qubolearn.paper.report.willow10 import PUBLISHED

ROOT = Path(__file__).parents[3]


def test_published_means_are_those_of_their_classes() -> None:
    for numbers in PUBLISHED.values():
        assert mean(numbers[:-1]) == pytest.approx(numbers[-1], abs=6e-4)


def test_the_page_is_up_to_date() -> None:
    page = (ROOT / "docs" / "willow10.md").read_text(encoding="utf-8")
    assert fill(page, ROOT / "results") == page
