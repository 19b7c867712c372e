"""``QuboClassifier`` with its defaults on multi-label data sets (datasets multilabel and structured), on the given test
rows and in cross-validation of the training rows, next to chains of logistic regressions, ensembles of ten of them and
powerset support vector machines. These choose C, gamma and scaling in three folds of the rows that train them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks import Record, in_processes, timed
from qubolearn.data.files import load_npz

SETS = ("emotions", "flags", "birds", "medical", "scene", "yeast", "enron")
FOLDS, INNER, RESAMPLES = 5, 3, 2000
PARTS, BASELINES = ("given split", "cross-validation"), ("chain", "chains", "powerset")
COSTS = tuple((10.0**k,) for k in range(-3, 2))  # C of the chains
MACHINES = tuple(product((1.0, 10.0, 100.0), (0.1, 0.3, 1.0, 3.0)))  # C and gamma
Array = np.ndarray[Any, Any]


def rows(name: str) -> list[Array]:
    """Return features and labels of the training and of the test rows."""
    capital = name == "scene"
    keys = [f"{key}_{part}" for part in ("train", "test") for key in ("XY" if capital else "xy")]
    path = Path(os.environ["QUBOLEARN_DATA"]) / ("structured" if capital else "multilabel") / f"{name}.npz"
    found = load_npz(path, {key: ("f" if key[0] in "xX" else "iu", 2) for key in keys})
    return [found[key] for key in keys]


def chains(X: Array, y: Array, T: Array, C: float, count: int = 1) -> Array:
    """Predict by chains of logistic regressions with averaged probabilities; a single one keeps the labels' order."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.multioutput import ClassifierChain

    one, order = LogisticRegression(C=C, solver="liblinear"), "random" if count > 1 else None
    found, varying = np.tile(y[0], (len(T), 1)), np.ptp(y, axis=0) > 0  # a logistic regression takes two classes
    several = [ClassifierChain(one, order=order, random_state=seed).fit(X, y[:, varying]) for seed in range(count)]
    found[:, varying] = np.mean([chain.predict_proba(T) for chain in several], 0) > 0.5
    return found


def powerset(X: Array, y: Array, T: Array, C: float, gamma: float) -> Array:
    """Predict by a support vector machine whose classes are the label sets of the training data."""
    from sklearn.svm import SVC

    sets, number = np.unique(y, axis=0, return_inverse=True)
    model = SVC(C=C, gamma=gamma / X.shape[1] / max(X.var(), 1e-9)).fit(X, number.ravel())
    return np.asarray(sets[model.predict(T)])


def folds(count: int, parts: int, seed: int) -> list[tuple[Array, Array]]:
    """Return training and test rows of each fold."""
    each = np.array_split(np.random.default_rng(seed).permutation(count), parts)
    return [(np.concatenate(each[:at] + each[at + 1 :]), each[at]) for at in range(parts)]


def scaled(X: Array, T: Array, binary: bool) -> list[Array]:
    """Standardize both by the mean and deviation of X; columns of 0 and 1 only if ``binary``."""
    kept = ~binary & ((X == 0) | (X == 1)).all(0)
    mean, scale = np.where(kept, 0, X.mean(0)), np.where(kept | (X.std(0) < 1e-6), 1, X.std(0))
    return [(each - mean) / scale for each in (X, T)]


def right(
    predict: Callable[..., Array], X: Array, y: Array, T: Array, z: Array, binary: bool, *options: float
) -> Array:
    A, B = scaled(X, T, binary)
    return np.asarray((predict(A, y, B, *options) == z).all(1))


def tuned(predict: Callable[..., Array], options: Sequence[tuple[float, ...]], X: Array, y: Array) -> tuple[Any, ...]:
    """Return the scaling and the options that are best in three folds."""

    def score(choice: tuple[Any, ...]) -> int:
        return sum(right(predict, X[a], y[a], X[b], y[b], *choice).sum() for a, b in folds(len(X), INNER, 1))

    scalings = (False, True) if ((X == 0) | (X == 1)).all(0).any() else (False,)
    return max(((binary, *some) for binary, some in product(scalings, options)), key=score)


def compared(X: Array, y: Array, T: Array, z: Array) -> dict[str, Array]:
    """Return which test rows each method has right, and the CPU seconds of our fit."""
    from qubolearn import QuboClassifier

    seconds, model = timed(lambda: QuboClassifier(random_state=0).fit(X, y), time.process_time)
    chain, machine = tuned(chains, COSTS, X, y), tuned(powerset, MACHINES, X, y)
    ways = ((chains, chain), (chains, (*chain, 10)), (powerset, machine))
    found = {name: right(way, X, y, T, z, *some) for name, (way, some) in zip(BASELINES, ways, strict=True)}
    return {**found, "qubo": np.asarray((model.predict(T) == z).all(1)), "seconds": np.array([seconds])}


def outcomes(task: tuple[str, int | None]) -> dict[str, Array]:
    """Return the outcomes of one data set: of a fold of its training rows, or of its test rows for None."""
    name, fold = task
    X, y, T, z = rows(name)
    a, b = folds(len(X), FOLDS, 0)[fold or 0]
    return compared(X, y, T, z) if fold is None else compared(X[a], y[a], X[b], y[b])


def interval(values: Sequence[Array]) -> list[float]:
    """Return the 95 % bootstrap interval, in percent, of the mean over data sets of the mean over rows."""
    rng = np.random.default_rng(0)
    drawn = [each[rng.integers(0, len(each), (RESAMPLES, len(each)))].mean(1) for each in values]
    return [round(100 * float(at), 1) for at in np.quantile(np.mean(drawn, 0), (0.025, 0.975))]


def labels(quick: bool) -> Iterator[Record]:
    """Yield a record per data set and part, then their means: exact match in percent, and differences with intervals.

    p is that of Wilcoxon's signed-rank test over the data sets, two-sided.
    """
    from scipy.stats import wilcoxon

    sets = ("flags",) if quick else SETS
    tasks = [*product(reversed(sets), (None, *range(FOLDS)))]  # the long ones first
    found = in_processes(outcomes, tasks, serial=quick)
    for part, name in product(PARTS, (*sets, "mean")):
        some = list[dict[str, Array]]()
        for each in sets if name == "mean" else (name,):
            pieces = [found[each, fold] for fold in ((None,) if part == PARTS[0] else range(FOLDS))]
            some.append({key: np.concatenate([piece[key] for piece in pieces]) for key in pieces[0]})
        record: Record = {"data": name, "part": part, "interval": interval([one["qubo"] for one in some])}
        means = {key: [100 * float(one[key].mean()) for one in some] for key in ("qubo", *BASELINES)}
        record |= {key: fmean(values) for key, values in means.items()}
        for key in BASELINES:
            record[f"minus {key}"] = interval([one["qubo"] * 1.0 - one[key] for one in some])
            record[f"p {key}"] = float(wilcoxon(means["qubo"], means[key]).pvalue) if len(some) > 1 else None
        yield {**record, "seconds": max(float(one["seconds"].max()) for one in some)}
