"""Student's 95 % intervals over seeds, paired if two methods used the same seeds.

The seed is the unit: each seed has its own weights, training data, test instances and, if shapes or images are split,
its own split. Instances of one seed share a trained network, so they are not independent trials. They give a lower
bound on the variance over seeds instead. If records store the scores of single instances, that bound is computed from
the differences between two methods, instance by instance.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import fdtri, stdtrit

from quant_reproduction.grid.scores import unpacked

__all__ = ["LEVEL", "Interval", "binomial_variance", "interval", "mean_variance", "paired_variance", "ratio_interval"]

LEVEL = 0.95


class Interval(NamedTuple):
    """A mean and its 95 % confidence interval, which is infinitely wide for a single seed."""

    mean: float
    low: float
    high: float


def interval(
    values: Sequence[float],
    min_variance: float = 0.0,
    printed: tuple[float, int] | None = None,
    level: float = LEVEL,
    overlap: float = 0.0,
) -> Interval:
    """Return the interval of the mean of values, one per seed.

    Args:
        values: at least one.
        min_variance: the variance of one value due to its instances, which three equal accuracies do not show.
        printed: standard deviation and number of runs (or instances) behind a printed mean that was subtracted from
            all values.
        level: confidence level.
        overlap: test shapes per training shape if seeds are random splits, else 0. Splits share training shapes, so
            their values are correlated: the variance of their mean is 1/n + overlap of that of one value, not 1/n
            (the corrected resampled t-test of Nadeau and Bengio, Machine Learning 52, 2003).

    >>> [round(number, 2) for number in interval([1.0, 2.0, 3.0])]
    [2.0, -0.48, 4.48]
    """
    mean, n = statistics.fmean(values), len(values)
    if n < 2:
        return Interval(mean, -math.inf, math.inf)
    own, freedom = max(statistics.variance(values), min_variance) * (1 / n + overlap), float(n - 1)
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
    """Return the variance of a mean over ``instances``, from packed scores per seed; 0 if unknown."""
    return _variance([unpacked(text) for text in scores], instances)


def paired_variance(first: Sequence[str], second: Sequence[str], factor: float, instances: int) -> float:
    """Return the variance of the mean of first - factor * second over ``instances``, from packed scores per seed.

    Records with different instances are paired at random, which is also what their difference contains.
    """
    both = [(unpacked(a), unpacked(b)) for a, b in zip(first, second, strict=True)]
    return _variance([a[: len(b)] - factor * b[: len(a)] for a, b in both], instances)


def _variance(by_seed: Sequence[np.ndarray[Any, Any]], instances: int) -> float:
    """Return the variance of a mean over ``instances``; 0 if no seed has two values."""
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
    low, high = (0.5 * math.log2(float(fdtri(*freedom, tail))) for freedom in ((m - 1, n - 1), (n - 1, m - 1)))
    return Interval(mean, mean - low, mean + high)
