"""Drawings."""

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure

from quant_reproduction.grid.jobs import Job
from quant_reproduction.report import _draw, draw_figure, inline_svg

JOB = Job("item", "row", "column", 0, "task", {})
PANELS: dict[str, dict[str, Any]] = {
    "bars": {"edges": [0, 1, 2], "x": "error", "y": "n", "series": [{"name": "a<b", "counts": [4, 2]}]},
    "lines": {"x": "epoch", "y": "%", "series": [{"name": "one", "points": [[0, 1], [1, 3], [2, 2]]}]},
    "matrix": {"values": [[0, -2], [1, 0]]},
    "clouds": {"series": [{"name": "flat", "points": [[0, 0], [4, 2]]}], "lines": [[[0, 0], [4, 2]]]},
    "graph": {"nodes": [[0, 0], [1, 0]], "edges": [[0, 1]], "marked": [[0, 3], [1, 3]]},
}


def panel(kind: str, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "title": "T & t", **PANELS[kind], **more}


def drawn(*panels: dict[str, Any]) -> Figure:
    return draw_figure({"title": "Whole", "note": "Note.", "panels": list(panels)})


def test_a_figure_has_all_panels_titles_and_the_legend() -> None:
    made = drawn(*map(panel, PANELS), matches("wrong"))
    assert [axis.get_title() for axis in made.axes if axis.get_title()] == ["T & t"] * 6
    assert made.get_suptitle() == "Whole\nNote."
    assert "wrong" in [text.get_text() for text in made.legends[0].get_texts()]
    text = inline_svg(made, 'a "description"')
    assert ElementTree.fromstring(text.replace("xlink:href", "href")).get("aria-label") == 'a "description"'
    assert "<style" not in text
    first, second = (set(re.findall(r' id="(\w+)"', inline_svg(made, name))) for name in "ab")
    assert not first & second  # two figures in one page share no id


def matches(*names: str) -> dict[str, Any]:
    """Return a panel of matches of these kinds."""
    series = [{"name": name, "points": [[i, 0], [i, 1]]} for i, name in enumerate(names)]
    return panel("clouds", series=series, lines=[each["points"] for each in series])


@pytest.mark.parametrize(
    "damaged",
    [
        {"kind": "pie", "title": "x"},
        {"kind": "clouds", "title": "x", "series": [{"name": "a", "points": [[1]]}], "lines": []},
        {"kind": "matrix", "title": "x", "values": []},
        [],
    ],
)
def test_damaged_figures_are_named_not_drawn(damaged: Any) -> None:
    text = _draw(JOB, {"title": "T", "note": "", "panels": [damaged]})
    assert "<svg" not in text
    assert "item, row, column, seed 0" in text


def test_text_of_records_is_escaped() -> None:
    nasty = '<script>alert(1)</script>" $x_1$ $\\frac 漢字'
    series = [{"name": nasty, "points": [[0, 1], [1, 2]]}]
    text = _draw(
        JOB, {"title": nasty, "note": nasty, "panels": [panel("lines", title=nasty, x=nasty, series=series)]}
    )
    assert "<script" not in text
    assert ElementTree.fromstring(text.replace("xlink:href", "href")).get("aria-label", "").startswith(nasty)


def test_images_are_drawn_if_the_dataset_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = pytest.importorskip("PIL.Image")
    (tmp_path / "willow").mkdir()
    image.new("RGB", (8, 8), (200, 10, 10)).save(tmp_path / "willow" / "a.png")
    entry = {"class": "duck", "image": "a", "file": "a.png", "width": 8, "height": 8}
    entry |= dict.fromkeys(("keypoints_orig", "keypoints_256"), [[1.0, 1.0]] * 10)
    (tmp_path / "willow" / "willow_keypoints.json").write_text(json.dumps([entry]))
    box = [0.0, 1.0, -1.0, 0.0]
    made = {**matches("right"), "images": [["duck/a", box], ["duck/../../etc/passwd", box]]}
    for root, count in ((tmp_path, 1), (tmp_path / "nowhere", 0)):
        monkeypatch.setenv("QUBOLEARN_DATA", str(root))
        assert len(drawn(made).axes[0].images) == count
