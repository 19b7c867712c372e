"""Matplotlib's figures as small SVG: text as text, colours of the page's theme, a tip for each mark, nothing else.

What matplotlib writes (groups, clips, styles of fonts, a style sheet that would apply to the whole page) is reduced to
the shapes themselves.
"""

from __future__ import annotations

import io
import json
import re
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from markupsafe import Markup

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PALETTE", "STYLE", "mark", "svg"]

#: Colours by the names of the style sheet's variables, as they are on a light page: those of files.
PALETTE = {
    "ink": "#1c2229",
    "muted": "#565f69",
    "line": "#dedad0",
    "sheet": "#ffffff",
    "s0": "#2a6fb0",
    "s1": "#c05a22",
    "s2": "#23805e",
    "s3": "#8355ad",
    "s4": "#8a6d10",
    "s5": "#b23d66",
}
#: Matplotlib's settings for all drawings of page and figure files.
STYLE: Any = {
    **{f"axes.spines.{side}": False for side in ("top", "right", "left")},
    **dict.fromkeys(("xtick.color", "ytick.color", "axes.edgecolor"), PALETTE["muted"]),
    **dict.fromkeys(("axes.labelcolor", "text.color", "axes.titlecolor"), PALETTE["ink"]),
    **dict.fromkeys(("xtick.bottom", "ytick.left", "legend.frameon"), False),
    "grid.color": PALETTE["line"],
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "axes.xmargin": 0.0,
    "text.parse_math": False,  # a dollar in a record is a dollar
    "font.size": 11.0,
}
THEME = {colour: f"var(--{name})" for name, colour in PALETTE.items()}
#: What the page says itself, or a browser does anyway.
DROPPED = ("font-family", "stroke-line")
XLINK = "{http://www.w3.org/1999/xlink}href"


def mark(artist: Any, tips: Sequence[str], style: str = "") -> None:
    """Let each shape of an artist say something at the pointer, and have a class of the style sheet."""
    artist.set_gid(json.dumps([style, list(tips)]))


def svg(made: Figure, words: str, style: str = "plot") -> Markup:
    """An SVG element to stand in a page, with its description in words."""
    import matplotlib

    written = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "path.simplify": False}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # the browser has its own fonts
        made.savefig(written, format="svg", transparent=True, metadata=dict.fromkeys(("Date", "Creator", "Format")))
    source = ElementTree.fromstring(written.getvalue())
    drawn = Element("svg", {"viewBox": source.get("viewBox", ""), "role": "img", "aria-label": words, "class": style})
    paths = {f"#{path.get('id')}": path.get("d", "") for path in source.iter() if path.get("id")}
    drawn.extend(shape for shape in _shapes(source, paths) if shape.get("style") != "fill:none")  # backgrounds
    text = ElementTree.tostring(drawn, "unicode")
    return Markup(text)  # ElementTree has escaped it


def _shapes(node: Element, paths: dict[str, str]) -> Iterator[Element]:
    """The shapes below a node, in their order; those of a marked artist stay together."""
    for child in node:
        kind, name = child.tag.rpartition("}")[2], child.get("id", "")
        if kind == "g" and name.startswith("["):
            yield _group(list(_shapes(child, paths)), *json.loads(name))
        elif kind == "g":
            yield from _shapes(child, paths)
        elif kind in ("path", "use", "text", "image"):
            yield _shape(kind, child, paths)


def _group(shapes: list[Element], style: str, tips: list[str]) -> Element:
    """The shapes of one artist with their tips, or with one for all; a style that they share is said once."""
    group = Element("g", {"class": style} if style else {})
    if len(tips) == 1:
        ElementTree.SubElement(group, "title").text = tips[0]
    else:
        for shape, tip in zip(shapes, tips, strict=True):
            ElementTree.SubElement(shape, "title").text = tip
    styles = {shape.attrib.get("style", "") for shape in shapes}
    if style == "hit" or len(styles) == 1:
        for shape in shapes:
            shape.attrib.pop("style", None)
        if style != "hit":
            group.set("style", styles.pop())
    group.extend(shapes)
    return group


def _shape(kind: str, child: Element, paths: dict[str, str]) -> Element:
    """A path, a circle or a text with rounded numbers and without what the page's style sheet says."""
    if kind == "image":
        return Element(
            "image", {name.rpartition("}")[2]: value for name, value in child.attrib.items() if name != "id"}
        )
    if kind == "use":
        x, y, path = child.get("x", "0"), child.get("y", "0"), paths[child.get(XLINK, "")]
        if "C" in path:  # all our round marks are circles
            radius = max(abs(float(number)) for number in re.findall(r"-?[\d.]+", path))
            shape = Element("circle", cx=_rounded(x), cy=_rounded(y), r=f"{radius:.1f}")
        else:
            shape = Element("path", d=_path(path), transform=_rounded(f"translate({x} {y})"))
    elif kind == "path":
        shape = Element("path", d=_path(child.get("d", "")))
    else:
        turn = child.get("transform", "")
        shape = Element("text", {name: _rounded(child.get(name, "0")) for name in ("x", "y")})
        if "rotate(-0 " not in turn:
            shape.set("transform", _rounded(turn))
        shape.text = child.text
    words = [word.replace(": ", ":") for word in child.get("style", "").split("; ") if not word.startswith(DROPPED)]
    shape.set("style", re.sub(r"#[0-9a-f]{6}", lambda match: THEME.get(match[0], match[0]), ";".join(words)))
    return shape


def _path(text: str) -> str:
    return _rounded(re.sub(r" ?([MLCz]) ?", r"\1", text.replace("\n", "")))


def _rounded(text: str) -> str:
    return re.sub(r"-?\d+\.\d+", lambda match: f"{float(match[0]):.1f}".removesuffix(".0"), text)
