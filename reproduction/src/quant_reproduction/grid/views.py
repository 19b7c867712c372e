"""Entries of the grid, and the tables made of their records."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, NamedTuple

from quant_reproduction.grid.jobs import Job, Outcome
from qubolearn.errors import QubolearnError

Unit = Literal["%", "degrees", "qubits", "mean qubits", "count", "seconds"]
DIGITS: Mapping[str, int] = {"%": 2, "degrees": 2, "qubits": 0, "mean qubits": 1, "count": 0, "seconds": 2}


#: What the packed scores of a record are.
SCORED = ("accuracy", "degrees")


class Place(NamedTuple):
    """The place of ``metrics[label]`` in a table; names have a suffix."""

    row: str
    column: str
    label: str
    suffix: str = ""


Places = Callable[[Job], Iterable[Place]]


def by_job(*labels: str) -> Places:
    """Return a rule that shows each job in one cell, by the first of these tests that it has."""
    return lambda job: [Place(job.row, job.column, label) for label in labels]


PLAIN = by_job("exhaustive")


def conditions(
    row: str, shown: Mapping[str, str], always: Collection[str] = (), only: Collection[str] = ()
) -> Places:
    """Return a rule that shows one row per test condition of one row, and of ``always``."""

    def places(job: Job) -> Iterable[Place]:
        if (job.row != row and job.column not in always) or (only and job.column not in only):
            return []
        return [Place(name, job.column, label) for name, label in shown.items()]

    return places


@dataclass(frozen=True)
class Cell:
    """The content of a place: values over seeds, by metric."""

    values: tuple[tuple[float, ...], ...]  # one tuple per metric
    unit: Unit
    records: tuple[Mapping[str, Any], ...] = ()  # behind the values, in their order
    instances: tuple[int, ...] = ()  # behind each value, if records have them
    scores: tuple[str, ...] = ()  # packed, of the first metric
    deviations: tuple[float, ...] = ()  # of the first metric over instances

    @property
    def shown(self) -> tuple[tuple[float, ...], ...]:
        """The values as a reader sees them: shares in percent."""
        scale = 100.0 if self.unit == "%" else 1.0
        return tuple(tuple(scale * value for value in values) for values in self.values)

    def text(self) -> str:
        """Return mean ± standard deviation over the seeds."""
        return " / ".join(_text(values, DIGITS[self.unit]) for values in self.shown)


def _text(values: Sequence[float], digits: int) -> str:
    spread = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.{digits}f}{spread}"


#: A record, and its values, instances, packed scores and deviation for a cell.
_Value = tuple[Mapping[str, Any], tuple[float, ...], int, str, float | None]


@dataclass(frozen=True)
class View:
    """A table of an entry, named as in ``<!-- table: NAME -->``."""

    name: str
    title: str
    metrics: tuple[str, ...]  # what one cell shows
    unit: Unit = "%"
    better: Literal["higher", "lower"] = "higher"
    places: Places = PLAIN
    deviation: str = ""  # the metric with the first one's deviation

    def cells(self, outcomes: Sequence[Outcome]) -> dict[tuple[str, str], Cell]:
        """Return cells by (row, column), of records with these metrics."""
        found: dict[tuple[str, str], list[_Value]] = {}
        for outcome in (each for each in outcomes if each.record is not None):
            for place in self.places(outcome.job):
                value = self._value(outcome.job, outcome.record or {}, place)
                if value is not None:
                    found.setdefault((place.row, place.column), []).append(value)
        return {place: self._cell(all_of_it) for place, all_of_it in found.items()}

    def _value(self, job: Job, record: Mapping[str, Any], place: Place) -> _Value | None:
        """Return a record's values with those of single instances."""
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
            return record, values, instances, scores, float(test[self.deviation]) if known else None
        except (TypeError, ValueError, OverflowError) as error:
            raise QubolearnError(
                f"the record of {job.name} in {job.item}.jsonl is damaged ({error}); delete its line and reproduce it"
            ) from error

    def _cell(self, found: Sequence[_Value]) -> Cell:
        records, by_record, counts, scores, deviations = zip(*found, strict=True)
        values, instances = tuple(zip(*by_record, strict=True)), tuple(filter(None, counts))
        spreads = deviations if None not in deviations else ()
        return Cell(values, self.unit, records, instances, scores if all(scores) else (), spreads)


#: Seeds of every cell of a full run, and of those that split shapes or images.
SEEDS, SPLITS = 3, 5
TEN = 10  # if a training run takes under 30 seconds, of (a) and (r)
#: The paper's methods.
METHODS = ("quant", "diag", "pure")
#: Tasks that shorten themselves.
LEARNED = ("sudoku", "visual-sudoku", "willow10", "scene", "snakes")


@dataclass(frozen=True)
class Entry:
    """One item: its cells, and the tables and figures made of them."""

    title: str
    paper: str  # "Table 1a", "Figure 5b"; "" if beyond the paper
    cells: Sequence[Job]  # of the full grid, at seed 0
    views: tuple[View, ...] = ()
    figures: tuple[str, ...] = ()  # labels in a record's metrics that hold a figure
    data: str = ""  # the datasets that it needs: folders in QUBOLEARN_DATA
    one_seed: bool = False  # as of all figures
    splits: int = 0  # seeds of a full run, if every seed is a split
    more: Mapping[str, int] = field(default_factory=dict)  # column, or "row | column" -> more seeds
    ten: str = "-"  # trained columns that begin with this have ten seeds
    once: Sequence[Job] = ()  # cells that are the same for every seed
    generated: bool = False  # a quick run generates its data
    quick_rows: tuple[str, ...] = ()  # of a quick run; empty for all

    def jobs(self, seeds: int, quick: bool) -> list[Job]:
        """Return every cell for every seed; a quick run has fewer."""
        cells = [shortened(each) for each in self.cells if each.row in (self.quick_rows or [each.row])]
        made = [] if quick else [*self.once]
        for each in cells if quick else self.cells:
            own = SPLITS if each.options.get("problem", {}).get("split_seed", 0) > 0 else 0
            ten = TEN if each.column.startswith(self.ten) and "protocol" in each.options else 0
            named = self.more.get(f"{each.row} | {each.column}", self.more.get(each.column))
            splits = named or ten or self.splits or own
            more = splits if splits and seeds >= SEEDS else seeds
            made += [of_seed(each, seed) for seed in range(1 if self.one_seed or self.figures else more)]
        return made

    def needs(self, quick: bool) -> str:
        """Return the datasets that a run needs, or ""."""
        return "" if quick and self.generated else self.data


accuracy = partial(View, metrics=("accuracy",))


def cell(item: str, row: str, column: str, task: str = "train", **options: Any) -> Job:
    """Return one cell of a table."""
    return Job(item, row, column, 0, task, options)


def of_seed(job: Job, seed: int) -> Job:
    """Return a cell's job for another seed, and its split."""
    options = dict(job.options)
    if seed and options.get("problem", {}).get("split_seed", 0):  # 0 is one split for all
        options["problem"] = {**options["problem"], "split_seed": options["problem"]["split_seed"] + seed}
    return replace(job, seed=seed, options=options)


def shortened(job: Job) -> Job:
    """Return a short version of a job: tens of steps, every fourth test."""
    options = dict(job.options)
    if "problem" in options:  # a smaller pool to draw from
        small = {"pointset": {"rotations": 10}, "rotation": {"draws": 2}}.get(options["problem"]["name"], {})
        options["problem"] = {**options["problem"], **small}
    if "protocol" in options:
        slow = "quantum" in options["overrides"].get("solver", "")
        short = {"epochs": 1, "instances": 64} if slow else {"epochs": 3, "instances": 1410}
        options["overrides"] = {**options["overrides"], **short, "validation": 20}
    if job.task in LEARNED:
        options["quick"] = True
    if job.task.startswith("released"):
        options["few"] = 8
    if "tests" in options:
        few = [{**test, "instances": 20} if "instances" in test else test for test in options["tests"]]
        options["tests"] = few[::4]
    if "instances" in options or job.task == "baseline":
        options["instances"] = {"qgm": 4, "second-best": 1}.get(job.task, 100)
    if "candidates" in options:
        options["candidates"] = dict(list(options["candidates"].items())[:2])
    if "open_instances" in options:
        options["open_instances"] = 2
    if "solvers" in options:
        options["solvers"] = _fewer_reads(options["solvers"])
    return replace(job, options=options)


def _fewer_reads(solvers: Any) -> Any:
    if isinstance(solvers, str):
        return solvers.replace("reads=1000", "reads=100")
    if isinstance(solvers, Mapping):
        return {name: _fewer_reads(spec) for name, spec in solvers.items()}
    return [*map(_fewer_reads, solvers)]
