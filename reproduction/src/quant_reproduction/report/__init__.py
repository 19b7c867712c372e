"""The report: every table and figure of the paper compared with ours, as one self-contained HTML file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from quant_reproduction.grid.jobs import Job
from quant_reproduction.grid.panels import check_figure
from quant_reproduction.report import couplings, drawings, tables
from quant_reproduction.report.summary import Report, Summary, gather
from quant_reproduction.report.text import MARKS, format_duration, plural
from qubolearn.errors import QubolearnError
from qubolearn.files import make_folder, write_output

__all__ = ["Report", "Summary", "gather", "page", "write_report"]

LINK = re.compile(r"\[([^\]]+)\]\(records\.md#([\w-]+)\)")


def write_report(results: Path, out: Path, quick: bool, seeds: int) -> Summary:
    """Write the page for a folder of results and return its summary."""
    report = gather(results, quick, seeds)
    make_folder(out.parent)
    write_output(out, page(report).encode())
    return report.summary


def page(report: Report) -> str:
    """Return the report as an HTML document."""
    templates = Environment(
        loader=PackageLoader("quant_reproduction.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.do"],
    )
    templates.filters |= {"inline": _inline, "duration": format_duration, "plural": plural}
    templates.globals |= {"tables": tables, "couplings": couplings, "draw": _draw}
    summary = report.summary
    return templates.get_template("page.html").render(report=report, summary=summary, summary_values=asdict(summary))


def _inline(text: str) -> Markup:
    """Convert inline Markdown to HTML: links to records, code, emphasis, and marks of verdicts."""
    if text in MARKS:
        return Markup('<span class="{}">{} {}</span>').format(text.replace(" ", "-"), MARKS[text], text)
    made = LINK.sub(r'<a href="#item-\2">\1</a>', str(escape(text)))
    made = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", made)  # other pages are not part of this file
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", re.sub(r"(^|\s)\*([^*]+)\*", r"\1<em>\2</em>", made)))


def _draw(job: Job, figure: Mapping[str, Any]) -> Markup:
    """Return a record's figure as SVG, or why it cannot be drawn."""
    where = f"{job.item}, {job.row}, {job.column}, seed {job.seed}"
    try:
        check_figure(figure)
        return drawings.inline_svg(drawings.draw_figure(figure), f"{figure['title']} {figure['note']} {where}")
    except QubolearnError as error:
        return Markup("<p>Not drawn: {} ({}).</p>").format(error, where)
    # damaged numbers and texts raise these
    except (ArithmeticError, AttributeError, LookupError, SyntaxError, TypeError, ValueError) as error:
        return Markup("<p>Not drawn: damaged record of {} ({}: {}).</p>").format(where, type(error).__name__, error)
