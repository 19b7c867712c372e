"""Lines of the table "where couplings pay": what a benchmark says of a problem in one row, beside its records.

A benchmark that has a line there defines ``rows(records)``, and :data:`ROWS` names its module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from statistics import fmean, stdev
from typing import Any, TypedDict

__all__ = ["ROWS", "Number", "Published", "Row", "number", "row", "rows_of"]

#: name of a benchmark -> the module of this package whose ``rows(records)`` makes its lines
ROWS: Mapping[str, str] = {
    "couplings": "coupling_gains",
    "sudoku": "sudoku",
    "visual-sudoku": "visual_sudoku",
    "willow10": "willow",
    "scene": "scene",
    "snakes": "snakes",
}


class Number(TypedDict):
    """A mean over seeds or splits, their standard deviation, and how many there are."""

    mean: float
    spread: float
    n: int


class Published(TypedDict):
    """What others published, and where."""

    name: str
    value: float
    source: str


class Row(TypedDict):
    """One line: all numbers are in the unit that ``metric`` names, and None where there is none."""

    problem: str
    metric: str
    given: str  # what the model is told and does not learn
    splits_or_seeds: str  # what the spread is over
    quant: Number | None
    diag: Number | None
    pure: Number | None
    rival: Number | None
    rival_name: str
    published: list[Published]
    chip: dict[str, Any] | None


def number(values: Iterable[float]) -> Number | None:
    """Mean and standard deviation of the values; None where there are none.

    >>> number([1.0, 3.0]), number([])
    ({'mean': 2.0, 'spread': 1.4142135623730951, 'n': 2}, None)
    """
    found = [float(value) for value in values]
    if not found:
        return None
    return {"mean": fmean(found), "spread": stdev(found) if len(found) > 1 else 0.0, "n": len(found)}


def row(
    problem: str,
    metric: str,
    given: str,
    splits_or_seeds: str,
    records: Sequence[Mapping[str, Any]],
    *,
    rival_name: str = "",
    published: Sequence[Published] = (),
    chip: dict[str, Any] | None = None,
) -> Row:
    """A line over records of one seed or split each, whose keys quant, diag, pure and rival are numbers where there.

    >>> row("max-cut", "optimal, %", "edges", "2 seeds", [{"quant": 99.0}, {"quant": 100.0}])["quant"]["mean"]
    99.5
    """
    quant, diag, pure, rival = (
        number(record[name] for record in records if name in record) for name in ("quant", "diag", "pure", "rival")
    )
    return {
        "problem": problem,
        "metric": metric,
        "given": given,
        "splits_or_seeds": splits_or_seeds,
        "quant": quant,
        "diag": diag,
        "pure": pure,
        "rival": rival,
        "rival_name": rival_name,
        "published": list(published),
        "chip": chip,
    }


def rows_of(name: str, records: Sequence[Mapping[str, Any]]) -> list[Row] | None:
    """The lines of a benchmark's records; None where it has none in the table."""
    if name not in ROWS:
        return None
    made: list[Row] = import_module(f"qubolearn.benchmarks.{ROWS[name]}").rows(records)
    return made
