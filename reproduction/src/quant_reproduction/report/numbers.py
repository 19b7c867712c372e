"""Tables, and the format of numbers, durations and verdicts in them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
from scipy.special import fdtri, stdtrit

from quant_reproduction.grid.jobs import unpacked

#: Marks that are readable without color.
MARKS = {"reproduced": "=", "better": "✓", "holds": "✓", "inconclusive": "≈", "does not apply": "–"}
MARKS |= {"worse": "✗", "does not hold": "✗", "not measured": "·", "baseline not reproduced": "·"}


@dataclass(frozen=True)
class Table:
    """Cells and notes in Markdown; a head that ends with # marks a column of numbers. Bars in a text do not break it.

    >>> print(Table(["", "n#"], [["a|b", "1"]]), end="")
    | | n |
    |---|---:|
    | a\\|b | 1 |
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()

    def __str__(self) -> str:
        marks = "".join("---:|" if head.endswith("#") else "---|" for head in self.heads)
        lines = [[head.removesuffix("#") for head in self.heads], *self.rows]
        safe = ([" ".join(text.split()).replace("|", "\\|") for text in line] for line in lines)
        head, *rows = ("|" + "".join(f" {text}".rstrip() + " |" for text in line) for line in safe)
        table = "\n".join([head, f"|{marks}", *rows, ""])
        return "\n".join([table, *(f"*{note}*\n" for note in self.notes)])


def link_records(*items: str) -> str:
    """Return links to the records of items."""
    return ", ".join(f"[{item}](records.md#{item})" for item in items)


def format_spread(mean: float | Decimal, deviation: float | Decimal | None, digits: int | None = None) -> str:
    """Return "mean ± deviation", by default with the paper's digits."""
    numbers = [mean] if deviation is None else [mean, deviation]
    return " ± ".join(str(each) if digits is None else f"{each:.{digits}f}" for each in numbers)


def format_number(value: float) -> str:
    """Return a number with three significant digits, or as an integer if it is one.

    >>> format_number(12000.0), format_number(-0.25), format_number(3.14159), format_number(999.7)
    ('12,000', '−0.25', '3.14', '1,000')
    """
    text = f"{value:,.0f}" if abs(value) >= 999.5 or float(value).is_integer() else f"{value:.3g}"
    return text.replace("-", "−")


def format_duration(seconds: float) -> str:
    """Return a duration in units that suit its size.

    >>> [format_duration(seconds) for seconds in (0.42, 17.2, 260, 7300, 90 * 3600)]
    ['0.4 s', '17 s', '4 min 20 s', '2 h 1 min', '90 h']
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds >= 10 * 3600:
        return f"{seconds / 3600:,.0f} h"
    whole = round(seconds)
    parts = {"h": whole // 3600, "min": whole % 3600 // 60, "s": whole % 60 if whole < 3600 else 0}
    return " ".join(f"{count} {unit}" for unit, count in parts.items() if count)


def plural(count: int, noun: str) -> str:
    """Return "1 cell" or "3 cells"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def join_words(words: Sequence[str]) -> str:
    """Return "a, b and c"."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def training_hardware(records: Iterable[Mapping[str, Any]]) -> str:
    """Describe the hardware behind the training times of records."""
    devices = {record["metrics"].get("device") for record in records} - {None}
    if devices == {"cuda"}:
        return "a shared GPU"
    return "one core or a shared GPU" if "cuda" in devices else "one core"


LEVEL = 0.95


class Interval(NamedTuple):
    """A mean and its 95 % interval, infinitely wide for a single seed."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        if not math.isfinite(self.low):
            return f"{format_number(self.mean)}, one seed"
        mean, low, high = map(format_number, self)
        return mean if self.low == self.high else f"{mean}, from {low} to {high}"


def interval(
    values: Sequence[float],
    min_variance: float = 0.0,
    printed: tuple[float, int] | None = None,
    level: float = LEVEL,
    overlap: float = 0.0,
    one_run: bool = False,
) -> Interval:
    """Return the interval of the mean of values, one per seed.

    ``min_variance`` is that of one value due to its instances. ``printed`` is the deviation and number
    of runs behind a printed mean that was subtracted; with ``one_run`` that is one run, with our
    spread. ``overlap`` is test shapes per training shape if seeds are random splits, whose values are
    correlated (the corrected resampled t-test of Nadeau and Bengio, Machine Learning 52, 2003).
    """
    mean, n = statistics.fmean(values), len(values)
    if n < 2:
        return Interval(mean, -math.inf, math.inf)
    own, freedom = max(statistics.variance(values), min_variance) * (1 / n + overlap + one_run), float(n - 1)
    theirs, runs = (printed[0] ** 2 / printed[1], printed[1]) if printed else (0.0, 0)
    if theirs > 0:  # Welch's degrees of freedom
        freedom = (own + theirs) ** 2 / (own**2 / (n - 1) + theirs**2 / (runs - 1))
    half = float(stdtrit(freedom, (1 + level) / 2)) * math.sqrt(own + theirs)
    return Interval(mean, mean - half, mean + half)


def binomial_variance(share: float, instances: int) -> float:
    """Return the variance of a share of instances, by Laplace's rule so that it is never 0.

    >>> round(binomial_variance(1.0, 98), 4)
    0.0001
    """
    p = (share * instances + 1) / (instances + 2)
    return p * (1 - p) / instances


def mean_variance(scores: Sequence[str], instances: int) -> float:
    """Return the variance of a mean, from packed scores; 0 if unknown."""
    return _variance([unpacked(text) for text in scores], instances)


def paired_variance(first: Sequence[str], second: Sequence[str], factor: float, instances: int) -> float:
    """Return the variance of the mean of first - factor * second, from packed scores.

    Records with different instances are paired at random.
    """
    both = [(unpacked(a), unpacked(b)) for a, b in zip(first, second, strict=True)]
    return _variance([a[: len(b)] - factor * b[: len(a)] for a, b in both], instances)


def _variance(by_seed: Sequence[np.ndarray[Any, Any]], instances: int) -> float:
    """Return the variance of a mean; 0 if no seed has two values."""
    found = [float(each.var(ddof=1)) for each in by_seed if len(each) > 1]
    return statistics.fmean(found) / instances if found else 0.0


def ratio_interval(first: float, n: int, second: float, m: int, level: float = LEVEL) -> Interval:
    """Return log2(second / first) for standard deviations of n and m values, with the interval of the F test.

    The F test assumes normal values: a single failed training run looks like a wide spread.

    >>> [round(number, 2) for number in ratio_interval(0.8, 3, 1.2, 3)]  # three runs determine a spread poorly
    [0.58, -2.06, 3.23]
    """
    if first <= 0 or second <= 0 or min(n, m) < 2:
        return Interval(0.0, -math.inf, math.inf)
    mean, tail = math.log2(second / first), (1 + level) / 2
    low, high = (0.5 * math.log2(float(fdtri(*each, tail))) for each in ((m - 1, n - 1), (n - 1, m - 1)))
    return Interval(mean, mean - low, mean + high)
