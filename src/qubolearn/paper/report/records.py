"""Where a number comes from: the records behind each cell, with their files, command, commit, date and data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from qubolearn.paper.grid.entries import ENTRIES
from qubolearn.paper.grid.jobs import Job
from qubolearn.paper.grid.views import markdown_table
from qubolearn.paper.report.collect import Item

__all__ = ["Source", "item_of", "item_records", "item_sources"]


def item_of(view: str) -> str:
    """The item whose records a view shows."""
    return next(name for name, entry in ENTRIES.items() if view in {each.name for each in entry.views})


@dataclass(frozen=True)
class Source:
    """Records of one cell that were made by one command from one commit and the same data."""

    row: str
    column: str
    files: Mapping[int, str]  # seed -> file below the folder of results
    date: str
    commit: str
    code: str  # digest of the source
    command: str
    machine: str
    data: Mapping[str, str]  # file below QUBOLEARN_DATA -> the first digits of its digest


def item_sources(item: Item) -> list[Source]:
    """The sources of all cells of an item, in its order; a cell whose seeds were made apart has several."""
    found = [(outcome.job, outcome.record) for outcome in item.outcomes if outcome.record is not None]
    order = {cell: place for place, cell in enumerate(dict.fromkeys((job.row, job.column) for job, _ in found))}
    found.sort(key=lambda each: (order[each[0].row, each[0].column], str(_made(each[1]))))
    same = groupby(found, key=lambda each: ((each[0].row, each[0].column), _made(each[1])))
    return [_source(list(group)) for _, group in same]


def _made(record: Mapping[str, Any]) -> tuple[Any, ...]:
    said = [str(record.get(name, "")) for name in ("commit", "source", "command", "machine")]
    return (*said, str(record.get("date", ""))[:10], tuple(sorted(record.get("data", {}).items())))


def _source(group: Sequence[tuple[Job, Mapping[str, Any]]]) -> Source:
    job, record = group[0]
    commit, code, command, machine, date, data = _made(record)
    files = {each.seed: f"{each.item}/{each.filename}" for each, _ in group}
    digests = {name: str(digest)[:12] for name, digest in data}
    return Source(job.row, job.column, files, date, commit[:12], code, command, machine, digests)


def item_records(item: Item) -> str:
    """The sources of an item as Markdown, under its name."""
    lines = list(_lines(item))
    if not lines:
        return ""
    heads = ["row", "column", "records of seeds", "date", "commit", "source", "data", "machine", "command"]
    return f"## {item.name}\n\n{item.entry.title}.\n\n{markdown_table(heads, lines)}"


def _lines(item: Item) -> Iterator[Sequence[str]]:
    for each in item_sources(item):
        files = ", ".join(f"[{seed}](../results/{path})" for seed, path in sorted(each.files.items()))
        data = ", ".join(f"{name.rpartition('/')[2]} `{digest}`" for name, digest in each.data.items())
        codes = [f"`{text}`" if text else "–" for text in (each.commit, each.code)]
        command = f"`{each.command}`" if each.command else f"`qubolearn reproduce {item.name}`"
        yield each.row, each.column, files, each.date or "–", *codes, data or "–", each.machine, command
