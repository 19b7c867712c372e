"""Records made again: which ones, and how far the new numbers are from the old ones.

A training carries every rounding on, and a GPU draws other random numbers than a CPU: made again on another machine, it
is one more seed of its cell. So numbers that differ are judged by the spread of that cell.
"""

from __future__ import annotations

import math
import random
import re
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from qubolearn.paper.grid.jobs import Job

__all__ = ["AGAIN", "MOST_SECONDS", "TOLERANCE", "Again", "Judged", "choose", "difference", "judge"]

#: Relative difference up to which numbers count as made again: machines and versions round differently.
TOLERANCE = 0.01
#: Records that would take longer here are not chosen, unless asked for.
MOST_SECONDS = 120.0
#: Numbers are compared relative to the larger one, but never to less than this: 1e-7 and 2e-7 degrees are both none.
SMALL = 1e-3
#: How sure the interval of a cell's spread is, for all numbers of a record together.
LEVEL = 0.99
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")

Again = Literal["equal", "close", "spread", "alone", "beyond", "failed"]
#: What became of a record that was made again.
AGAIN: Mapping[Again, str] = {
    "equal": "equal in all digits",
    "close": "within the tolerance",
    "spread": "within the spread of the cell's seeds and splits",
    "alone": "different, of a cell with one seed, which has no spread",
    "beyond": "beyond all that",
    "failed": "failed",
}


class Judged(NamedTuple):
    """What became of a record, and which of its numbers is the farthest off, relatively."""

    again: Again
    difference: float
    where: str


def choose(
    records: Mapping[Job, Mapping[str, Any]], count: int, seed: int, most_seconds: float, gpu: bool
) -> tuple[list[Job], Mapping[str, int]]:
    """So many jobs by chance, and how many were left out because they would take longer than ``most_seconds``.

    What ran on a GPU says nothing about its seconds on a CPU: without a ``gpu`` these follow from steps and bits.
    """
    from qubolearn.paper.grid.schedule import SECONDS_PER_STEP_AND_BIT, effort  # not at the top: it needs torch

    left_out, fit = Counter[str](), []
    for job, record in records.items():
        there = "cores, " in record["machine"]  # the GPU is named behind the cores
        training = record["metrics"].get("training_seconds", 0.0)  # by another job of its run, where that is longer
        seconds = effort(job) * SECONDS_PER_STEP_AND_BIT if there and not gpu else max(record["seconds"], training)
        if seconds > most_seconds:
            where = "on a GPU, and on a CPU would take" if there and not gpu else "and took"
            left_out[f"made {where} more than {most_seconds:g} s"] += 1
        else:
            fit.append(job)
    return random.Random(seed).sample(fit, min(count, len(fit))), left_out


def judge(old: Any, new: Any, seeds: Sequence[Any], tolerance: float = TOLERANCE) -> Judged:
    """How the metrics of a record that was made again compare with the old ones.

    Args:
        old, new: metrics.
        seeds: metrics of all seeds of the same cell, the old ones among them.
        tolerance: of the relative difference.

    The spread is Student's interval for one more seed, over the values of all seeds, and holds with 99 % for all
    numbers of a record together. Three seeds say little about a spread: their interval is wide.

    >>> seeds = [{"test": {"accuracy": value}} for value in (0.7, 0.75, 0.8, 0.72)]
    >>> [judge(seeds[0], {"test": {"accuracy": value}}, seeds).again for value in (0.7, 0.705, 0.82, 0.2)]
    ['equal', 'close', 'spread', 'beyond']
    """
    far, where = difference(old, new)
    if far <= tolerance:
        return Judged("close" if far else "equal", far, where if far else "")
    off = {name: far for name, far in _differences(old, new, "") if far > tolerance}
    if any(math.isinf(far) for far in off.values()):
        return Judged("beyond", far, where)
    if len(seeds) < 2:
        return Judged("alone", far, where)
    fresh, known = _scalars(new), [_scalars(each) for each in seeds]
    values = {name: [each[name] for each in known if name in each] for name in fresh if name in off}
    known_spread = {name: some for name, some in values.items() if len(some) > 1}  # a metric may be of one seed alone
    outside = [name for name, some in known_spread.items() if not _within(some, fresh, name)]
    if outside or not values:
        return Judged("beyond", far, where if not outside else max(outside, key=off.__getitem__))
    return Judged("spread" if len(known_spread) == len(values) else "alone", far, where)


def _within(values: Sequence[float], fresh: Mapping[str, float], name: str) -> bool:
    """Whether a number lies where one more seed would lie beside these values."""
    from scipy.special import stdtrit  # not at the top: help of commands waits for nothing

    n = len(values)
    quantile = float(stdtrit(n - 1, 1 - (1 - LEVEL) / 2 / len(fresh)))
    half = quantile * statistics.stdev(values) * math.sqrt(1 + 1 / n)
    return abs(fresh[name] - statistics.fmean(values)) <= half


def _scalars(metrics: Any, name: str = "") -> dict[str, float]:
    """All single numbers by name, but for times."""
    if isinstance(metrics, Mapping):
        parts = [_scalars(value, f"{name} {key}".strip()) for key, value in metrics.items() if _compared(key)]
        return {key: value for part in parts for key, value in part.items()}
    return {name: float(metrics)} if isinstance(metrics, (int, float)) else {}


def _compared(key: str) -> bool:
    return key not in ("device", "scores", "trained_together") and not key.endswith("seconds")


def difference(old: Any, new: Any) -> tuple[float, str]:
    """The largest relative difference between the metrics of two records, and the name of the number that has it.

    0 means equal digits. A list of numbers is compared relative to its largest one. Infinite where a metric is gone or
    a text has other words; times, devices, packed scores and metrics of the new record alone are not compared.

    >>> difference({"test": {"accuracy": 0.5, "seconds": 3}}, {"test": {"accuracy": 0.375, "seconds": 4, "more": 1}})
    (0.25, 'test accuracy')
    """
    return max(((far, name) for name, far in _differences(old, new, "")), default=(0.0, ""))


def _differences(old: Any, new: Any, name: str) -> Iterator[tuple[str, float]]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in old:
            if _compared(key):
                yield from _differences(old[key], new.get(key), f"{name} {key}".strip())
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        if all(isinstance(value, (int, float)) for value in (*old, *new)):
            yield name, _relative(old, new)
        else:
            for index, both in enumerate(zip(old, new, strict=True)):
                yield from _differences(*both, f"{name} {index}")
    elif isinstance(old, str) and isinstance(new, str) and NUMBER.sub("#", old) == NUMBER.sub("#", new):
        numbers = zip(*(map(float, NUMBER.findall(text)) for text in (old, new)), strict=True)
        yield name, max((_relative([a], [b]) for a, b in numbers), default=0.0)
    elif isinstance(old, (int, float)) and isinstance(new, (int, float)):
        yield name, _relative([old], [new])
    else:
        yield name, 0.0 if old == new else math.inf


def _relative(old: Sequence[float], new: Sequence[float]) -> float:
    largest = max((abs(value) for value in (*old, *new)), default=0.0)
    return max((abs(a - b) for a, b in zip(old, new, strict=True)), default=0.0) / max(largest, SMALL)
