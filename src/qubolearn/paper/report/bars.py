"""The bars of the paper's charts, whose heights stand in its LaTeX, beside ours under its protocol."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from qubolearn.paper.grid.views import markdown_table
from qubolearn.paper.report.summary import Report

__all__ = ["bars_table", "series"]

Heights = Sequence[float]
#: Solvers of Figure 4a -> rows of ours; samplers of Figure 8 -> names of ours.
SOLVERS = {"ES": "exhaustive", "QA": "quantum (simulated)", "SA": "annealing (simulated)"}
SAMPLERS = {
    "SA, 1000 sweeps": "SA (neal), 1000 sweeps (simulated)",
    "SA, 10 sweeps": "SA (neal), 10 sweeps (simulated)",
    "SA, 2 sweeps": "SA (neal), 2 sweeps (simulated)",
    "dimod": "SA (dimod), 100 sweeps (simulated)",
    "QA": "simulated QA",
}


def series() -> Mapping[str, Mapping[str, list[float]]]:
    """The numbers behind the paper's bar charts: figure -> name -> heights."""
    text = files("qubolearn.paper.grid").joinpath("series.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    found.pop("source")
    return found


def bars_table(report: Callable[[Path], Report]) -> Callable[[Path], str]:
    """What the bars of Figures 4a, 4b and 8 say, and ours."""

    def table(results: Path) -> str:
        found = report(results)
        rows = [*_errors(found), *_wrong_bits(found), *_energies(found)]
        items = ", ".join(f"[{item}](records.md#{item})" for item in ("rotation", "training", "energies"))
        heads = ["", "", "the paper's bars#", "(a) ours#"]
        return f"{markdown_table(heads, rows)}\n*Records: {items}.*\n"

    return table


def _errors(report: Report) -> Iterator[Sequence[str]]:
    for name, row in SOLVERS.items():
        cell = report.found.get("rotation-solvers", {}).get((row, "(a) quant"))
        printed = sum(degrees * share for degrees, share in enumerate(series()["Figure 4a"][name]))
        yield (
            f"Figure 4a, {name}",
            "mean error, degrees, a bar at each whole one",
            f"{printed:.1f}",
            cell.text().partition(" / ")[0] if cell else "–",
        )


def _wrong_bits(report: Report) -> Iterator[Sequence[str]]:
    found = list(_metrics(report, "training", "k=5", "paper, 1e-5").get("training", {}).get("wrong_bits", {}).values())
    for place, epoch in enumerate((0, 245, 450)):
        for name, ours in {"unprojected": "as solved", "projected": "projected"}.items():
            printed = series()[f"Figure 4b, epoch {epoch}"].get(name)
            mine = found[place].get(ours) if len(found) == 3 else None
            if printed:
                what = f"Figure 4b, epoch {epoch}, {name}"
                every = sum(series()[f"Figure 4b, epoch {epoch}"]["unprojected"])  # projected bars are nine short of it
                yield what, "right, % of the training set", f"{100 * printed[0] / every:.1f}", _first(mine)
                yield what, "wrong bits, mean", _mean(printed), _mean(mine)


def _energies(report: Report) -> Iterator[Sequence[str]]:
    figure = _metrics(report, "energies", "k=5, 450 epochs at 1e-5", "samplers").get("energies", {}).get("figure", {})
    found = {each["name"]: each["counts"] for panel in figure.get("panels", ()) for each in panel["series"]}
    for name, ours in SAMPLERS.items():
        lowest = [height for height in series()["Figure 8"][name] if height][:1]
        rest = sum(series()["Figure 8"][name]) - sum(lowest)
        yield f"Figure 8, {name}", "reads in its own lowest bar, %", _first([*lowest, rest]), _first(found.get(ours))


def _metrics(report: Report, item: str, row: str, column: str) -> Mapping[str, Any]:
    """Of the first seed that has a record."""
    for outcome in (outcome for each in report.items if each.name == item for outcome in each.outcomes):
        if outcome.record is not None and (outcome.job.row, outcome.job.column) == (row, column):
            metrics: Mapping[str, Any] = outcome.record["metrics"]
            return metrics
    return {}


def _first(heights: Heights | None) -> str:
    return f"{100 * heights[0] / sum(heights):.1f}" if heights else "–"


def _mean(heights: Heights | None) -> str:
    return f"{sum(at * height for at, height in enumerate(heights)) / sum(heights):.2f}" if heights else "–"
