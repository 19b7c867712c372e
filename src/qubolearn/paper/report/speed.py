"""The paper's hours of training against our seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qubolearn.paper.grid.paper import Paper, Protocol, Times
from qubolearn.paper.report.compare import Compared
from qubolearn.paper.report.records import item_of

__all__ = ["Speed", "speeds", "total"]


@dataclass(frozen=True)
class Speed:
    """Trainings that fill the same cells: the paper's hours, and our seconds (mean over seeds), one run per cell."""

    problem: str
    where: str
    trainings: int  # cells that both trained
    paper_hours: float
    seconds: float
    items: tuple[str, ...] = ()  # that have the records

    @property
    def ratio(self) -> float | None:
        return 3600 * self.paper_hours / self.seconds if self.seconds else None


def speeds(paper: Paper, compared: Sequence[Compared], protocol: Protocol) -> list[Speed]:
    """One per problem for which the paper gives hours: (a) of the same training, (c) of what it takes to be better.

    Under (c) only cells count that are better than the paper's.
    """
    return [_speed(paper, times, compared, protocol) for times in paper.times]


def total(each: Sequence[Speed]) -> Speed:
    """All of them together."""
    return Speed(
        "all",
        "",
        sum(speed.trainings for speed in each),
        sum(speed.paper_hours for speed in each),
        sum(speed.seconds for speed in each),
    )


def _speed(paper: Paper, times: Times, compared: Sequence[Compared], protocol: Protocol) -> Speed:
    cells = []
    for each in compared:
        ours = each.numbers[protocol]
        first = each.table.name in times.tables and each.metric == each.table.metrics[0]
        wanted = first and each.column in times.hours and (protocol == "a" or each.verdict(protocol) == "better")
        if wanted and ours is not None and ours.seconds:
            cells.append((float(times.hours[each.column]), ours.seconds))
    hours, seconds = sum(hours for hours, _ in cells), sum(seconds for _, seconds in cells)
    items = tuple(dict.fromkeys(item_of(table.view) for table in map(paper.table, times.tables)))
    return Speed(times.problem, times.paper, len(cells), hours, seconds, items)
