"""Drawings of the comparison itself: the paper's numbers and ours on one scale."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from qubolearn.paper.report.axes import short, ticks
from qubolearn.paper.report.compare import VERDICTS, Compared
from qubolearn.paper.report.drawings import picture
from qubolearn.paper.report.markup import Html, el
from qubolearn.paper.report.wording import many

__all__ = ["dumbbells", "shares"]

WIDTH, RIGHT, STEP = 360.0, 14.0, 24.0
LETTER = 5.9  # width of a letter of a row's name


def dumbbells(compared: Sequence[Compared], unit: str) -> Html | None:
    """One line per row: the paper's number, ours with its spread, and ours under the paper's recipe."""
    shown = [each for each in compared if each.metric == compared[0].metric and each.ours is not None]
    if len(shown) < 2:
        return None
    numbers = [float(each.paper) for each in shown]
    numbers += [n.mean + (n.spread or 0) for each in shown for n in (each.best, each.protocol) if n is not None]
    high = 100.0 if unit == "%" else 1.05 * max(numbers)
    height = STEP * len(shown) + 44
    several = len({each.column for each in shown}) > 1
    names = [f"{each.row}, {each.column}" if several else each.row for each in shown]
    left = 16 + LETTER * max(map(len, names))

    def x(value: float) -> float:
        return round(left + (WIDTH - left - RIGHT) * min(value, high) / high, 1)

    parts = []
    for value in ticks(0, high):
        parts.append(el("line", x1=x(value), x2=x(value), y1=6, y2=height - 38, class_="grid"))
        parts.append(el("text", short(value), x=x(value), y=height - 24, text_anchor="middle"))
    middle = (left + WIDTH - RIGHT) / 2
    parts.append(el("text", _axis(compared[0], unit), x=middle, y=height - 6, text_anchor="middle", class_="label"))
    for index, (each, name) in enumerate(zip(shown, names, strict=True)):
        y = 6 + STEP * (index + 0.5)
        parts.append(el("text", name, x=left - 10, y=y + 4, text_anchor="end"))
        parts += _line(each, y, x)
    words = "; ".join(f"{each.row}: paper {each.paper}, qubolearn {each.ours.mean:.2f}" for each in shown if each.ours)
    key = el(
        "ul",
        el("li", el("span", class_="key paper-dot", aria_hidden="true"), "paper"),
        el("li", el("span", class_="key ours-dot", aria_hidden="true"), "qubolearn"),
        el("li", el("span", class_="key recipe-dot", aria_hidden="true"), "qubolearn, the paper’s recipe")
        if any(each.protocol for each in shown)
        else None,
        class_="legend",
    )
    return el("figure", picture(words, WIDTH, height, *parts, class_="plot dumbbells"), key, class_="panel wide")


def _axis(compared: Compared, unit: str) -> str:
    arrow = "more is better" if compared.table.better == "higher" else "less is better"
    return f"{unit} ({arrow})"


def _line(each: Compared, y: float, x: Callable[[float], float]) -> list[Html]:
    parts, ours = [], each.ours
    if ours is not None:
        parts.append(el("line", x1=x(float(each.paper)), x2=x(ours.mean), y1=y, y2=y, class_="bond"))
    if each.protocol is not None and each.protocol is not ours:
        tip = f"{each.row}, qubolearn with the paper’s recipe: {each.protocol.mean:.2f}"
        parts.append(el("circle", el("title", tip), cx=x(each.protocol.mean), cy=y, r=4, class_="recipe-dot"))
    tip = f"{each.row}, paper: {each.paper}"
    parts.append(el("circle", el("title", tip), cx=x(float(each.paper)), cy=y, r=5, class_="paper-dot"))
    if ours is not None:
        around = f" ± {ours.spread:.2f}" if ours.spread is not None else ""
        tip = f"{each.row}, qubolearn: {ours.mean:.2f}{around}"
        if ours.spread:
            ends = x(max(0.0, ours.mean - ours.spread)), x(ours.mean + ours.spread)
            parts.append(el("line", x1=ends[0], x2=ends[1], y1=y, y2=y, class_="whisker"))
        parts.append(el("circle", el("title", tip), cx=x(ours.mean), cy=y, r=5, class_="ours-dot"))
    return parts


def shares(cells: Mapping[str, int]) -> Html:
    """A bar of all counted cells, split by verdict."""
    whole, start, parts = max(1, sum(cells.values())), 0.0, []
    for verdict in VERDICTS:
        width = 600 * cells[verdict] / whole
        tip = el("title", f"{verdict}: {many(cells[verdict], 'number')}")
        if cells[verdict]:
            style = f"share {verdict.replace(' ', '-')}"
            parts.append(el("rect", tip, x=round(start, 1), y=0, width=round(width, 1), height=14, class_=style))
        start += width
    words = ", ".join(f"{cells[verdict]} {verdict}" for verdict in VERDICTS)
    return el(
        "svg",
        parts,
        viewBox="0 0 600 14",
        preserveAspectRatio="none",
        role="img",
        aria_label=words,
        class_="shares",
    )
