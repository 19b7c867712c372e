"""Tables made of stored records: which number of which record is in which row and column."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from quant_reproduction.grid.jobs import Job, Outcome
from qubolearn.errors import QubolearnError

__all__ = [
    "Cell",
    "Place",
    "Places",
    "Unit",
    "View",
    "by_job",
    "chosen_columns",
    "conditions",
    "markdown_table",
    "rows_and_columns",
]

Unit = Literal["%", "degrees", "qubits", "mean qubits", "count", "seconds"]
DIGITS: Mapping[str, int] = {"%": 2, "degrees": 2, "qubits": 0, "mean qubits": 1, "count": 0, "seconds": 2}


#: What the packed scores of a record are: problems are scored by one of these.
SCORED = ("accuracy", "degrees")


class Place(NamedTuple):
    """The place of a record's test in a table: the one under ``metrics[label]``, each metric's name with a suffix."""

    row: str
    column: str
    label: str
    suffix: str = ""


Places = Callable[[Job], Iterable[Place]]


def by_job(*labels: str) -> Places:
    """One cell per job, in its own row and column; of these tests, whichever it has."""
    return lambda job: [Place(job.row, job.column, label) for label in labels]


PLAIN = by_job("exhaustive")


def conditions(row: str, shown: Mapping[str, str], always: Collection[str] = (), only: Collection[str] = ()) -> Places:
    """One row per test condition, of the jobs of one row: shown name -> label of the test.

    Columns in ``always`` belong to every row of jobs: methods that know no network. Where ``only`` is given, there are
    no others.
    """

    def places(job: Job) -> Iterable[Place]:
        if (job.row != row and job.column not in always) or (only and job.column not in only):
            return []
        return [Place(name, job.column, label) for name, label in shown.items()]

    return places


def chosen_columns(shown: Mapping[str, tuple[str, str]]) -> Places:
    """Some columns of jobs under other names: column -> (shown name, label of the test)."""
    return lambda job: [Place(job.row, *shown[job.column])] if job.column in shown else []


@dataclass(frozen=True)
class Cell:
    """The content of one place of a table: values over seeds, for one or more metrics."""

    values: tuple[tuple[float, ...], ...]  # one tuple per metric
    unit: Unit
    records: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)  # behind the values, in their order
    instances: tuple[int, ...] = ()  # behind each value, if records have them
    scores: tuple[str, ...] = field(default=(), repr=False)  # packed, of the first metric; one per value, or none
    deviations: tuple[float, ...] = ()  # of the first metric over the instances; one per value, or none

    @property
    def shown(self) -> tuple[tuple[float, ...], ...]:
        """The values as a reader sees them: shares in percent."""
        scale = 100.0 if self.unit == "%" else 1.0
        return tuple(tuple(scale * value for value in values) for values in self.values)

    @property
    def seconds(self) -> float:
        """Seconds of training, mean over the seeds."""
        times = [record["metrics"].get("training_seconds", 0.0) for record in self.records]
        return statistics.mean(times) if times else 0.0

    def text(self) -> str:
        """Mean ± standard deviation over the seeds, metric by metric.

        >>> Cell(((0.98, 1.0),), "%").text(), Cell(((2.0,), (1.5,)), "degrees").text()
        ('99.00 ± 1.41', '2.00 / 1.50')
        """
        return " / ".join(_text(values, DIGITS[self.unit]) for values in self.shown)


def _text(values: Sequence[float], digits: int) -> str:
    spread = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.{digits}f}{spread}"


def rows_and_columns(cells: Iterable[tuple[str, str]]) -> tuple[list[str], list[str]]:
    """The names of a table's rows and columns, each once, in their order."""
    rows, columns = zip(*cells, strict=True)
    return list(dict.fromkeys(rows)), list(dict.fromkeys(columns))


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown; a # behind a head marks a column of numbers. Bars and line ends in a text do not break it.

    >>> print(markdown_table(["", "n#"], [["a|b", "1"]]), end="")
    | | n |
    |---|---:|
    | a\\|b | 1 |
    """
    marks = "".join("---:|" if head.endswith("#") else "---|" for head in heads)
    lines = [[head.removesuffix("#") for head in heads], *rows]
    safe = ([" ".join(text.split()).replace("|", "\\|") for text in line] for line in lines)
    first, *others = ("|" + "".join(f" {text} |" if text else " |" for text in line) + "\n" for line in safe)
    return "".join([first, f"|{marks}\n", *others])


class _Value(NamedTuple):
    """The values of one record for a cell."""

    record: Mapping[str, Any]
    values: tuple[float, ...]
    instances: int
    scores: str
    deviation: float | None


@dataclass(frozen=True)
class View:
    """A table of an entry. Its name is that of ``<!-- table: NAME -->``, and of the paper's numbers beside it."""

    name: str
    title: str
    metrics: tuple[str, ...]  # what one cell shows
    unit: Unit = "%"
    better: Literal["higher", "lower"] = "higher"
    places: Places = PLAIN
    deviation: str = ""  # the metric that holds the first one's standard deviation over instances

    def cells(self, outcomes: Sequence[Outcome]) -> dict[tuple[str, str], Cell]:
        """(row, column) -> cell, over the outcomes that have a record with these metrics."""
        found: dict[tuple[str, str], list[_Value]] = {}
        for job, record in [(outcome.job, outcome.record) for outcome in outcomes if outcome.record is not None]:
            for place in self.places(job):
                value = self._value(job, record, place)
                if value is not None:
                    found.setdefault((place.row, place.column), []).append(value)
        return {place: self._cell(all_of_it) for place, all_of_it in found.items()}

    def _value(self, job: Job, record: Mapping[str, Any], place: Place) -> _Value | None:
        """With what is known of the single instances; how sure a deviation over them is, records do not say."""
        test = record["metrics"].get(place.label, {})
        names = [name + place.suffix for name in self.metrics]
        try:
            if not all(name in test for name in names):
                return None
            values = tuple(float(test[name]) for name in names)
            if not all(map(math.isfinite, values)):
                raise ValueError(f"{' or '.join(names)} is not finite")
            instances = 0 if names[0] == self.deviation else int(test.get("instances", 0))
            scores = str(test.get("scores", "")) if names[0] in SCORED else ""
            known = self.deviation in test and not place.suffix
            return _Value(record, values, instances, scores, float(test[self.deviation]) if known else None)
        except (TypeError, ValueError, OverflowError) as error:
            raise QubolearnError(
                f"the record of {job.name} in {job.file} is damaged ({error}); delete its line and reproduce it"
            ) from error

    def _cell(self, found: Sequence[_Value]) -> Cell:
        records, values, counts, scores, deviations = zip(*found, strict=True)
        whole = scores if all(scores) else ()
        spreads = deviations if None not in deviations else ()
        return Cell(tuple(zip(*values, strict=True)), self.unit, records, tuple(filter(None, counts)), whole, spreads)

    def markdown(self, outcomes: Sequence[Outcome]) -> str:
        """The table, with a dash where nothing is."""
        found = self.cells(outcomes)
        rows, columns = rows_and_columns(found)
        return markdown_table(
            ["", *(f"{column}#" for column in columns)],
            ([row, *(found[row, c].text() if (row, c) in found else "–" for c in columns)] for row in rows),
        )
