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
from typing import TYPE_CHECKING, Any, NamedTuple

from qubolearn.paper.grid.scores import unpacked

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

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
    """A mean, and where the true one lies with 95 % confidence; infinitely wide where there is one seed alone."""

    mean: float
    low: float
    high: float


def interval(
    values: Sequence[float],
    least_variance: float = 0.0,
    printed: tuple[float, int] | None = None,
    level: float = LEVEL,
    overlap: float = 0.0,
) -> Interval:
    """The interval of the mean of values, one for each seed.

    Args:
        values: at least one.
        least_variance: that of one value by the instances behind it, which three equal accuracies do not show.
        printed: standard deviation and number of the runs, or instances, behind a printed mean that is subtracted from
            all values.
        level: how sure the interval is.
        overlap: test shapes for each training shape, where seeds are random splits. Splits share training shapes, so
            that their values are alike, and the variance of their mean is not 1/n of that of one value but
            1/n + overlap (the corrected resampled t-test of Nadeau and Bengio, Machine Learning 52, 2003).

    >>> [round(number, 2) for number in interval([1.0, 2.0, 3.0])]
    [2.0, -0.48, 4.48]
    """
    from scipy.special import stdtrit  # not at the top: help of commands waits for nothing

    mean, n = statistics.fmean(values), len(values)
    if n < 2:
        return Interval(mean, -math.inf, math.inf)
    own, freedom = max(statistics.variance(values), least_variance) * (1 / n + overlap), float(n - 1)
    theirs, runs = (printed[0] ** 2 / printed[1], printed[1]) if printed else (0.0, 0)
    if theirs > 0:  # Welch's degrees of freedom
        freedom = (own + theirs) ** 2 / (own**2 / (n - 1) + theirs**2 / (runs - 1))
    half = float(stdtrit(freedom, (1 + level) / 2)) * math.sqrt(own + theirs)
    return Interval(mean, mean - half, mean + half)


def binomial_variance(share: float, instances: int) -> float:
    """The variance of a share of so many instances, by Laplace's rule where all or none are right.

    >>> round(binomial_variance(1.0, 98), 4)
    0.0001
    """
    p = (share * instances + 1) / (instances + 2)
    return p * (1 - p) / instances


def mean_variance(scores: Sequence[str], instances: int) -> float:
    """The variance of the mean of so many instances, from packed scores of the first of each seed; 0 if unknown."""
    return _variance([unpacked(text) for text in scores], instances)


def paired_variance(first: Sequence[str], second: Sequence[str], factor: float, instances: int) -> float:
    """The variance of the mean of first - factor * second over so many instances, from packed scores by seed.

    Where two records had different instances, these pairs are by chance, which is what such a difference has, too.
    """
    both = [(unpacked(a), unpacked(b)) for a, b in zip(first, second, strict=True)]
    return _variance([a[: len(b)] - factor * b[: len(a)] for a, b in both], instances)


def _variance(by_seed: Sequence[Array], instances: int) -> float:
    """Of a mean over so many instances, from values of single ones; 0 where no seed has two."""
    found = [float(each.var(ddof=1)) for each in by_seed if len(each) > 1]
    return statistics.fmean(found) / instances if found else 0.0


def ratio_interval(first: float, n: int, second: float, m: int, level: float = LEVEL) -> Interval:
    """How many times as large the second standard deviation is, of n and of m values, as a power of two.

    This is the F test, which takes values as normal: a single training that fails looks like a wide spread.

    >>> [round(number, 2) for number in ratio_interval(0.8, 3, 1.2, 3)]  # three runs say little about a spread
    [0.58, -2.06, 3.23]
    """
    from scipy.special import fdtri

    if first <= 0 or second <= 0 or min(n, m) < 2:
        return Interval(0.0, -math.inf, math.inf)
    mean, tail = math.log2(second / first), (1 + level) / 2
    low, high = (0.5 * math.log2(float(fdtri(*freedom, tail))) for freedom in ((m - 1, n - 1), (n - 1, m - 1)))
    return Interval(mean, mean - low, mean + high)
