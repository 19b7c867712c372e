"""Figures as vector graphics: a record's panels (plain numbers) -> SVG that can be hovered and read aloud."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from qubolearn.paper.report.axes import Axes, short
from qubolearn.paper.report.markup import Html, el

__all__ = ["COLOURS", "draw", "draw_all", "legend", "picture"]

Panel = Mapping[str, Any]
Point = Sequence[float]
COLOURS = 6  # classes s0 ... s5 of the style sheet
SIDE = 260.0  # of pictures without axes
SQUARE = ("matrix", "clouds")  # kinds that need little room


def draw_all(panels: Sequence[Panel]) -> Html:
    """The panels of a figure, like by like: histograms beside histograms, clouds of the same case beside each other."""
    groups: dict[tuple[str, str], list[Panel]] = {}
    for panel in panels:
        case, colon, _ = str(panel.get("title", "")).partition(": ")
        row = case if colon and panel.get("kind") == "clouds" else ""
        groups.setdefault((str(panel.get("kind")), row), []).append(panel)
    return el("div", map(_group, groups.values()), class_="groups")


def _group(panels: Sequence[Panel]) -> Html:
    """Panels in a row, with one legend where it fits them all."""
    names = [[str(series["name"]) for series in panel.get("series", [])] for panel in panels]
    longest = max(names, key=len)
    shared = all(each == longest[: len(each)] for each in names)
    figures = [draw(panel, with_legend=not shared) for panel in panels]
    style = "panels small" if panels[0].get("kind") in SQUARE else "panels"
    return el("div", el("div", figures, class_=style), legend(longest) if shared else None, class_="group")


def draw(panel: Panel, with_legend: bool = True) -> Html:
    """One panel of a figure: its title, its picture and its legend."""
    kinds: Mapping[str, Callable[[Panel], Html]] = {
        "bars": bars,
        "lines": lines,
        "matrix": matrix,
        "clouds": clouds,
        "graph": graph,
    }
    kind = kinds.get(panel.get("kind", ""))
    if kind is None:
        return el("p", f"A panel of kind {panel.get('kind')!r}, which this version cannot draw.", class_="note")
    title = str(panel.get("title", ""))
    names = [str(series["name"]) for series in panel.get("series", [])]
    return el(
        "figure",
        el("figcaption", title) if title else None,
        kind(panel),
        legend(names) if with_legend else None,
        class_="panel",
    )


def legend(names: Sequence[str]) -> Html | None:
    """What the colours mean; one series needs no legend."""
    if len(names) < 2:
        return None
    entries = [
        el("li", el("span", class_=f"swatch s{i % COLOURS}", aria_hidden="true"), n) for i, n in enumerate(names)
    ]
    return el("ul", entries, class_="legend")


def picture(words: str, width: float, height: float, *content: Html | None, class_: str = "plot") -> Html:
    """An SVG element with its description in words."""
    box = f"0 0 {width:g} {height:g}"
    return el("svg", content, viewBox=box, role="img", aria_label=words, class_=class_)


def bars(panel: Panel) -> Html:
    """Histograms over the same bins, side by side within a bin."""
    edges, series = [float(edge) for edge in panel["edges"]], panel["series"]
    top = max([float(count) for each in series for count in each["counts"]] + [1e-12])
    axes = Axes.around(edges, [0.0, top], y_from_zero=True)
    parts = [axes.frame(str(panel.get("x", "")), str(panel.get("y", "")))]
    share = 0.9 / max(1, len(series))  # of the bin's width
    for index, each in enumerate(series):
        path = []
        for low, high, count in zip(edges, edges[1:], each["counts"], strict=False):
            start = low + (high - low) * (0.05 + index * share)
            x0, x1, y = axes.x(start), axes.x(start + (high - low) * share), axes.y(float(count))
            if count:
                path.append(f"M{x0} {axes.y(0)}V{y}H{x1}V{axes.y(0)}Z")
        parts.append(el("path", d="".join(path), class_=f"fill s{index % COLOURS}"))
    for number, (low, high) in enumerate(pairwise(edges)):
        counts = [f"{each['name']}: {short(float(each['counts'][number]))}" for each in series]
        tip = f"{short(low)} to {short(high)}\n" + "\n".join(counts)
        x, width = axes.x(low), round(axes.x(high) - axes.x(low), 1)
        height = round(axes.y(0) - axes.top, 1)
        parts.append(el("rect", el("title", tip), x=x, y=axes.top, width=width, height=height, class_="hit"))
    names = ", ".join(str(each["name"]) for each in series)
    words = f"Histogram of {panel.get('x', '')}: {names}. {panel.get('title', '')}"
    return picture(words, axes.width, axes.height, *parts)


def lines(panel: Panel) -> Html:
    """Curves with a mark at every point that tells its numbers."""
    series = panel["series"]
    points = [(float(x), float(y)) for each in series for x, y in each["points"]]
    axes = Axes.around([x for x, _ in points], [y for _, y in points])
    parts = [axes.frame(str(panel.get("x", "")), str(panel.get("y", "")))]
    for index, each in enumerate(series):
        places = [(axes.x(float(x)), axes.y(float(y))) for x, y in each["points"]]
        path = "M" + "L".join(f"{x} {y}" for x, y in places)
        parts.append(el("path", d=path, class_=f"curve s{index % COLOURS}"))
        few = len(places) <= 40
        for (x, y), (shown_x, shown_y) in zip(places, each["points"], strict=True):
            tip = el("title", f"{each['name']}\n{panel.get('x', 'x')} {short(shown_x)}: {short(shown_y)}")
            style = f"mark s{index % COLOURS}" if few else "hit"
            parts.append(el("circle", tip, cx=x, cy=y, r=3 if few else 5, class_=style))
    ends = [f"{each['name']} ends at {short(float(each['points'][-1][1]))}" for each in series if each["points"]]
    words = f"{panel.get('y', '')} over {panel.get('x', '')}: {', '.join(ends)}. {panel.get('title', '')}"
    return picture(words, axes.width, axes.height, *parts)


def matrix(panel: Panel) -> Html:
    """Couplings: one square per entry that is not zero, the stronger its colour the larger the entry."""
    values = [[float(value) for value in row] for row in panel["values"]]
    n = max(1, len(values))
    largest = max([abs(value) for row in values for value in row] + [1e-12])
    step = SIDE / n
    parts = [el("rect", x=0, y=0, width=SIDE, height=SIDE, class_="paper")]
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            if value:
                tip = el("title", f"row {i + 1}, column {j + 1}: {short(value)}")
                places = {"x": round(j * step, 2), "y": round(i * step, 2)}
                size = round(step, 2)
                strength = max(0.04, round(abs(value) / largest, 3))
                sign = "plus" if value > 0 else "minus"
                parts.append(el("rect", tip, **places, width=size, height=size, class_=sign, fill_opacity=strength))
    used = sum(value != 0 for row in values for value in row)
    words = (
        f"Matrix of {n} by {n} couplings, {used} of them not zero, the largest {short(largest)} in size. "
        f"{panel.get('title', '')}"
    )
    scale = [
        el("rect", x=0, y=SIDE + 10, width=14, height=14, class_="minus"),
        el("text", f"−{short(largest)}", x=20, y=SIDE + 23),
        el("rect", x=SIDE - 14, y=SIDE + 10, width=14, height=14, class_="plus"),
        el("text", f"+{short(largest)}", x=SIDE - 20, y=SIDE + 23, text_anchor="end"),
    ]
    return picture(words, SIDE, SIDE + 28, *parts, *scale, class_="plot square")


def clouds(panel: Panel) -> Html:
    """Points in the plane or, seen from a fixed direction, in space; the same scale along both axes."""
    series = [(str(each["name"]), [_flat(point) for point in each["points"]]) for each in panel["series"]]
    joined = [[_flat(point) for point in line] for line in panel.get("lines", [])]
    place, height = _fitted([point for _, points in series for point in points])
    parts = []
    if joined:
        path = "".join("M" + "L".join("{} {}".format(*place(point)) for point in line) for line in joined)
        parts.append(el("path", d=path, class_="joined"))
    for index, (name, points) in enumerate(series):
        marks = [el("circle", cx=x, cy=y, r=2.2) for x, y in map(place, points)]
        tip = el("title", f"{name}, {len(points)} points")
        parts.append(el("g", tip, marks, class_=f"fill cloud s{index % COLOURS}"))
    words = f"Points: {', '.join(f'{name} ({len(points)})' for name, points in series)}. {panel.get('title', '')}"
    return picture(words, SIDE, height, *parts, class_="plot square")


def graph(panel: Panel) -> Html:
    """Qubits and couplers of a chip; qubits of the same instance share a colour."""
    place, height = _fitted([(float(x), -float(y)) for x, y in panel["nodes"]])
    nodes = [place((float(x), -float(y))) for x, y in panel["nodes"]]
    owner = {int(node): int(instance) for node, instance in panel.get("marked", [])}
    paths: dict[str, list[str]] = {}
    for i, j in panel["edges"]:
        same = owner.get(i) is not None and owner.get(i) == owner.get(j)
        style = f"curve s{owner[i] % COLOURS}" if same else "coupler"
        paths.setdefault(style, []).append("M{} {}L{} {}".format(*nodes[i], *nodes[j]))
    order = sorted(paths.items(), key=lambda each: each[0] != "coupler")  # those of instances on top
    parts = [el("path", d="".join(path), class_=style) for style, path in order]
    radius = round(min(4.0, max(1.2, 40 / math.sqrt(max(1, len(nodes))))), 1)
    for index, (x, y) in enumerate(nodes):
        instance = owner.get(index)
        tip = f"qubit {index}" if instance is None else f"qubit {index}, instance {instance}"
        style = "qubit" if instance is None else f"fill s{instance % COLOURS}"
        parts.append(el("circle", el("title", tip), cx=x, cy=y, r=radius, class_=style))
    words = (
        f"Graph of {len(nodes)} qubits and {len(panel['edges'])} couplers with {len(set(owner.values()))} instances. "
        f"{panel.get('title', '')}"
    )
    return picture(words, SIDE, height, *parts, class_="plot square")


def _flat(point: Point) -> tuple[float, float]:
    """A point of the plane or of space -> its place in the picture, y downwards."""
    if len(point) == 2:
        return float(point[0]), -float(point[1])
    x, y, z = map(float, point)
    turn, rise = math.radians(35), math.radians(20)
    across, depth = x * math.cos(turn) - y * math.sin(turn), x * math.sin(turn) + y * math.cos(turn)
    return across, -(z * math.cos(rise) + depth * math.sin(rise))


Place = Callable[[tuple[float, float]], tuple[float, float]]


def _fitted(points: Sequence[tuple[float, float]]) -> tuple[Place, float]:
    """What moves and scales points into a picture of width SIDE, the same along both axes; and the picture's height."""
    xs, ys = [x for x, _ in points] or [0.0], [y for _, y in points] or [0.0]
    margin, wide, high = 8.0, max(xs) - min(xs), max(ys) - min(ys)
    scale = (SIDE - 2 * margin) / max(wide, high, 1e-12)
    left = (SIDE - wide * scale) / 2

    def place(point: tuple[float, float]) -> tuple[float, float]:
        return round((point[0] - min(xs)) * scale + left, 1), round((point[1] - min(ys)) * scale + margin, 1)

    return place, round(high * scale + 2 * margin, 1)
