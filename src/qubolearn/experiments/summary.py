"""Stored records -> cells with their spread, as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from qubolearn.experiments.entries import Entry
from qubolearn.experiments.jobs import Outcome

__all__ = ["Cell", "cells", "markdown"]


@dataclass(frozen=True)
class Cell:
    """A value over seeds."""

    values: tuple[float, ...]
    seconds: float  # of training, mean over the seeds

    def text(self, percent: bool) -> str:
        values = [100 * value for value in self.values] if percent else list(self.values)
        spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
        return f"{statistics.mean(values):.2f}{spread}"


def cells(entry: Entry, outcomes: Sequence[Outcome]) -> dict[tuple[str, str], Cell]:
    """(row, column) -> cell, over the jobs that have a record."""
    grouped: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for outcome in outcomes:
        if outcome.record is not None:
            grouped.setdefault((outcome.job.row, outcome.job.column), []).append(outcome.record["metrics"])
    return {
        place: Cell(
            tuple(_at(metrics, entry.metric) for metrics in found),
            statistics.mean(metrics.get("training_seconds", 0.0) for metrics in found),
        )
        for place, found in grouped.items()
    }


def markdown(entry: Entry, outcomes: Sequence[Outcome]) -> str:
    """A table: one row per row of the entry, one column per column, mean ± deviation over seeds."""
    found = cells(entry, outcomes)
    rows, columns = list(dict.fromkeys(row for row, _ in found)), list(dict.fromkeys(column for _, column in found))
    lines = ["| | " + " | ".join(columns) + " |", "|---|" + "---:|" * len(columns)]
    for row in rows:
        texts = [found[row, column].text(entry.percent) if (row, column) in found else "–" for column in columns]
        lines.append(f"| {row} | " + " | ".join(texts) + " |")
    return "\n".join(lines) + "\n"


def _at(metrics: Any, path: str) -> float:
    for part in path.split("."):
        metrics = metrics[part]
    return float(metrics)
