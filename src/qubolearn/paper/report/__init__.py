"""The report: every table and figure of the paper beside ours, as one HTML file that needs nothing else."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

from qubolearn.files import make_folder, write_output
from qubolearn.paper.report.page import page
from qubolearn.paper.report.summary import Report, Summary, gather

__all__ = ["Report", "Summary", "gather", "page", "write_report"]


def write_report(results: Path, out: Path, quick: bool, seeds: int) -> Summary:
    """Write the page of the result files in a folder, and return what stands on top of it."""
    report = gather(results, quick, seeds)
    make_folder(out.parent)
    write_output(out, page(report, _way(results, out.parent)).encode())
    return report.summary


def _way(to: Path, start: Path) -> str:
    """From one folder to another, as a link; both may move together."""
    return quote(Path(os.path.relpath(to.absolute(), start.absolute())).as_posix())
