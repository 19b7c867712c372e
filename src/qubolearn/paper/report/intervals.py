"""Whether numbers can be told apart: Student's 95 % intervals over seeds, paired where two methods had the same seeds.

Every seed has weights, training data and test instances of its own, and where shapes or images are split a split of its
own, so that the spread over seeds covers all of these: the seed is the unit. Instances of one seed share a trained
network, and those of one split its shapes, so they are no independent trials; but the spread cannot be smaller than
what the instances behind a mean allow. Where records hold scores of single instances, that bound is taken from the
differences between two methods, instance by instance.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from qubolearn.paper.grid.scores import unpacked

__all__ = [
    "LEVEL",
    "Interval",
    "binomial_variance",
    "interval",
    "mean_variance",
    "paired_variance",
    "ratio_interval",
]

LEVEL = 0.95


class Interval(NamedTuple):
    """A mean, and where the true one lies with 95 % confidence; infinitely wide where one value says nothing."""

    mean: float
    low: float
    high: float


def interval(
    values: Sequence[float], least_variance: float = 0.0, printed: tuple[float, int] | None = None
) -> Interval:
    """The interval of the mean of values, one for each seed.

    Args:
        values: at least one.
        least_variance: that of one value by the instances behind it, which three equal accuracies do not show.
        printed: standard deviation and number of the runs of a printed mean that is subtracted from all values.

    >>> [round(number, 2) for number in interval([1.0, 2.0, 3.0])]
    [2.0, -0.48, 4.48]
    """
    from scipy.special import stdtrit  # not at the top: help of commands waits for nothing

    mean, n = statistics.fmean(values), len(values)
    spread = statistics.variance(values) if n > 1 else math.inf
    if n == 1 and least_variance:
        spread, n = least_variance, 1
        half = 1.96 * math.sqrt(least_variance)
        return Interval(mean, mean - half, mean + half)
    own, freedom = max(spread, least_variance) / n, float(n - 1)
    theirs = printed[0] ** 2 / printed[1] if printed else 0.0
    if theirs and own + theirs > 0 and n > 1:  # Welch's degrees of freedom
        freedom = (own + theirs) ** 2 / (own**2 / (n - 1) + theirs**2 / (printed[1] - 1))  # type: ignore[index]
    half = math.inf if n < 2 else float(stdtrit(freedom, (1 + LEVEL) / 2)) * math.sqrt(own + theirs)
    return Interval(mean, mean - half, mean + half)


def binomial_variance(share: float, instances: int) -> float:
    """The variance of a share of so many instances, by Laplace's rule where all or none are right.

    >>> round(binomial_variance(1.0, 98), 4)
    0.0001
    """
    p = (share * instances + 1) / (instances + 2)
    return p * (1 - p) / instances


def mean_variance(scores: Sequence[str], instances: int) -> float:
    """The variance of the mean of so many instances, from packed scores of the first ones of each seed."""
    each = [unpacked(text) for text in scores]
    return statistics.fmean(float(one.var(ddof=1)) for one in each if len(one) > 1) / instances if each else 0.0


def paired_variance(first: Sequence[str], second: Sequence[str], factor: float, instances: int) -> float:
    """The variance of the mean of first - factor * second over so many instances, from packed scores by seed.

    Where two records had different instances, these pairs are by chance, which is what such a difference has, too.
    """
    both = [(unpacked(a), unpacked(b)) for a, b in zip(first, second, strict=True)]
    cut = [(a[: len(b)], b[: len(a)]) for a, b in both]
    return statistics.fmean(float((a - factor * b).var(ddof=1)) for a, b in cut if len(a) > 1) / instances


def ratio_interval(first: float, n: int, second: float, m: int) -> Interval:
    """How many times as large the second standard deviation is, of n and of m values, as a power of two.

    >>> [round(number, 2) for number in ratio_interval(0.8, 3, 1.2, 3)]  # three runs say little about a spread
    [0.58, -2.06, 3.23]
    """
    from scipy.special import fdtri

    if first <= 0 or second <= 0 or min(n, m) < 2:
        return Interval(0.0, -math.inf, math.inf)
    mean, tail = math.log2(second / first), (1 + LEVEL) / 2
    low, high = (0.5 * math.log2(float(fdtri(*freedom, tail))) for freedom in ((m - 1, n - 1), (n - 1, m - 1)))
    return Interval(mean, mean - low, mean + high)
