"""The paper beside ours as Markdown, for README and docs: what the HTML page shows, of the same comparisons."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from qubolearn.paper.grid.entries import SEEDS
from qubolearn.paper.grid.paper import PROTOCOLS, paper
from qubolearn.paper.grid.views import markdown_table
from qubolearn.paper.report.bars import bars_table
from qubolearn.paper.report.claims import ANSWERS, SOURCES, interval_said
from qubolearn.paper.report.compare import by_row, counts_said, view_of
from qubolearn.paper.report.errata import errata_table
from qubolearn.paper.report.records import item_of, item_records
from qubolearn.paper.report.summary import Report, gather
from qubolearn.paper.report.wording import VERDICT_MARKS, duration, listed, many, times, trained_on

__all__ = ["PAPER_TABLES", "records_link"]

PLURAL = {"holds": "hold", "does not hold": "do not hold", "does not apply": "do not apply"}


@lru_cache(maxsize=2)
def _report(results: Path) -> Report:
    return gather(results, quick=False, seeds=SEEDS)


def summary_table(results: Path) -> str:
    """How the whole compares with the paper: three counts, and what is not the learnt QUBO's."""
    found = _report(results).summary
    heads = ["", "better#", "not told apart#", "worse#", "not measured#", "Diag better too#", "Pure better too#"]
    rows = []
    for protocol, name in PROTOCOLS.items():
        beaten = [f"{better} of {of}" for better, of in found.control[protocol].values()]
        rows.append((f"({protocol}) {name}", *map(str, found.cells[protocol].values()), *beaten))
    total = sum(found.cells["a"].values())
    ours = [f"{count} ({protocol})" for protocol, count in found.different.items()]
    note = (
        f"*{total} numbers of the paper's own method; better or worse where the 95 % interval over seeds leaves the "
        f"paper's number out: each is a test by itself, and of {total} that were equal some {round(0.05 * total)} "
        "would come out so by chance. The last two columns are the control: how often networks without couplings beat "
        f"the same numbers. Beside them stand {listed(ours)} different numbers of ours. {'; '.join(found.machines)}. "
        "Made by `qubolearn reproduce all`; "
        "[records](records.md) have files, commands, commits and data.*"
    )
    return f"{markdown_table(heads, rows)}\n{note}\n"


def facts_table(results: Path) -> str:
    """Claims, times and jobs in a line each."""
    report = _report(results)
    found, on = report.summary, trained_on(report.records)
    rows = []
    for protocol, claims in found.claims.items():
        said = ", ".join(f"{count} {PLURAL.get(what, what)}" for what, count in claims.items() if count)
        rows.append((f"the paper's claims under ({protocol}) {PROTOCOLS[protocol]}", said))  # type: ignore[index]
    for protocol, time in found.times.items():
        what = {"a": "the same training", "c": "what it takes to be better"}[protocol]
        said = f"{duration(3600 * time.paper_hours)} in the paper, {duration(time.seconds)} here, each on {on}"
        faster = f": {times(time.faster)} times faster" if time.faster else ""
        rows.append((f"{time.trainings} trainings, {what} ({protocol})", said + faster))
    seconds = sum(record["seconds"] for record in report.records)
    rows.append(("all jobs", f"{found.done} of {found.jobs} done; their times add up to {duration(seconds)}"))
    if found.grid:
        said = f"[{duration(found.grid.seconds)}](../results/grid.json) on {found.grid.where}"
        rows.append(("the same, as one command", said))
    return markdown_table(["", ""], rows)


def times_table(results: Path) -> str:
    """The paper's hours of training beside ours, for the same training and for ours."""
    report = _report(results)
    on = trained_on(report.records)
    heads = ["", "trainings#", "paper#", f"(a) the same, on {on}#", "times faster#", "(c) our recipe#", "times faster#"]
    rows = []
    for same, ours in zip(report.speeds["a"], report.speeds["c"], strict=True):
        cells = [(duration(each.seconds), times(each.ratio)) if each.ratio else ("–", "–") for each in (same, ours)]
        counts = dict.fromkeys((str(each.trainings), duration(3600 * each.paper_hours)) for each in (same, ours))
        trainings, hours = (" / ".join(both) for both in zip(*counts, strict=True))
        links = ", ".join(f"[{item}](records.md#{item})" for item in same.items)
        rows.append((same.problem, trainings, hours, *cells[0], *cells[1], links))
    note = (
        "Means over the seeds; (c) has the trainings whose numbers are better than the paper's. Where many were "
        "trained as one stack, each has its share of the stack's seconds. The paper names no machine, and trains graph "
        "matching through annealing, where (a) searches exactly."
    )
    return f"{markdown_table([*heads, 'records'], rows)}\n*{note}*\n"


def claims_table(results: Path) -> str:
    """Each claim of the paper, and whether it holds: in its own tables, under its protocol, under our recipe."""
    rows, report = [], _report(results)
    for checked in report.claims:
        marks = []
        for source in SOURCES:
            answer, effect = checked.found(source), checked.effect(source)
            said = f" ({interval_said(effect)})" if effect and answer in ANSWERS[:3] else ""
            words = "no numbers printed" if source == "printed" and answer == "does not apply" else answer
            marks.append(f"{VERDICT_MARKS[answer]} {words}{said}")
        note = f" *{checked.claim.note}*" if checked.claim.note else ""
        items = {item_of(pair.table.view) for pair in checked.pairs}
        links = ", ".join(f"[{item}](records.md#{item})" for item in sorted(items))
        rows.append((f"{checked.claim.text} ({checked.claim.paper}; records: {links}).{note}", *marks))
    note = "*The numbers behind each claim are on the page of `qubolearn report`.*"
    return f"{markdown_table(['claim', *SOURCES.values()], rows)}\n{note}\n"


def paper_table(name: str) -> Callable[[Path], str]:
    """One table of the paper: its numbers, ours under each protocol with the verdict, and what differs."""

    def table(results: Path) -> str:
        report = _report(results)
        source = report.paper.table(name)
        compared = report.of_table(source)
        heads = ["", "", "paper#"]
        for protocol, what in PROTOCOLS.items():
            heads += [f"({protocol}) {what}#", "is"]
        rows = []
        for row, of_row in by_row(compared, view_of(source.view).unit).items():
            for line in of_row:
                ours = [(line.ours[each], " / ".join(line.verdicts[each])) for each in PROTOCOLS]
                rows.append((row, line.column, line.paper, *(text for both in ours for text in both)))
        notes = [f"*{line}*\n" for line in [counts_said(compared)] if line]
        notes += [f"*What differs from the paper: {source.differs}*\n"] if source.differs else []
        notes += [f"*Random guessing: {report.guess(source)}*\n"] if source.guess else []
        return "\n".join([markdown_table(heads, rows), *notes, f"*{records_link(source.view)}*\n"])

    return table


def records_link(view: str) -> str:
    """To the records of the item that has a view."""
    return f"[Records](records.md#{item_of(view)}) of these numbers: file, command, commit, data."


def records_table(results: Path) -> str:
    """The records behind every number, item by item; before them, how many do not say by which commit."""
    report = _report(results)
    unknown = sum("commit" not in record for record in report.records)
    said = f"{many(len(report.records), 'record')}; {unknown or 'none'} without a commit.\n"
    return "\n".join(filter(None, [said, *map(item_records, report.items)]))


def data_table(results: Path) -> str:
    """Every dataset file: where it comes from, its licence and its digest."""
    text = files("qubolearn.paper.datasets").joinpath("manifest.json").read_text(encoding="utf-8")
    rows = []
    for each in json.loads(text)["files"]:
        rows.append((f"`{each['file']}`", each["what"], each["source"], each["licence"], f"`{each['sha256']}`"))
    return markdown_table(["file below QUBOLEARN_DATA", "what", "source", "licence", "SHA-256"], rows)


#: name of a marked table -> what makes it
PAPER_TABLES: dict[str, Callable[[Path], str]] = {
    "summary": summary_table,
    "facts": facts_table,
    "times": times_table,
    "claims": claims_table,
    "errata": errata_table(_report),
    "bars": bars_table(_report),
    "data": data_table,
    "records": records_table,
    **{
        f"paper-{'-'.join(re.findall(r'[a-z0-9]+', each.name.lower()))}": paper_table(each.name)
        for each in paper().tables
    },
}
