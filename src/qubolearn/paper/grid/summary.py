"""Outcomes of an entry -> its tables, and its figures in words."""

from __future__ import annotations

from collections.abc import Sequence

from qubolearn.paper.grid.entries import Entry
from qubolearn.paper.grid.jobs import Outcome

__all__ = ["markdown"]


def markdown(entry: Entry, outcomes: Sequence[Outcome]) -> str:
    """All tables of an entry that have a cell, titled where there are several, and the titles of its figures."""
    parts = []
    for view in entry.views:
        if view.cells(outcomes):
            parts.append((f"{view.title}\n" if len(entry.views) > 1 else "") + view.markdown(outcomes))
    for record in (outcome.record for outcome in outcomes if outcome.record):
        figures = [record["metrics"][label]["figure"] for label in entry.figures if label in record["metrics"]]
        parts += [f"figure of {len(drawn['panels'])} panels: {drawn['title']}\n" for drawn in figures]
    return "\n".join(parts)
