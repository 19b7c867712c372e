"""The report: every table and figure of the paper beside ours, as one HTML file that needs nothing else."""

from __future__ import annotations

from pathlib import Path

from qubolearn.files import make_folder, write_output
from qubolearn.paper.report.page import page
from qubolearn.paper.report.summary import Report, Summary, gather

__all__ = ["Report", "Summary", "gather", "page", "write_report"]


def write_report(results: Path, out: Path, quick: bool, seeds: int) -> Summary:
    """Write the page of the result files in a folder, and return what stands on top of it."""
    report = gather(results, quick, seeds)
    make_folder(out.parent)
    write_output(out, page(report).encode())
    return report.summary
