"""The drawings of page and files, by matplotlib: a record's panels, which are plain numbers, and the paper beside ours.

A colour belongs to the name of a series, never to its position: a panel that shows wrong matches only must not have
the colour that right ones have in the panel beside it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from qubolearn.paper.report.compare import Compared
from qubolearn.paper.report.svg import PALETTE, STYLE, mark, svg
from qubolearn.paper.report.wording import short
from qubolearn.plots import figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["colours_by_kind", "colours_of", "described", "dumbbells", "grouped", "panel_svg", "picture"]

Panel = Mapping[str, Any]
Colours = Mapping[str, str]  # name of a series -> name of a colour
Point = Sequence[float]

#: Series whose names say what they mean have the same colour in every figure.
MEANINGS = {"right": "s0", "wrong": "s1", "template": "s0", "reference": "s1", "reference, wrong match": "s2"}
SERIES_COLOURS = [name for name in PALETTE if name[0] == "s" and name[1:].isdigit()]
SQUARE = ("matrix", "clouds")  # kinds that need little room
SIDE = 260.0  # points: the width of a picture without axes
MAX_MARKS = 40  # a curve of more points shows no mark at each


def grouped(panels: Sequence[Panel]) -> list[list[Panel]]:
    """Panels like by like: histograms beside histograms, clouds of the same case beside each other."""
    groups: dict[tuple[str, str], list[Panel]] = {}
    for panel in panels:
        case, colon, _ = str(panel["title"]).partition(": ")
        row = case if colon and case.startswith("case ") else ""
        groups.setdefault((str(panel["kind"]), row), []).append(panel)
    return list(groups.values())


def colours_of(panels: Sequence[Panel]) -> dict[str, str]:
    """The colour of every series of some panels, by name; one for all where no panel shows more than one series."""
    names = [[str(series["name"]) for series in panel.get("series", [])] for panel in panels]
    several = any(len(each) > 1 for each in names)
    every = list(dict.fromkeys(chain.from_iterable(names)))
    return {
        name: MEANINGS.get(name, SERIES_COLOURS[several * index % len(SERIES_COLOURS)])
        for index, name in enumerate(every)
    }


def colours_by_kind(panels: Sequence[Panel]) -> dict[str, dict[str, str]]:
    """The colours of a figure's series, for each kind of panel: kind -> name of a series -> colour."""
    kinds = dict.fromkeys(str(panel["kind"]) for panel in panels)
    return {kind: colours_of([panel for panel in panels if panel["kind"] == kind]) for kind in kinds}


def panel_svg(panel: Panel, colours: Colours) -> Markup:
    """One panel as SVG for the page, without its title."""
    made, (axis,) = _figure(*_size(panel))
    DRAW[panel["kind"]](axis, panel, colours)
    return svg(made, described(panel), "plot square" if panel["kind"] in SQUARE else "plot")


def picture(made_of: Mapping[str, Any]) -> Figure:
    """A whole figure for a file: like panels in rows, what the colours mean, title and note."""
    import matplotlib
    from matplotlib.patches import Patch

    rows = [row for group in grouped(made_of["panels"]) for row in _rows(group)]
    columns, colours = max(map(len, rows)), colours_by_kind(made_of["panels"])
    with matplotlib.rc_context(STYLE):
        made, axes = figure(columns, len(rows), width=max(3.1, 6.4 / columns), height=2.7)
        for index, row in enumerate(rows):
            for axis, panel in zip(axes[columns * index :], row, strict=False):
                DRAW[panel["kind"]](axis, panel, colours[panel["kind"]])
                axis.set_title(panel["title"], fontsize=8, wrap=True)
            for axis in axes[columns * index + len(row) : columns * (index + 1)]:
                axis.axis("off")
        shown = {name: hue for of in colours.values() if len(set(of.values())) > 1 for name, hue in of.items()}
        if shown:
            keys = [Patch(color=PALETTE[hue], label=name) for name, hue in shown.items()]
            made.legend(handles=keys, loc="outside lower center", ncols=min(columns + 1, len(keys)), fontsize=8)
        made.suptitle("\n".join(filter(None, (made_of["title"], made_of["note"]))), fontsize=9, wrap=True)
    for artist in made.findobj():
        artist.set_gid(None)  # tips are for the page
    return made


def _rows(group: Sequence[Panel]) -> list[Sequence[Panel]]:
    """Up to five panels in one row, more of them four by four."""
    return [group] if len(group) <= 5 else [group[i : i + 4] for i in range(0, len(group), 4)]


def described(panel: Panel) -> str:
    """What a panel shows, in words."""
    kind, title, series = panel["kind"], panel["title"], panel.get("series", [])
    if kind == "bars":
        return f"Histogram of {panel['x']}: {', '.join(str(each['name']) for each in series)}. {title}"
    if kind == "lines":
        ends = [f"{each['name']} ends at {short(each['points'][-1][1])}" for each in series if each["points"]]
        return f"{panel['y']} over {panel['x']}: {', '.join(ends)}. {title}"
    if kind == "matrix":
        entries = [abs(value) for row in panel["values"] for value in row]
        return (
            f"Matrix of {len(panel['values'])} by {len(panel['values'])} couplings, {sum(map(bool, entries))} of them "
            f"not zero, the largest {short(max(entries))} in size. {title}"
        )
    if kind == "clouds":
        return f"Points: {', '.join('{} ({})'.format(each['name'], len(each['points'])) for each in series)}. {title}"
    instances = {instance for _, instance in panel["marked"]}
    return (
        f"Graph of {len(panel['nodes'])} qubits and {len(panel['edges'])} couplers with {len(instances)} instances. "
        f"{title}"
    )


def dumbbells(compared: Sequence[Compared], unit: str) -> Markup | None:
    """One line per row: the paper's number, ours under its protocol, and ours by our recipe with its spread."""
    numbers = [
        (each, each.numbers["c"] or each.numbers["b"] or each.numbers["a"])
        for each in compared
        if each.metric == compared[0].metric
    ]
    shown = [(each, best) for each, best in numbers if best is not None]
    if len(shown) < 2:
        return None
    several = len({each.column for each, _ in shown}) > 1
    made, (axis,) = _figure(380, 24 * len(shown) + 50)
    tips: dict[str, list[tuple[float, int, str]]] = {"recipe-dot": [], "paper-dot": [], "ours-dot": []}
    for y, (each, best) in enumerate(shown):
        ours, paper, spread = best.mean, float(each.paper), best.spread
        axis.plot([paper, ours], [y, y], color=PALETTE["line"], linewidth=3)
        axis.plot([max(0.0, ours - (spread or 0)), ours + (spread or 0)], [y, y], color=PALETTE["s2"], linewidth=1.5)
        tips["paper-dot"].append((paper, y, f"{each.row}, paper: {each.paper}"))
        around = f" ± {spread:.2f}" if spread is not None else ""
        tips["ours-dot"].append((ours, y, f"{each.row}, qubolearn: {ours:.2f}{around}"))
        protocol = each.numbers["a"]
        if protocol is not None and protocol is not best:
            recipe = protocol.mean
            tips["recipe-dot"].append((recipe, y, f"{each.row}, qubolearn, the paper’s protocol: {recipe:.2f}"))
    for style, dots in tips.items():
        face = PALETTE["s2" if style == "ours-dot" else "sheet"]
        edge = PALETTE["s1" if style == "paper-dot" else "s2"]
        places = [x for x, _, _ in dots], [y for _, y, _ in dots]
        size = 36 if style == "recipe-dot" else 64
        drawn = axis.scatter(*places, s=size, facecolor=face, edgecolor=edge, linewidths=1.8, zorder=3)
        mark(drawn, [tip for _, _, tip in dots], style)
    axis.set_yticks(range(len(shown)), [f"{each.row}, {each.column}" if several else each.row for each, _ in shown])
    axis.set(xlabel=f"{unit} ({'more' if compared[0].table.better == 'higher' else 'less'} is better)")
    axis.set(ylim=(len(shown) - 0.5, -0.5), xlim=(-2, 103) if unit == "%" else (0, None))
    axis.grid(axis="y", visible=False)
    axis.grid(axis="x")
    axis.spines.bottom.set_visible(False)
    words = "; ".join(f"{each.row}: paper {each.paper}, qubolearn {best.mean:.2f}" for each, best in shown)
    return svg(made, words, "plot dumbbells")


def _figure(width: float, height: float) -> tuple[Figure, list[Axes]]:
    """A figure of one picture, in points, in the page's style."""
    import matplotlib

    with matplotlib.rc_context(STYLE):
        return figure(1, width=width / 72, height=height / 72)


def _size(panel: Panel) -> tuple[float, float]:
    """Points; pictures without axes are as high as their points are."""
    if panel["kind"] in ("bars", "lines"):
        return 300, 200
    if panel["kind"] == "matrix":
        return SIDE, SIDE + 28
    points = [_flat(p) for each in panel.get("series", [{"points": panel.get("nodes")}]) for p in each["points"]]
    for _, (left, right, low, high) in panel.get("images", ()):
        points += [(left, low), (right, high)]
    (x_low, x_high), (y_low, y_high) = ((min(axis), max(axis)) for axis in zip(*points, strict=True))
    longest = max(x_high - x_low, y_high - y_low, 1e-12)
    return SIDE, 16 + SIDE * max(0.1, (y_high - y_low) / longest)


def _draw_bars(axis: Axes, panel: Panel, colours: Colours) -> None:
    """Histograms over the same bins, side by side within a bin; a bin tells its numbers."""
    edges, series = panel["edges"], panel["series"]
    share = 0.9 / max(1, len(series))  # of the bin's width
    bins = list(pairwise(edges))
    for index, each in enumerate(series):
        starts = [low + (high - low) * (0.05 + index * share) for low, high in bins]
        widths = [(high - low) * share for low, high in bins]
        boxes = [box for box in zip(starts, [0] * len(bins), widths, each["counts"], strict=True) if box[3]]
        _boxes(axis, boxes, [PALETTE[colours[each["name"]]]] * len(boxes))
    top = max((count for each in series for count in each["counts"]), default=0) or 1
    tips = [
        "\n".join([f"{short(low)} to {short(high)}", *(f"{s['name']}: {short(s['counts'][index])}" for s in series)])
        for index, (low, high) in enumerate(bins)
    ]
    mark(_boxes(axis, [(low, 0, high - low, top) for low, high in bins], ["none"] * len(bins)), tips, "hit")
    for place in panel.get("at", ()):
        axis.axvline(place, color=PALETTE["s5"], linewidth=0.8)
    axis.set(xlim=(edges[0], edges[-1]), ylim=(0, 1.05 * top), xlabel=panel["x"], ylabel=panel["y"])
    if panel.get("log"):
        axis.set(yscale="log", ylim=(0.5, 2 * top))
    _numbers(axis)


def _draw_lines(axis: Axes, panel: Panel, colours: Colours) -> None:
    """Curves with a mark at every point that tells its numbers."""
    for each in panel["series"]:
        xs, ys = zip(*each["points"], strict=True)
        colour = PALETTE[colours[each["name"]]]
        axis.plot(xs, ys, color=colour, linewidth=1.8)
        few = len(xs) <= MAX_MARKS
        dots = axis.scatter(xs, ys, s=40 if few else 100, color=colour, edgecolors=PALETTE["sheet"], linewidths=1)
        dots.set(zorder=3, alpha=None if few else 0)
        tips = [f"{each['name']}\n{panel['x']} {short(x)}: {short(y)}" for x, y in each["points"]]
        mark(dots, tips, "mark" if few else "hit")
    axis.set(xlabel=panel["x"], ylabel=panel["y"])
    _numbers(axis)


def _draw_matrix(axis: Axes, panel: Panel, colours: Colours) -> None:
    """Couplings: one square per entry that is not zero, the stronger its colour the larger the entry."""
    from matplotlib.colors import to_rgba

    values = panel["values"]
    n = len(values)
    largest = max(abs(value) for row in values for value in row) or 1e-12
    entries = [(i, j, value) for i, row in enumerate(values) for j, value in enumerate(row) if value]
    shades = [to_rgba(PALETTE["s1" if v > 0 else "s0"], max(0.04, abs(v) / largest)) for _, _, v in entries]
    _boxes(axis, [(0, 0, n, n)], [PALETTE["sheet"]], edgecolors=PALETTE["line"], linewidths=0.8)
    squares = _boxes(axis, [(j, i, 1, 1) for i, j, _ in entries], shades)
    mark(squares, [f"row {i + 1}, column {j + 1}: {short(value)}" for i, j, value in entries], "entry")
    key = 0.055 * n
    _boxes(axis, [(x, 1.04 * n, key, key) for x in (0, n - key)], [PALETTE["s0"], PALETTE["s1"]])
    for x, text, side in ((1.5 * key, f"−{short(largest)}", "left"), (n - 1.5 * key, f"+{short(largest)}", "right")):
        axis.text(x, 1.09 * n, text, ha=side, fontsize=17, color=PALETTE["muted"])
    axis.set(xlim=(0, n), ylim=(1.1 * n, 0), aspect="equal")
    axis.axis("off")


def _draw_clouds(axis: Axes, panel: Panel, colours: Colours) -> None:
    """Points in the plane or, seen from a fixed direction, in space, and lines in the colour of their first point."""
    named = {tuple(point): each["name"] for each in panel["series"] for point in each["points"]}
    by_name: dict[str | None, list[Sequence[Point]]] = {}
    for line in panel["lines"]:
        by_name.setdefault(named.get(tuple(line[0])), []).append(line)
    for name, lines in by_name.items():
        _segments(axis, lines, PALETTE[colours[name] if name else "muted"], linewidth=1, alpha=0.7)
    _segments(axis, panel.get("missed", ()), PALETTE["muted"], linewidth=1, linestyle="--")
    for each in panel["series"]:
        xs, ys = zip(*map(_flat, each["points"]), strict=True)
        dots = axis.scatter(xs, ys, s=18, color=PALETTE[colours[each["name"]]], alpha=0.8, linewidths=0)
        mark(dots, [f"{each['name']}, {len(xs)} points"])
    if "images" in panel:
        from qubolearn.paper.datasets.willow import picture_of  # torch comes with it

        for name, box in panel["images"]:
            image = picture_of(name)
            if image is not None:
                axis.imshow(image.permute(1, 2, 0).numpy(), extent=box, zorder=0)
    axis.set_aspect("equal")
    axis.margins(0.03, 0.03)
    axis.autoscale()
    axis.axis("off")


def _draw_graph(axis: Axes, panel: Panel, colours: Colours) -> None:
    """Qubits and couplers of a chip; qubits of the same instance share a colour."""
    nodes, owner = panel["nodes"], dict(panel["marked"])
    hues = {None: "muted"} | {instance: SERIES_COLOURS[instance % len(SERIES_COLOURS)] for instance in owner.values()}
    couplers: dict[str, list[Sequence[Point]]] = {"line": []}  # those of instances on top
    for i, j in panel["edges"]:
        same = owner.get(i) is not None and owner.get(i) == owner.get(j)
        couplers.setdefault(hues[owner[i]] if same else "line", []).append((nodes[i], nodes[j]))
    for hue, lines in couplers.items():
        _segments(axis, lines, PALETTE[hue], linewidth=0.7 if hue == "line" else 1.5)
    size = (2 * min(4.0, max(1.2, 40 / math.sqrt(len(nodes))))) ** 2
    shades = [PALETTE[hues[owner.get(index)]] for index in range(len(nodes))]
    xs, ys = zip(*nodes, strict=True)
    dots = axis.scatter(xs, ys, s=size, color=shades, linewidths=0, zorder=3)
    who = [f", instance {owner[index]}" if index in owner else "" for index in range(len(nodes))]
    mark(dots, [f"qubit {index}{instance}" for index, instance in enumerate(who)], "qubit")
    axis.set_aspect("equal")
    axis.margins(0.03, 0.03)
    axis.axis("off")


DRAW = {"bars": _draw_bars, "lines": _draw_lines, "matrix": _draw_matrix, "clouds": _draw_clouds, "graph": _draw_graph}


def _boxes(axis: Axes, boxes: Sequence[Sequence[float]], colours: Sequence[Any], **style: Any) -> Any:
    """Rectangles (x, y, width, height) in one artist."""
    from matplotlib.collections import PolyCollection

    corners = [[(x, y), (x, y + h), (x + w, y + h), (x + w, y)] for x, y, w, h in boxes]
    return axis.add_collection(PolyCollection(corners, facecolors=colours, **{"linewidths": 0, **style}))


def _segments(axis: Axes, lines: Sequence[Sequence[Point]], colour: str, **style: Any) -> None:
    """Lines between points as one artist: what is not a number lifts the pen."""
    points = [point for line in lines for point in (*map(_flat, line), (math.nan, math.nan))]
    if points:
        axis.plot(*zip(*points, strict=True), color=colour, **style)


def _numbers(axis: Axes) -> None:
    """Ticks as the page writes numbers."""
    for each in (axis.xaxis, axis.yaxis):
        each.set_major_formatter(lambda value, _: short(round(value, 10)))


def _flat(point: Point) -> tuple[float, float]:
    """A point of the plane or of space -> its place in the picture."""
    if len(point) == 2:
        return point[0], point[1]
    x, y, z = point
    turn, rise = math.radians(35), math.radians(20)
    across, depth = x * math.cos(turn) - y * math.sin(turn), x * math.sin(turn) + y * math.cos(turn)
    return across, z * math.cos(rise) + depth * math.sin(rise)
