"""Figures as plain numbers: what a record keeps, and a report draws.

A figure is ``{"title", "note", "panels": [...]}``; the functions below make its panels. A panel may hold more: ``log``
and ``at`` (bars on a logarithmic scale, lines at these places), ``missed`` (dashed lines) and ``images`` (names of
Willow images and their places: no record holds a picture, they are read from the data folder if it exists).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from qubolearn.errors import QubolearnError, unknown_name

__all__ = ["MAX_POINTS", "Drawn", "bars", "check_figure", "clouds", "graph", "lines", "matrix", "titled"]

Pairs = Sequence[Sequence[float]]
PanelNumbers = dict[str, Any]

#: Points of one cloud; more of them hide one another.
MAX_POINTS = 400
DIGITS = 4

#: What a panel of each kind holds besides its kind and title.
KINDS: Mapping[str, tuple[str, ...]] = {
    "bars": ("x", "y", "edges", "series"),
    "lines": ("x", "y", "series"),
    "matrix": ("values",),
    "clouds": ("series", "lines"),
    "graph": ("nodes", "edges", "marked"),
}
MORE = {"log", "at", "missed", "images"}


@dataclass(frozen=True)
class Drawn:
    """The numbers of a figure and its panels; some results are a table only."""

    numbers: Mapping[str, Any]
    figure: Mapping[str, Any] | None = None


def titled(title: str, panels: Sequence[PanelNumbers], note: str = "") -> dict[str, Any]:
    """A figure, checked."""
    made = {"title": title, "note": note, "panels": list(panels)}
    check_figure(made)
    return made


def bars(title: str, x: str, y: str, edges: Sequence[float], series: Mapping[str, Sequence[float]]) -> PanelNumbers:
    """Histograms over the same edges: name -> counts, one fewer than edges."""
    counted = [{"name": name, "counts": _rounded(counts)} for name, counts in series.items()]
    return {"kind": "bars", "title": title, "x": x, "y": y, "edges": _rounded(edges), "series": counted}


def lines(title: str, x: str, y: str, series: Mapping[str, Pairs]) -> PanelNumbers:
    """Curves: name -> points [[x, y], ...]."""
    drawn = [{"name": name, "points": [_rounded(point) for point in points]} for name, points in series.items()]
    return {"kind": "lines", "title": title, "x": x, "y": y, "series": drawn}


def matrix(title: str, values: Pairs) -> PanelNumbers:
    """A matrix whose entries are above or below 0."""
    return {"kind": "matrix", "title": title, "values": [_rounded(row) for row in values]}


def clouds(title: str, series: Mapping[str, Pairs], lines: Sequence[Pairs] = ()) -> PanelNumbers:
    """Points of the plane or of space: name -> [[x, y] or [x, y, z], ...], and lines between places.

    More than 400 points are thinned out.
    """
    drawn = [{"name": name, "points": [_rounded(p) for p in _thinned(points)]} for name, points in series.items()]
    return {"kind": "clouds", "title": title, "series": drawn, "lines": [[_rounded(p) for p in ends] for ends in lines]}


def graph(title: str, nodes: Pairs, edges: Sequence[tuple[int, int]], marked: Mapping[int, int]) -> PanelNumbers:
    """A graph in the plane; marked: node -> the number of the instance that uses it."""
    return {
        "kind": "graph",
        "title": title,
        "nodes": [_rounded(place) for place in nodes],
        "edges": [list(edge) for edge in edges],
        "marked": [list(mark) for mark in marked.items()],
    }


def _thinned(points: Pairs) -> Pairs:
    return points[:: -(-len(points) // MAX_POINTS) or 1]


def _rounded(values: Sequence[float]) -> list[float]:
    """Round all but integers to four digits after the point."""
    return [value if isinstance(value, int) else round(value, DIGITS) for value in values]


def check_figure(made: Mapping[str, Any]) -> None:
    """Raise unless this is a figure as above: every panel of a known kind, whole and finite."""
    panels = made["panels"]
    if not panels or not made["title"]:
        raise QubolearnError(f"figure {made['title']!r} of {len(panels)} panels; expected a title and a panel")
    for panel in panels:
        kind = panel.get("kind")
        if kind not in KINDS:
            raise unknown_name("kind of panel", str(kind), KINDS)
        if set(panel) - MORE != {"kind", "title", *KINDS[kind]}:
            raise QubolearnError(
                f"a panel of {kind} holds {', '.join(panel)}; expected kind, title, {', '.join(KINDS[kind])}"
            )
        if not all(map(math.isfinite, _numbers([panel[name] for name in KINDS[kind]]))):
            raise QubolearnError(f"panel {panel['title']!r} holds a number that is not finite")
        _check_lengths(panel)


def _check_lengths(panel: PanelNumbers) -> None:
    title = panel["title"]
    for series in panel.get("series", ()):
        if panel["kind"] == "bars" and len(series["counts"]) != len(panel["edges"]) - 1:
            raise QubolearnError(f"panel {title!r}: {len(series['counts'])} bars between {len(panel['edges'])} edges")
        if len(series.get("points", ())) > MAX_POINTS:
            raise QubolearnError(f"panel {title!r}: {len(series['points'])} points (limit {MAX_POINTS}); thin them out")
    if panel["kind"] == "graph":
        used = [node for edge in panel["edges"] for node in edge] + [node for node, _ in panel["marked"]]
        if used and not 0 <= min(used) <= max(used) < len(panel["nodes"]):
            raise QubolearnError(
                f"panel {title!r}: an edge or mark of a node beyond the {len(panel['nodes'])} there are"
            )


def _numbers(value: Any) -> list[float]:
    if isinstance(value, (int, float)):
        return [value]
    if isinstance(value, Mapping):
        return [number for part in value.values() for number in _numbers(part)]
    return [] if isinstance(value, str) else [number for part in value for number in _numbers(part)]
