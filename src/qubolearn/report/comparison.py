"""Tables of the page: the paper's numbers beside ours, and all of ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from qubolearn.experiments.paper import PaperTable
from qubolearn.experiments.views import DIGITS, Cell, View
from qubolearn.report.charts import dumbbells
from qubolearn.report.compare import Compared, Number
from qubolearn.report.markup import Content, Html, el
from qubolearn.report.wording import badge, signed, spread

__all__ = ["comparison", "own_table", "scrolled"]


def comparison(table: PaperTable, compared: Sequence[Compared], view: View) -> Html:
    """A table of the paper: a row for each of its cells, with ours, the difference and the verdict in words."""
    digits = DIGITS[view.unit]
    heads = ["", "Method", "Paper", "Ours", "Ours, the paper’s recipe", "Difference", "Ours is"]
    body = []
    for row, of_row in groupby(compared, lambda each: each.row):
        cells = [list(cell) for _, cell in groupby(of_row, lambda each: each.column)]
        for index, cell in enumerate(cells):
            head = el("th", row, scope="rowgroup", rowspan=len(cells)) if index == 0 else None
            body.append(_line(head, cell, digits, table))
    groups = [
        el("tbody", [line for _, line in lines])
        for _, lines in groupby(zip((each.row for each in _cells(compared)), body, strict=True), lambda both: both[0])
    ]
    own = [each for each in compared if each.column in table.own]
    note = f" Not counted in the summary: {table.not_counted}." if table.not_counted else ""
    return el(
        "div",
        dumbbells(own, view.unit) if own else None,
        scrolled(
            f"{table.name} of the paper. {table.title}.{note}",
            el("thead", el("tr", (el("th", head, scope="col") if head else el("td") for head in heads))),
            *groups,
        ),
        class_="comparison",
    )


def _cells(compared: Sequence[Compared]) -> list[Compared]:
    """The first number of every cell."""
    return [next(cell) for _, cell in groupby(compared, lambda each: (each.row, each.column))]


def _line(head: Html | None, cell: Sequence[Compared], digits: int, table: PaperTable) -> Html:
    verdicts = list(dict.fromkeys(each.verdict for each in cell))
    own = cell[0].column in table.own
    return el(
        "tr",
        head,
        el("th", cell[0].column, scope="row"),
        el("td", " / ".join(spread(each.paper, each.paper_spread) for each in cell), class_="number"),
        el("td", _ours([each.best for each in cell], digits), class_="number strong"),
        el("td", _ours([each.protocol for each in cell], digits), class_="number"),
        el("td", _differences(cell, digits), class_="number"),
        el("td", [[" / " if index else None, badge(verdict)] for index, verdict in enumerate(verdicts)]),
        class_="own" if own else None,
    )


def _ours(numbers: Sequence[Number | None], digits: int) -> str:
    return " / ".join("–" if n is None else spread(n.mean, n.spread, digits) for n in numbers) if any(numbers) else "–"


def _differences(cell: Sequence[Compared], digits: int) -> str:
    values = [each.difference for each in cell]
    return (
        " / ".join("–" if value is None else signed(value, digits) for value in values)
        if any(value is not None for value in values)
        else "–"
    )


def own_table(view: View, cells: Mapping[tuple[str, str], Cell], caption: str) -> Html:
    """All that was measured for a view: rows and columns as the view has them."""
    rows, columns = list(dict.fromkeys(row for row, _ in cells)), list(dict.fromkeys(column for _, column in cells))
    return scrolled(
        caption,
        el("thead", el("tr", el("td"), (el("th", column, scope="col") for column in columns))),
        el(
            "tbody",
            (
                el(
                    "tr",
                    el("th", row, scope="row"),
                    (
                        el("td", cells[row, column].text() if (row, column) in cells else "–", class_="number")
                        for column in columns
                    ),
                )
                for row in rows
            ),
        ),
    )


def scrolled(caption: str, *content: Content, class_: str | None = None) -> Html:
    """A table that scrolls in its own box where the page is narrow."""
    table = el("table", el("caption", caption), *content, class_=class_)
    return el("div", table, class_="scroll", tabindex=0, role="region", aria_label=caption)
