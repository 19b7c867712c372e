"""The report: the paper's tables and figures next to ours."""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from quant_reproduction.grid.jobs import Job
from quant_reproduction.report import couplings, tables
from quant_reproduction.report.numbers import MARKS, format_duration, format_number, plural
from quant_reproduction.report.summary import Report, Summary, gather
from qubolearn.files import make_folder, write_output
from qubolearn.plots import figure

LINK = re.compile(r"\[([^\]]+)\]\(records\.md#([\w-]+)\)")


def write_report(results: Path, out: Path, quick: bool, seeds: int) -> Summary:
    """Write the page for a folder of results and return its summary."""
    report = gather(results, quick, seeds)
    make_folder(out.parent)
    write_output(out, page(report).encode())
    return report.summary


def page(report: Report) -> str:
    """Return the report as an HTML document."""
    blocks: Any = {"trim_blocks": True, "lstrip_blocks": True, "extensions": ["jinja2.ext.do"]}
    loader = PackageLoader("quant_reproduction.report")
    templates = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, **blocks)
    templates.filters |= {"inline": _inline, "duration": format_duration, "plural": plural}
    templates.globals |= {"tables": tables, "couplings": couplings, "draw": _draw}
    made = templates.get_template("page.html")
    return made.render(report=report, summary=report.summary, summary_values=asdict(report.summary))


def _inline(text: str) -> Markup:
    """Convert inline Markdown to HTML, and mark verdicts."""
    if (word := text.partition(",")[0]) in MARKS:
        return Markup('<span class="{}">{} {}</span>').format(word.replace(" ", "-"), MARKS[word], text)
    made = LINK.sub(r'<a href="#item-\2">\1</a>', str(escape(text)))
    made = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", made)  # links to other pages
    made = re.sub(r"(^|\s)\*([^*]+)\*", r"\1<em>\2</em>", made)
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", made))


def _draw(job: Job, figure: Mapping[str, Any]) -> Markup:
    where = f"{job.item}, {job.row}, {job.column}, seed {job.seed}"
    try:
        return inline_svg(draw_figure(figure), f"{figure['title']} {figure['note']} {where}")
    # damaged numbers and texts raise these
    except (ArithmeticError, AttributeError, LookupError, SyntaxError, TypeError, ValueError) as error:
        damage = f"{type(error).__name__}: {error}"
        return Markup("<p>Not drawn: damaged record of {} ({}).</p>").format(where, damage)


Panel = Mapping[str, Any]
Colors = Mapping[str, str]  # name of a series -> color
Point = Sequence[float]

INK, MUTED, LINE = "#1c2229", "#565f69", "#dedad0"
BLUE, ORANGE, GREEN = "#2a6fb0", "#c05a22", "#23805e"
SERIES = [BLUE, ORANGE, GREEN, "#8355ad", "#8a6d10", "#b23d66"]
#: Series whose names have a meaning have one color.
MEANINGS = {"right": BLUE, "wrong": ORANGE, "template": BLUE, "reference": ORANGE}
MEANINGS["reference, wrong match"] = GREEN
STYLE: Any = {
    **{f"axes.spines.{side}": False for side in ("top", "right", "left")},
    **dict.fromkeys(("xtick.color", "ytick.color", "axes.edgecolor"), MUTED),
    **dict.fromkeys(("axes.labelcolor", "text.color", "axes.titlecolor"), INK),
    **dict.fromkeys(("xtick.bottom", "ytick.left", "legend.frameon"), False),
    "grid.color": LINE,
    **dict.fromkeys(("axes.grid", "axes.axisbelow"), True),
    "axes.grid.axis": "y",
    "axes.xmargin": 0.0,
    "text.parse_math": False,  # a dollar in a record is a dollar
}


def inline_svg(made: Figure, description: str) -> Markup:
    """Return matplotlib's SVG for HTML, with unique ids and a description."""
    written = io.StringIO()
    style: Any = {"svg.fonttype": "none", "svg.hashsalt": description}
    with matplotlib.rc_context(style), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # the browser has its own fonts
        made.savefig(written, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    _, _, text = written.getvalue().partition("<svg ")
    text = re.sub(r'<style.*?</style>|<metadata.*?</metadata>| id="[\w.]+_\d+"', "", text, flags=re.DOTALL)
    return Markup(f'<svg role="img" aria-label="{escape(description)}" class="plot" {text}')


def colors_of(panels: Sequence[Panel]) -> dict[str, str]:
    """Return the color of every series; one for all if they are single."""
    names = [[str(series["name"]) for series in panel.get("series", [])] for panel in panels]
    several = any(len(each) > 1 for each in names)
    every = dict.fromkeys(chain.from_iterable(names))
    hues = {name: SERIES[several * index % len(SERIES)] for index, name in enumerate(every)}
    return {name: MEANINGS.get(name, hue) for name, hue in hues.items()}


def draw_figure(plain: Mapping[str, Any]) -> Figure:
    """Draw a record's figure: panels in rows, a legend, title and note."""
    groups: dict[tuple[str, str], list[Panel]] = {}  # clouds of one case are in one row
    for panel in plain["panels"]:
        case = re.match("case .*?(?=: )", str(panel["title"]))
        groups.setdefault((panel["kind"], case[0] if case else ""), []).append(panel)
    rows = []
    for group in groups.values():
        step = 5 if len(group) <= 5 else 4
        rows += [group[i : i + step] for i in range(0, len(group), step)]
    kinds = {kind: [panel for panel in plain["panels"] if panel["kind"] == kind] for kind, _ in groups}
    colors = {kind: colors_of(of_kind) for kind, of_kind in kinds.items()}
    columns = max(map(len, rows))
    with matplotlib.rc_context(STYLE):
        made, axes = figure(columns, len(rows), width=max(3.1, 6.4 / columns), height=2.7)
        for index, row in enumerate(rows):
            for axis, panel in zip(axes[columns * index :], row, strict=False):
                DRAW[panel["kind"]](axis, panel, colors[panel["kind"]])
                axis.set_title(panel["title"], fontsize=8, wrap=True)
            for axis in axes[columns * index + len(row) : columns * (index + 1)]:
                axis.axis("off")
        several = [of for of in colors.values() if len(set(of.values())) > 1]
        shown = {name: color for of in several for name, color in of.items()}
        if shown:
            keys = [Patch(color=color, label=name) for name, color in shown.items()]
            ncols = min(columns + 1, len(keys))
            made.legend(handles=keys, loc="outside lower center", ncols=ncols, fontsize=8)
        made.suptitle("\n".join(filter(None, (plain["title"], plain["note"]))), fontsize=9, wrap=True)
    return made


def _draw_bars(axis: Axes, panel: Panel, colors: Colors) -> None:
    """Draw histograms next to each other within a bin."""
    edges, series = np.asarray(panel["edges"], dtype=float), panel["series"]
    widths, share = np.diff(edges), 0.9 / max(1, len(series))  # of the bin's width
    for index, each in enumerate(series):
        starts = edges[:-1] + widths * (0.05 + index * share)
        axis.bar(starts, each["counts"], widths * share, align="edge", color=colors[each["name"]])
    top = max((count for each in series for count in each["counts"]), default=0) or 1
    axis.set(xlim=(edges[0], edges[-1]), ylim=(0, 1.05 * top), xlabel=panel["x"], ylabel=panel["y"])
    _format_ticks(axis)


def _draw_lines(axis: Axes, panel: Panel, colors: Colors) -> None:
    for each in panel["series"]:
        marker = "o" if len(each["points"]) <= 40 else ""
        axis.plot(*np.transpose(each["points"]), color=colors[each["name"]], marker=marker, linewidth=1.8)
    axis.set(xlabel=panel["x"], ylabel=panel["y"])
    _format_ticks(axis)


def _draw_matrix(axis: Axes, panel: Panel, colors: Colors) -> None:
    """Draw A: red entries raise the energy, blue ones lower it."""
    values = np.asarray(panel["values"], dtype=float)
    largest = float(np.abs(values).max()) or 1e-12
    axis.imshow(values, cmap="RdBu_r", vmin=-largest, vmax=largest)
    axis.set(xticks=[], yticks=[], xlabel=f"from −{format_number(largest)} to +{format_number(largest)}")
    axis.grid(visible=False)


def _draw_clouds(axis: Axes, panel: Panel, colors: Colors) -> None:
    """Draw points, and lines in the color of their first point."""
    named = {tuple(point): each["name"] for each in panel["series"] for point in each["points"]}
    for line in panel["lines"]:
        name = named.get(tuple(line[0]))
        _draw_segments(axis, [line], colors[name] if name else MUTED, linewidth=1, alpha=0.7)
    _draw_segments(axis, panel.get("missed", ()), MUTED, linewidth=1, linestyle="--")
    for each in panel["series"]:
        xs, ys = zip(*map(_project, each["points"]), strict=True)
        axis.scatter(xs, ys, s=18, color=colors[each["name"]], alpha=0.8, linewidths=0)
    if "images" in panel:
        from quant_reproduction.datasets.willow import picture_of  # imports torch

        for name, box in panel["images"]:
            if (image := picture_of(name)) is not None:
                axis.imshow(image, extent=box, zorder=0)
    axis.set_aspect("equal")
    axis.margins(0.03, 0.03)
    axis.autoscale()
    axis.axis("off")


def _draw_graph(axis: Axes, panel: Panel, colors: Colors) -> None:
    """Draw qubits and couplers; those of an instance share a color."""
    nodes, owner = panel["nodes"], dict(panel["marked"])
    hues = {None: MUTED} | {instance: SERIES[instance % len(SERIES)] for instance in owner.values()}
    couplers: dict[str, list[Sequence[Point]]] = {LINE: []}  # those of instances are drawn last
    for i, j in panel["edges"]:
        same = owner.get(i) is not None and owner.get(i) == owner.get(j)
        couplers.setdefault(hues[owner[i]] if same else LINE, []).append((nodes[i], nodes[j]))
    for hue, lines in couplers.items():
        _draw_segments(axis, lines, hue, linewidth=0.7 if hue == LINE else 1.5)
    size = (2 * min(4.0, max(1.2, 40 / math.sqrt(len(nodes))))) ** 2
    shades = [hues[owner.get(index)] for index in range(len(nodes))]
    xs, ys = zip(*nodes, strict=True)
    axis.scatter(xs, ys, s=size, color=shades, linewidths=0, zorder=3)
    axis.set_aspect("equal")
    axis.axis("off")


DRAW = {"bars": _draw_bars, "lines": _draw_lines, "matrix": _draw_matrix}
DRAW |= {"clouds": _draw_clouds, "graph": _draw_graph}


def _draw_segments(axis: Axes, lines: Sequence[Sequence[Point]], color: str, **style: Any) -> None:
    points = [point for line in lines for point in (*map(_project, line), (math.nan, math.nan))]
    if points:
        axis.plot(*zip(*points, strict=True), color=color, **style)


def _format_ticks(axis: Axes) -> None:
    for each in (axis.xaxis, axis.yaxis):
        each.set_major_formatter(lambda value, _: format_number(round(value, 10)))


def _project(point: Point) -> tuple[float, float]:
    """Return a point of the plane, or the projection of a point of space."""
    if len(point) == 2:
        return point[0], point[1]
    x, y, z = point
    turn, rise = math.radians(35), math.radians(20)
    across, depth = x * math.cos(turn) - y * math.sin(turn), x * math.sin(turn) + y * math.cos(turn)
    return across, z * math.cos(rise) + depth * math.sin(rise)
