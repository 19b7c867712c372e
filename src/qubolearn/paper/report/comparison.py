"""Tables of the page: the paper's numbers beside ours, and all of ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from qubolearn.paper.grid.paper import PaperTable
from qubolearn.paper.grid.views import DIGITS, Cell, View
from qubolearn.paper.report.charts import dumbbells
from qubolearn.paper.report.compare import Compared, Number
from qubolearn.paper.report.markup import Content, Html, el
from qubolearn.paper.report.wording import badge, signed, spread

__all__ = ["comparison", "header", "own_table", "scrolled"]


def comparison(table: PaperTable, compared: Sequence[Compared], view: View) -> Html:
    """A table of the paper: a line for each of its cells, with ours, the verdict in words and the difference."""
    own = [each for each in compared if each.column in table.own]
    note = f" Not counted in the summary: {table.not_counted}." if table.not_counted else ""
    recipe = any(each.under_protocol for each in compared)
    groups = []
    for row, of_row in groupby(compared, lambda each: each.row):
        cells = [list(cell) for _, cell in groupby(of_row, lambda each: each.column)]
        heads = [el("th", row, scope="rowgroup", rowspan=len(cells)), *[None] * (len(cells) - 1)]
        lines = (_line(head, cell, DIGITS[view.unit], recipe) for head, cell in zip(heads, cells, strict=True))
        groups.append(el("tbody", lines))
    names = ["", "Method", "Paper#", "qubolearn#", "qubolearn is", "Difference#"]
    names += ["qubolearn, the paper’s recipe#"] if recipe else []
    return el(
        "div",
        dumbbells(own, view.unit) if own else None,
        scrolled(f"{table.name}. {table.title}.{note}", header(*names), groups),
        class_="comparison",
    )


def _line(head: Html | None, cell: Sequence[Compared], digits: int, recipe: bool) -> Html:
    first = cell[0]
    verdicts = dict.fromkeys(each.verdict for each in cell)
    differences = [None if each.difference is None else signed(each.difference, digits) for each in cell]
    return el(
        "tr",
        head,
        el("th", first.column, scope="row"),
        el("td", " / ".join(spread(each.paper, each.paper_spread) for each in cell), class_="number"),
        el("td", _ours([each.best for each in cell], digits), class_="number strong"),
        el("td", ([" / " if index else None, badge(verdict)] for index, verdict in enumerate(verdicts))),
        el("td", " / ".join(text for text in differences if text) or "–", class_="number"),
        el("td", _ours([each.under_protocol for each in cell], digits), class_="number") if recipe else None,
        class_="own" if first.column in first.table.own else None,
    )


def _ours(numbers: Sequence[Number | None], digits: int) -> str:
    return " / ".join(spread(each.mean, each.spread, digits) for each in numbers if each is not None) or "–"


def own_table(view: View, cells: Mapping[tuple[str, str], Cell], caption: str) -> Html:
    """All that was measured for a view: rows and columns as the view has them."""
    rows, columns = list(dict.fromkeys(row for row, _ in cells)), list(dict.fromkeys(column for _, column in cells))
    body = []
    for row in rows:
        texts = [cells[row, column].text() if (row, column) in cells else "–" for column in columns]
        body.append(el("tr", el("th", row, scope="row"), (el("td", text, class_="number") for text in texts)))
    return scrolled(caption, header("", *(f"{column}#" for column in columns)), el("tbody", body))


def header(*names: str) -> Html:
    """The first line of a table: a # behind a name marks a column of numbers, no name the corner above row headers."""
    cells = []
    for name in names:
        style = "number" if name.endswith("#") else None
        cells.append(el("th", name.rstrip("#"), scope="col", class_=style) if name else el("td"))
    return el("thead", el("tr", cells))


def scrolled(caption: str, *content: Content) -> Html:
    """A table that scrolls in its own box where the page is narrow; its caption stays in sight."""
    table = el("table", el("caption", el("span", caption)), *content)
    return el("div", table, class_="scroll", tabindex=0, role="region", aria_label=caption)
