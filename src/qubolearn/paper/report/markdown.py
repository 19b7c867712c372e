"""The paper beside ours as Markdown, for README and docs: what the HTML page shows, of the same comparisons."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from qubolearn.paper.grid.entries import SEEDS
from qubolearn.paper.grid.paper import paper
from qubolearn.paper.report.claims import seeds_said
from qubolearn.paper.report.compare import by_row, view_of
from qubolearn.paper.report.summary import Report, gather
from qubolearn.paper.report.wording import VERDICT_MARKS, duration, times, trained_on

__all__ = ["PAPER_TABLES"]

PLURAL = {"holds": "hold", "does not hold": "do not hold"}


@lru_cache(maxsize=2)
def _report(results: Path) -> Report:
    return gather(results, quick=False, seeds=SEEDS)


def summary_table(results: Path) -> str:
    """How the whole compares with the paper."""
    report = _report(results)
    found = report.summary
    seconds, on = sum(record["seconds"] for record in report.records), trained_on(report.records)
    cells, claims = (
        ", ".join(f"{count} {PLURAL.get(what, what)}" for what, count in counted.items() if count)
        for counted in (found.cells, found.claims)
    )
    split = f"; for {found.split} of these not with every seed" if found.split else ""
    lines = [
        "| | |",
        "|---|---|",
        f"| numbers of the paper's own method, ours against them | {cells} |",
        f"| the paper's claims, on our numbers | {claims}{split} |",
        f"| {found.trainings} trainings that both did | {duration(3600 * found.paper_hours)} in the paper, "
        f"{duration(found.seconds)} here, each on {on}: {times(found.faster or 0)} times faster |",
        f"| all jobs, {SEEDS} seeds | {found.done} of {found.jobs} done; their times add up to {duration(seconds)} |",
    ]
    if found.grid:
        lines.append(f"| the same, as one command | {duration(found.grid.seconds)} on {found.grid.machine} |")
    return "\n".join(lines) + f"\n\n*{'; '.join(found.machines)}. Made by `qubolearn reproduce all`.*\n"


def times_table(results: Path) -> str:
    """The paper's hours of training beside ours."""
    report = _report(results)
    lines = [
        f"| | trainings | paper | ours, on {trained_on(report.records)} | times faster |",
        "|---|---:|---:|---:|---:|",
    ]
    for each in report.speeds:
        ours = (duration(each.seconds), times(each.ratio)) if each.ratio else ("–", "–")
        lines.append(
            f"| {each.problem} | {each.trainings} | {duration(3600 * each.paper_hours)} | {ours[0]} | {ours[1]} |"
        )
    return "\n".join(lines) + "\n"


def claims_table(results: Path) -> str:
    """Each claim of the paper, and whether it holds: in its own tables, under our recipe, under its own."""
    lines = ["| claim | paper's numbers | ours | ours, paper's protocol |", "|---|---|---|---|"]
    for checked in _report(results).claims:
        answers = (
            (checked.in_paper, None),
            (checked.in_best, checked.agreement("best")),
            (checked.in_protocol, checked.agreement("paper")),
        )
        marks = " | ".join(f"{VERDICT_MARKS[answer]} {answer}{seeds_said(seeds)}" for answer, seeds in answers)
        lines.append(f"| {checked.claim.text} ({checked.claim.paper}) | {marks} |")
    return "\n".join(lines) + "\n"


def paper_table(name: str) -> Callable[[Path], str]:
    """One table of the paper: its numbers, ours, and ours under the paper's protocol."""

    def table(results: Path) -> str:
        compared = [each for each in _report(results).compared if each.table.name == name]
        lines = ["| | | paper | ours | ours, paper's protocol | ours is |", "|---|---|---:|---:|---:|---|"]
        for row, of_row in by_row(compared, view_of(compared[0].table.view).unit).items():
            for line in of_row:
                texts = (row, line.column, line.paper, line.best, line.recipe, " / ".join(line.verdicts))
                lines.append(f"| {' | '.join(texts)} |")
        return "\n".join(lines) + "\n"

    return table


#: name of a marked table -> what makes it
PAPER_TABLES: dict[str, Callable[[Path], str]] = {
    "summary": summary_table,
    "times": times_table,
    "claims": claims_table,
    **{
        f"paper-{'-'.join(re.findall(r'[a-z0-9]+', each.name.lower()))}": paper_table(each.name)
        for each in paper().tables
    },
}
