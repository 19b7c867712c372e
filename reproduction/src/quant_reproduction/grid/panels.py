"""Figures as plain numbers: what a record keeps, and a report draws.

A figure is ``{"title", "note", "panels": [...]}``. A panel may also hold
``missed`` (dashed lines) and ``images`` (names of Willow images and their places).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Pairs = Sequence[Sequence[float]]
PanelNumbers = dict[str, Any]

DIGITS = 4


def titled(title: str, panels: Sequence[PanelNumbers], note: str = "") -> dict[str, Any]:
    """Return a figure of these panels."""
    return {"title": title, "note": note, "panels": list(panels)}


def bars(title: str, x: str, y: str, edges: Sequence[float], series: Mapping[str, Any]) -> PanelNumbers:
    """Return histograms over the same edges: name -> counts."""
    counted = [{"name": name, "counts": _rounded(counts)} for name, counts in series.items()]
    return {"kind": "bars", "title": title, "x": x, "y": y, "edges": _rounded(edges), "series": counted}


def lines(title: str, x: str, y: str, series: Mapping[str, Pairs]) -> PanelNumbers:
    """Return curves: name -> points [[x, y], ...]."""
    return {"kind": "lines", "title": title, "x": x, "y": y, "series": _series(series)}


def matrix(title: str, values: Pairs) -> PanelNumbers:
    """Return a matrix whose entries are above or below 0."""
    return {"kind": "matrix", "title": title, "values": [_rounded(row) for row in values]}


def clouds(title: str, series: Mapping[str, Pairs], lines: Sequence[Pairs] = ()) -> PanelNumbers:
    """Return points of the plane or of space, and lines."""
    ends = [[*map(_rounded, line)] for line in lines]
    return {"kind": "clouds", "title": title, "series": _series(series), "lines": ends}


def graph(title: str, nodes: Pairs, edges: Sequence[Any], marked: Mapping[int, int]) -> PanelNumbers:
    """Return a graph; marked: node -> the number of its instance."""
    drawn = {"edges": [list(edge) for edge in edges], "marked": [list(mark) for mark in marked.items()]}
    return {"kind": "graph", "title": title, "nodes": [_rounded(place) for place in nodes], **drawn}


def _series(named: Mapping[str, Pairs]) -> list[PanelNumbers]:
    return [{"name": name, "points": [*map(_rounded, points)]} for name, points in named.items()]


def _rounded(values: Sequence[float]) -> list[float]:
    """Round all but integers to four digits after the point."""
    return [value if isinstance(value, int) else round(value, DIGITS) for value in values]
