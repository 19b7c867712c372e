"""The whole page: one HTML file with everything in it, that loads nothing and runs from disk.

What it says stands in ``templates/``; every text from a record is escaped there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from qubolearn.errors import QubolearnError, missing_extra
from qubolearn.paper.grid.panels import check_figure
from qubolearn.paper.grid.paper import PROTOCOLS
from qubolearn.paper.grid.views import rows_and_columns
from qubolearn.paper.report import claims, compare, couplings_pay, drawings, wording
from qubolearn.paper.report.records import item_sources
from qubolearn.paper.report.speed import total
from qubolearn.paper.report.summary import Report

__all__ = ["page"]

WORDS = (
    *(
        claims.sources,
        compare.by_row,
        compare.counts_said,
        drawings.dumbbells,
        item_sources,
        rows_and_columns,
        total,
    ),
    *(couplings_pay.pay, couplings_pay.published, couplings_pay.chip_cells),
    *(wording.duration, wording.listed, wording.many, wording.times, wording.trained_on),
)


class Group(NamedTuple):
    """Panels of a figure that stand in a row."""

    pictures: list[tuple[str, Markup]]  # title and SVG
    colours: Mapping[str, str]  # what they mean
    small: bool


def page(report: Report, folder: str = ".") -> str:
    """The report as a document; without matplotlib it says that its figures are missing, and shows its tables.

    Names of records lead to their files below ``folder``, as the page finds it.
    """
    templates = Environment(
        loader=PackageLoader("qubolearn.paper.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.do"],
    )
    templates.globals |= {word.__name__: word for word in WORDS}
    templates.globals |= {"drawn": drawn, "marks": wording.VERDICT_MARKS, "protocols": PROTOCOLS}
    templates.globals |= {"chip_heads": couplings_pay.CHIP_HEADS, "pay_sources": couplings_pay.SOURCES}
    summary = report.summary
    return templates.get_template("page.html").render(
        report=report, folder=folder, summary=summary, summary_values=asdict(summary), no_drawings=no_drawings()
    )


def drawn(figure: Mapping[str, Any]) -> tuple[list[Group], str]:
    """The groups of a record's figure, or why it cannot be drawn: a kind that this version lacks, a damaged record."""
    try:
        check_figure(figure)
        groups, colours = [], drawings.colours_by_kind(figure["panels"])
        for panels in drawings.grouped(figure["panels"]):
            kind = panels[0]["kind"]
            pictures = [(panel["title"], drawings.panel_svg(panel, colours[kind])) for panel in panels]
            groups.append(Group(pictures, colours[kind], kind in drawings.SQUARE))
    except QubolearnError as error:
        return [], str(error)
    # what damaged numbers and texts end in; SyntaxError is that of characters which XML does not have
    except (ArithmeticError, AttributeError, LookupError, SyntaxError, TypeError, ValueError) as error:
        return [], f"the record is damaged ({type(error).__name__}: {error})"
    return groups, ""


def no_drawings() -> str:
    """What is missing for figures; "" where nothing is."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        return str(missing_extra("drawing", "plots"))
    return ""
