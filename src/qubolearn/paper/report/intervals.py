"""Whether numbers can be told apart: Student's 95 % intervals over seeds.

Every seed has weights, training data and test instances of its own, and where shapes or images are split a split of its
own, so that the spread over seeds covers all of these. What records hold of single instances is their mean alone.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["LEVEL", "Interval", "binomial_variance", "interval"]

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
