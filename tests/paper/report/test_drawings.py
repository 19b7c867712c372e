"""Drawings are well-formed, say what they show, put numbers where they belong, and give a name one colour."""

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest

from qubolearn.paper.report import gather, page
from qubolearn.paper.report.drawings import colours_of, panel_svg, picture
from qubolearn.paper.report.page import drawn as drawn_groups

PANELS: dict[str, dict[str, Any]] = {
    "bars": {"edges": [0, 1, 2], "x": "error", "y": "n", "series": [{"name": "a<b", "counts": [4, 2]}]},
    "lines": {"x": "epoch", "y": "%", "series": [{"name": "one", "points": [[0, 1], [1, 3], [2, 2]]}]},
    "matrix": {"values": [[0, -2], [1, 0]]},
    "clouds": {"series": [{"name": "flat", "points": [[0, 0], [4, 2]]}], "lines": [[[0, 0], [4, 2]]]},
    "graph": {"nodes": [[0, 0], [1, 0]], "edges": [[0, 1]], "marked": [[0, 3], [1, 3]]},
}


def panel(kind: str, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "title": "T & t", **PANELS[kind], **more}


def drawn(kind: str, **more: Any) -> Element:
    made = panel(kind, **more)
    return ElementTree.fromstring(panel_svg(made, colours_of([made])))


def tips(figure: Element) -> list[str]:
    return [title.text or "" for title in figure.iter("title")]


def colours(figure: Element) -> set[str]:
    """The colours of the page's theme that shapes with a tip have; a group's is that of its members."""
    marked = [each for each in figure.iter() if each.find(".//title") is not None]
    return set(re.findall(r"fill:var\(--(s\d)\)", " ".join(each.get("style", "") for each in marked)))


def box(path: Element) -> tuple[float, float]:
    """Width and height of a path."""
    numbers = [float(number) for number in re.findall(r"-?[\d.]+", str(path.get("d")))]
    return max(numbers[::2]) - min(numbers[::2]), max(numbers[1::2]) - min(numbers[1::2])


@pytest.mark.parametrize("kind", PANELS)
def test_every_kind_is_well_formed_described_and_small(kind: str) -> None:
    figure = drawn(kind)
    assert figure.get("role") == "img"
    assert "T & t" in str(figure.get("aria-label"))
    assert tips(figure)
    text = ElementTree.tostring(figure, "unicode")
    assert "nan" not in text.lower()
    assert not re.search(r"#[0-9a-f]{6}|<style|<defs|clip-path|font-family| id=", text)  # nothing a theme cannot change
    assert len(text) < 6000


def test_bars_have_the_heights_of_their_counts() -> None:
    figure = drawn("bars")
    bars = [path for path in figure.iter("path") if "fill:var(--s0)" in str(path.get("style"))]
    (_, first), (_, second) = map(box, bars)
    assert first == pytest.approx(2 * second, rel=0.01)
    assert tips(figure)[0] == "0 to 1\na<b: 4"


def test_a_matrix_shows_signs_and_sizes() -> None:
    squares = [each for each in drawn("matrix").iter("path") if each.find("title") is not None]
    assert [each.get("style") for each in squares] == ["fill:var(--s0)", "fill:var(--s1);fill-opacity:0.5"]
    width, height = box(squares[0])
    assert width == pytest.approx(height, abs=0.2)


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
    assert colours(drawn("graph")) == {"s3"}
    assert tips(drawn("graph")) == ["qubit 0, instance 3", "qubit 1, instance 3"]


def test_empty_and_constant_panels_can_be_drawn() -> None:
    drawn("bars", series=[{"name": "none", "counts": [0, 0]}])
    drawn("lines", series=[{"name": "one point", "points": [[1, 1]]}])
    drawn("matrix", values=[[0.0]])
    drawn("clouds", series=[{"name": "one point", "points": [[1, 1]]}], lines=[])


def matches(*names: str) -> dict[str, Any]:
    """A panel of matches of these kinds, each a point and its line."""
    series = [{"name": name, "points": [[i, 0], [i, 1]]} for i, name in enumerate(names)]
    return panel("clouds", series=series, lines=[each["points"] for each in series])


def test_wrong_matches_never_have_the_colour_of_right_ones() -> None:
    """Colours follow names: a panel "0 of 4 right" had the blue of "right", since its only series was the first."""
    panels = [matches("right"), matches("right", "wrong"), matches("wrong")]
    together = [colours(ElementTree.fromstring(panel_svg(each, colours_of(panels)))) for each in panels]
    assert together == [{"s0"}, {"s0", "s1"}, {"s1"}]
    alone = [colours(ElementTree.fromstring(panel_svg(each, colours_of([each])))) for each in panels]
    assert alone == together


def test_lines_have_the_colour_of_the_point_where_they_start() -> None:
    figure = ElementTree.fromstring(panel_svg(matches("wrong"), colours_of([matches("wrong")])))
    assert ["stroke:var(--s1)" in str(path.get("style")) for path in figure.iter("path")] == [True]


def test_names_keep_their_colour_in_all_panels_of_a_figure() -> None:
    first = [{"name": name, "counts": [1, 2]} for name in ("as solved", "projected")]
    found = colours_of([panel("bars", series=first[1:]), panel("bars", series=first)])
    assert len(set(found.values())) == 2
    alone = colours_of([panel("bars", series=[each]) for each in first])
    assert len(set(alone.values())) == 1  # a colour that tells nothing apart


@pytest.mark.parametrize(
    "damaged",
    [
        {"kind": "pie", "title": "x"},
        {"kind": "matrix", "title": "x", "values": 3},
        {"kind": "clouds", "title": "x", "series": [{"name": "a", "points": [[1]]}], "lines": []},
        {"kind": "bars", "title": "x", "x": "", "y": "", "edges": [0, 1], "series": [{"counts": [1]}]},
        {"kind": "graph", "title": "x", "nodes": [], "edges": [], "marked": []},
        {"kind": "matrix", "title": "x", "values": []},
        {"kind": "lines", "title": "x", "x": "a\x01b", "y": "", "series": [{"name": "a", "points": [[0, 1], [1, 2]]}]},
        [],
    ],
)
def test_damaged_figures_are_named_not_drawn(damaged: Any) -> None:
    groups, why = drawn_groups({"title": "T", "note": "", "panels": [damaged]})
    assert groups == []
    assert why


def test_text_of_records_is_shown_as_it_is_and_escaped() -> None:
    """No markup, no formula, whatever the alphabet."""
    nasty = "<script>alert(1)</script> $x_1$ $\\frac 漢字"
    series = [{"name": nasty, "points": [[0, 1], [1, 2]]}]
    made = panel("lines", title=nasty, x=nasty, y=nasty, series=series)
    groups, why = drawn_groups({"title": nasty, "note": nasty, "panels": [made]})
    assert why == ""
    text = groups[0].pictures[0][1]
    assert "<script" not in text
    figure = ElementTree.fromstring(text)
    assert [each.text for each in figure.iter("text")].count(nasty) == 2
    assert nasty in tips(figure)[0]


def test_images_are_drawn_where_the_dataset_is_and_left_out_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        groups, why = drawn_groups({"title": "T", "note": "", "panels": [made]})
        assert why == ""
        assert groups[0].pictures[0][1].count("<image") == count


def test_a_picture_for_a_file_has_all_panels_titles_and_the_legend() -> None:
    made = picture({"title": "Whole", "note": "Note.", "panels": [panel(kind) for kind in PANELS] + [matches("wrong")]})
    assert [axis.get_title() for axis in made.axes if axis.get_title()] == ["T & t"] * 6
    assert not any("[" in str(artist.get_gid()) for artist in made.findobj())
    assert made.get_suptitle() == "Whole\nNote."
    assert "wrong" in [text.get_text() for text in made.legends[0].get_texts()]


def test_without_matplotlib_the_page_says_so_and_shows_its_tables(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    report = gather(results, False, 2)
    whole = page(report)
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    text = page(report)
    assert "drawing needs: pip install &#39;qubolearn[plots]&#39;" in text
    assert "<svg" not in text
    assert text.count("<table") == whole.count("<table") > 20


def test_every_caption_of_a_quick_page_says_quick(tmp_path: Path) -> None:
    """Quick tables kept the captions of full runs."""
    captions = re.findall(r"<caption><span>(.*?)</span>", page(gather(tmp_path, True, 1)))
    assert len(captions) > 10
    assert [caption for caption in captions if not caption.startswith("Quick run")] == []
    assert not re.search("<caption><span>Quick", page(gather(tmp_path, False, 1)))
