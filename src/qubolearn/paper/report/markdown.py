"""The paper beside ours as Markdown, for README and docs: what the HTML page shows, of the same comparisons."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from qubolearn.paper.grid.entries import SEEDS
from qubolearn.paper.grid.paper import paper
from qubolearn.paper.grid.views import markdown_table
from qubolearn.paper.report.claims import SOURCES, seeds_said
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
    rows = [
        ("numbers of the paper's own method, ours against them", cells),
        ("the paper's claims, on our numbers", f"{claims}{split}"),
        (
            f"{found.trainings} trainings that both did",
            f"{duration(3600 * found.paper_hours)} in the paper, {duration(found.seconds)} here, each on {on}: "
            f"{times(found.faster or 0)} times faster",
        ),
        (f"all jobs, {SEEDS} seeds", f"{found.done} of {found.jobs} done; their times add up to {duration(seconds)}"),
    ]
    if found.grid:
        rows.append(("the same, as one command", f"{duration(found.grid.seconds)} on {found.grid.machine}"))
    note = f"*{'; '.join(found.machines)}. Made by `qubolearn reproduce all`.*"
    return f"{markdown_table(['', ''], rows)}\n{note}\n"


def times_table(results: Path) -> str:
    """The paper's hours of training beside ours."""
    report = _report(results)
    heads = ["", "trainings#", "paper#", f"ours, on {trained_on(report.records)}#", "times faster#"]
    rows = []
    for each in report.speeds:
        ours = (duration(each.seconds), times(each.ratio)) if each.ratio else ("–", "–")
        rows.append((each.problem, str(each.trainings), duration(3600 * each.paper_hours), *ours))
    return markdown_table(heads, rows)


def claims_table(results: Path) -> str:
    """Each claim of the paper, and whether it holds: in its own tables, under our recipe, under its own."""
    rows = []
    for checked in _report(results).claims:
        answers = {source: checked.found(source) for source in SOURCES}
        marks = [f"{VERDICT_MARKS[a]} {a}{seeds_said(checked.agreement(source))}" for source, a in answers.items()]
        rows.append((f"{checked.claim.text} ({checked.claim.paper})", *marks))
    return markdown_table(["claim", "paper's numbers", "ours", "ours, paper's protocol"], rows)


def paper_table(name: str) -> Callable[[Path], str]:
    """One table of the paper: its numbers, ours, and ours under the paper's protocol."""

    def table(results: Path) -> str:
        compared = [each for each in _report(results).compared if each.table.name == name]
        rows = [
            (row, line.column, line.paper, line.best, line.recipe, " / ".join(line.verdicts))
            for row, of_row in by_row(compared, view_of(compared[0].table.view).unit).items()
            for line in of_row
        ]
        return markdown_table(["", "", "paper#", "ours#", "ours, paper's protocol#", "ours is"], rows)

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
