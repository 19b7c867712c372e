"""Records made again: which ones, and how far the new numbers are from the old ones."""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from qubolearn.paper.grid.jobs import Job

__all__ = ["TOLERANCE", "choose", "difference"]

#: Relative difference up to which numbers count as made again: machines and versions round differently, and a training
#: carries every rounding on.
TOLERANCE = 0.01
#: Numbers are compared relative to the larger one, but never to less than this: 1e-7 and 2e-7 degrees are both none.
SMALL = 1e-3
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def choose(
    records: Mapping[Job, Mapping[str, Any]], count: int, seed: int, most_seconds: float, gpu: bool
) -> tuple[list[Job], Mapping[str, int]]:
    """So many jobs by chance, and how many were left out, by reason.

    Left out are jobs that took longer than ``most_seconds``, and, without a ``gpu``, those that ran on one: its random
    numbers are others than a CPU's.
    """
    left_out, fit = Counter[str](), []
    for job, record in records.items():
        if "cores, " in record["machine"] and not gpu:  # the GPU is named behind the cores
            left_out["made on a GPU, and none is here"] += 1
        elif record["seconds"] > most_seconds:
            left_out[f"took more than {most_seconds:g} s"] += 1
        else:
            fit.append(job)
    return random.Random(seed).sample(fit, min(count, len(fit))), left_out


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
            if key not in ("device", "scores") and not key.endswith("seconds"):
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
