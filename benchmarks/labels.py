"""``QuboClassifier`` next to chains, ensembles of ten chains and powerset machines.

It has its defaults. Data sets are multilabel and structured: their test rows, and cross-
validation of the training rows. Peers choose C, gamma, scaling and a free intercept in
three folds of the rows that train them. An interrupted run resumes from build/labels.
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
from qubolearn.provenance import source_digest

SETS = ("emotions", "flags", "birds", "medical", "scene", "yeast", "enron")
FOLDS, INNER, RESAMPLES = 5, 3, 2000
PARTS, BASELINES = ("given split", "cross-validation"), ("chain", "chains", "powerset")
COSTS = tuple(product((1e-3, 1e-2, 0.1, 1.0, 10.0), (True, False)))  # C of the chains, free intercept
METHODS, FOUND = ("powerset", "chain", "qubo"), Path("build/labels")
MACHINES = tuple(product((1.0, 10.0, 100.0), (0.1, 0.3, 1.0, 3.0)))  # C and gamma
Array = np.ndarray[Any, Any]
Predict = Callable[..., Array]


def rows(name: str) -> list[Array]:
    """Return features and labels of training and test rows."""
    capital = name == "scene"
    keys = [f"{key}_{part}" for part in ("train", "test") for key in ("XY" if capital else "xy")]
    path = Path(os.environ["QUBOLEARN_DATA"]) / ("structured" if capital else "multilabel") / f"{name}.npz"
    found = load_npz(path, {key: ("f" if key[0] in "xX" else "iu", 2) for key in keys})
    return [found[key] for key in keys]


def chains(X: Array, y: Array, T: Array, C: float, free: bool, count: int = 1) -> Array:
    """Predict by chains of logistic regressions with averaged probabilities."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.multioutput import ClassifierChain

    one, order = LogisticRegression(C=C, fit_intercept=free, max_iter=300), "random" if count > 1 else None
    X, T = (each if free else np.c_[each, np.ones(len(each))] for each in (X, T))
    found, varying = np.tile(y[0], (len(T), 1)), np.ptp(y, axis=0) > 0  # it takes two classes
    several = [ClassifierChain(one, order=order, random_state=seed) for seed in range(count)]
    probabilities = [chain.fit(X, y[:, varying]).predict_proba(T) for chain in several]
    found[:, varying] = np.mean(probabilities, 0) > 0.5
    return found


def powerset(X: Array, y: Array, T: Array, C: float, gamma: float) -> Array:
    """Predict by a support vector machine over the label sets."""
    from sklearn.svm import SVC

    sets, number = np.unique(y, axis=0, return_inverse=True)
    model = SVC(C=C, gamma=gamma / X.shape[1] / max(X.var(), 1e-9)).fit(X, number.ravel())
    return np.asarray(sets[model.predict(T)])


def folds(count: int, parts: int, seed: int) -> list[tuple[Array, Array]]:
    each = np.array_split(np.random.default_rng(seed).permutation(count), parts)
    return [(np.concatenate(each[:at] + each[at + 1 :]), each[at]) for at in range(parts)]


def scaled(X: Array, T: Array, binary: bool) -> list[Array]:
    """Standardize by X; columns of 0 and 1 only if ``binary``."""
    kept = ~binary & ((X == 0) | (X == 1)).all(0)
    mean, scale = np.where(kept, 0, X.mean(0)), np.where(kept | (X.std(0) < 1e-6), 1, X.std(0))
    return [(each - mean) / scale for each in (X, T)]


def right(predict: Predict, X: Array, y: Array, T: Array, z: Array, binary: bool, *options: float) -> Array:
    A, B = scaled(X, T, binary)
    return np.asarray((predict(A, y, B, *options) == z).all(1))


def tuned(predict: Predict, options: Sequence[tuple[float, ...]], X: Array, y: Array) -> tuple[Any, ...]:
    """Return the scaling and options that are best in three folds."""

    def score(choice: tuple[Any, ...]) -> int:
        return sum(right(predict, X[a], y[a], X[b], y[b], *choice).sum() for a, b in folds(len(X), INNER, 1))

    scalings = (False, True) if ((X == 0) | (X == 1)).all(0).any() else (False,)
    return max(((binary, *some) for binary, some in product(scalings, options)), key=score)


def compared(method: str, X: Array, y: Array, T: Array, z: Array) -> dict[str, Any]:
    """Return which test rows are right, and the CPU seconds of our fit."""
    from qubolearn import QuboClassifier

    if method == "qubo":
        seconds, model = timed(lambda: QuboClassifier(random_state=0).fit(X, y), time.process_time)
        return {method: (model.predict(T) == z).all(1), "seconds": [seconds]}
    if method == "powerset":
        return {method: right(powerset, X, y, T, z, *tuned(powerset, MACHINES, X, y))}
    best = tuned(chains, COSTS, X, y)
    return {name: right(chains, X, y, T, z, *best, count) for name, count in (("chain", 1), ("chains", 10))}


def outcomes(method: str, name: str, fold: int | None) -> dict[str, Array]:
    """Return outcomes on a fold of the training rows, or for None the test rows."""
    path = FOUND / f"{name}-{fold}-{method}-{source_digest() if method == 'qubo' else 'baseline'}.npz"
    if not path.exists():
        X, y, T, z = rows(name)
        a, b = folds(len(X), FOLDS, 0)[fold or 0]
        part = (X, y, T, z) if fold is None else (X[a], y[a], X[b], y[b])
        FOUND.mkdir(parents=True, exist_ok=True)
        np.savez(unfinished := path.with_suffix(".part.npz"), **compared(method, *part))
        unfinished.rename(path)
    return dict(np.load(path))


def interval(values: Sequence[Array]) -> list[float]:
    """Return the 95 % bootstrap interval of the mean over data sets, in percent."""
    rng = np.random.default_rng(0)
    drawn = [each[rng.integers(0, len(each), (RESAMPLES, len(each)))].mean(1) for each in values]
    return [round(100 * float(at), 1) for at in np.quantile(np.mean(drawn, 0), (0.025, 0.975))]


def labels(quick: bool) -> Iterator[Record]:
    """Yield exact match per data set and part, their means, and differences.

    p is of Wilcoxon's two-sided signed-rank test over the data sets.
    """
    from scipy.stats import wilcoxon

    sets = ("flags",) if quick else SETS
    tasks = [*product(METHODS, reversed(sets), (None, *range(FOLDS)))]  # the long ones first
    found = in_processes(outcomes, tasks, serial=quick)
    for part, name in product(PARTS, (*sets, "mean")):
        some = list[dict[str, Array]]()
        for each in sets if name == "mean" else (name,):
            pieces = [
                found["powerset", each, fold] | found["chain", each, fold] | found["qubo", each, fold]
                for fold in ((None,) if part == PARTS[0] else range(FOLDS))
            ]
            some.append({key: np.concatenate([piece[key] for piece in pieces]) for key in pieces[0]})
        record: Record = {"data": name, "part": part, "interval": interval([one["qubo"] for one in some])}
        means = {key: [100 * float(one[key].mean()) for one in some] for key in ("qubo", *BASELINES)}
        record |= {key: fmean(values) for key, values in means.items()}
        for key in BASELINES:
            record[f"minus {key}"] = interval([one["qubo"] * 1.0 - one[key] for one in some])
            record[f"p {key}"] = float(wilcoxon(means["qubo"], means[key]).pvalue) if len(some) > 1 else None
        yield {**record, "seconds": max(float(one["seconds"].max()) for one in some)}
