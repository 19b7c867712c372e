"""Drawings are well-formed, say what they show, and put numbers where they belong."""

import re
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qubolearn.paper.report.axes import Axes, short, ticks
from qubolearn.paper.report.drawings import draw
from qubolearn.paper.report.markup import el

PANELS: dict[str, dict[str, Any]] = {
    "bars": {"edges": [0, 1, 2], "x": "error", "y": "n", "series": [{"name": "a<b", "counts": [4, 2]}]},
    "lines": {"x": "epoch", "y": "%", "series": [{"name": "one", "points": [[0, 1], [1, 3], [2, 2]]}]},
    "matrix": {"values": [[0, -2], [1, 0]]},
    "clouds": {"series": [{"name": "flat", "points": [[0, 0], [4, 2]]}], "lines": [[[0, 0], [4, 2]]]},
    "graph": {"nodes": [[0, 0], [1, 0]], "edges": [[0, 1]], "marked": [[0, 3], [1, 3]]},
}


def drawn(kind: str, **more: Any) -> ElementTree.Element:
    return ElementTree.fromstring(draw({"kind": kind, "title": "T & t", **PANELS[kind], **more}))


def tips(figure: ElementTree.Element) -> list[str]:
    return [title.text or "" for title in figure.iter("title")]


@pytest.mark.parametrize("kind", PANELS)
def test_every_kind_is_well_formed_and_described(kind: str) -> None:
    figure = drawn(kind)
    (svg,) = figure.iter("svg")
    assert svg.get("role") == "img"
    assert "T & t" in str(svg.get("aria-label"))
    assert tips(figure)
    assert "nan" not in ElementTree.tostring(figure, "unicode").lower().replace("nant", "")


def test_bars_have_the_heights_of_their_counts() -> None:
    path = next(each for each in drawn("bars").iter("path"))
    starts_and_tops = [(float(a), float(b)) for a, b in re.findall(r"M[\d.]+ ([\d.]+)V([\d.]+)H", str(path.get("d")))]
    heights = [start - top for start, top in starts_and_tops]
    assert heights[0] == pytest.approx(2 * heights[1], rel=0.01)
    assert tips(drawn("bars"))[0] == "0 to 1\na<b: 4"


def test_a_matrix_shows_signs_and_sizes() -> None:
    squares = [each for each in drawn("matrix").iter("rect") if each.get("fill-opacity")]
    assert [(each.get("class"), each.get("fill-opacity")) for each in squares] == [("minus", "1.0"), ("plus", "0.5")]


def test_clouds_keep_their_proportions() -> None:
    places = [(float(str(c.get("cx"))), float(str(c.get("cy")))) for c in drawn("clouds").iter("circle")]
    (x0, y0), (x1, y1) = places
    assert (x1 - x0) == pytest.approx(-2 * (y1 - y0), rel=0.01)


def test_points_of_space_are_drawn_upright() -> None:
    figure = drawn("clouds", series=[{"name": "s", "points": [[0, 0, 0], [0, 0, 1]]}], lines=[])
    (low_x, low_y), (high_x, high_y) = (
        (float(str(c.get("cx"))), float(str(c.get("cy")))) for c in figure.iter("circle")
    )
    assert low_x == high_x
    assert high_y < low_y


def test_qubits_of_an_instance_share_their_colour() -> None:
    assert {circle.get("class") for circle in drawn("graph").iter("circle")} == {"fill s3"}
    assert tips(drawn("graph")) == ["qubit 0, instance 3", "qubit 1, instance 3"]


def test_empty_and_constant_panels_can_be_drawn() -> None:
    drawn("bars", series=[{"name": "none", "counts": [0, 0]}])
    drawn("lines", series=[{"name": "one point", "points": [[1, 1]]}])
    drawn("matrix", values=[[0.0]])
    drawn("clouds", series=[{"name": "one point", "points": [[1, 1]]}], lines=[])
    assert "cannot draw" in draw({"kind": "pie"})


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
@settings(max_examples=200, deadline=None)
def test_ticks_are_few_and_inside(low: float, width: float) -> None:
    high = low + width
    if high - low < 1e-9 * max(abs(low), 1e-3):
        return
    found = ticks(low, high)
    assert 1 <= len(found) <= 7
    assert all(low - 0.01 * width <= tick <= high + 0.01 * width for tick in found)


def test_axes_put_ends_at_the_ends() -> None:
    axes = Axes(0, 10, 0, 5)
    assert (axes.x(0), axes.x(10)) == (axes.left, axes.width - axes.right)
    assert (axes.y(0), axes.y(5)) == (axes.height - axes.bottom, axes.top)


def test_attributes_and_text_are_escaped() -> None:
    text = el("a", "<&>", href='"><script>')
    assert text == '<a href="&quot;&gt;&lt;script&gt;">&lt;&amp;&gt;</a>'
    assert short(-1234.5) == "−1,234"
