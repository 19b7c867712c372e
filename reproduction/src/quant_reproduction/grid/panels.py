"""Figures as plain numbers: what a record keeps, and a report draws.

A figure is ``{"title", "note", "panels": [...]}``; the functions below make its panels. A panel may hold more:
``missed`` (dashed lines) and ``images`` (names of Willow images and their places; they are read from the data folder).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Pairs = Sequence[Sequence[float]]
PanelNumbers = dict[str, Any]

#: Points of one cloud; more of them hide one another.
MAX_POINTS = 400
DIGITS = 4


def titled(title: str, panels: Sequence[PanelNumbers], note: str = "") -> dict[str, Any]:
    """Return a figure of these panels."""
    return {"title": title, "note": note, "panels": list(panels)}


def bars(title: str, x: str, y: str, edges: Sequence[float], series: Mapping[str, Sequence[float]]) -> PanelNumbers:
    """Return histograms over the same edges: name -> counts, one fewer than edges."""
    counted = [{"name": name, "counts": _rounded(counts)} for name, counts in series.items()]
    return {"kind": "bars", "title": title, "x": x, "y": y, "edges": _rounded(edges), "series": counted}


def lines(title: str, x: str, y: str, series: Mapping[str, Pairs]) -> PanelNumbers:
    """Return curves: name -> points [[x, y], ...]."""
    drawn = [{"name": name, "points": [_rounded(point) for point in points]} for name, points in series.items()]
    return {"kind": "lines", "title": title, "x": x, "y": y, "series": drawn}


def matrix(title: str, values: Pairs) -> PanelNumbers:
    """Return a matrix whose entries are above or below 0."""
    return {"kind": "matrix", "title": title, "values": [_rounded(row) for row in values]}


def clouds(title: str, series: Mapping[str, Pairs], lines: Sequence[Pairs] = ()) -> PanelNumbers:
    """Return points of the plane or of space, thinned out: name -> [[x, y] or [x, y, z], ...], and lines."""
    drawn = [{"name": name, "points": [_rounded(p) for p in _thinned(points)]} for name, points in series.items()]
    return {"kind": "clouds", "title": title, "series": drawn, "lines": [[_rounded(p) for p in ends] for ends in lines]}


def graph(title: str, nodes: Pairs, edges: Sequence[tuple[int, int]], marked: Mapping[int, int]) -> PanelNumbers:
    """Return a graph in the plane; marked: node -> the number of the instance that uses it."""
    drawn = {"edges": [list(edge) for edge in edges], "marked": [list(mark) for mark in marked.items()]}
    return {"kind": "graph", "title": title, "nodes": [_rounded(place) for place in nodes], **drawn}


def _thinned(points: Pairs) -> Pairs:
    return points[:: -(-len(points) // MAX_POINTS) or 1]


def _rounded(values: Sequence[float]) -> list[float]:
    """Round all but integers to four digits after the point."""
    return [value if isinstance(value, int) else round(value, DIGITS) for value in values]
