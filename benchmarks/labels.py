"""``QuboClassifier`` with its defaults on multi-label data sets, next to a tuned chain of logistic regressions and a
powerset SVC. Baselines choose C, gamma and scaling on a fifth of the training rows; the test rows only report.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import Record
from qubolearn.data.files import load_npz

SETS = ("emotions", "flags", "birds", "medical", "scene", "yeast", "enron")
Array = np.ndarray[Any, Any]


def rows(name: str) -> list[Array]:
    """Return features and labels of the training and of the test rows."""
    capital = name == "scene"
    keys = [f"{key}_{part}" for part in ("train", "test") for key in ("XY" if capital else "xy")]
    path = Path(os.environ["QUBOLEARN_DATA"]) / ("structured" if capital else "multilabel") / f"{name}.npz"
    found = load_npz(path, {key: ("f" if key[0] in "xX" else "iu", 2) for key in keys})
    return [found[key] for key in keys]


def chain(C: float) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.multioutput import ClassifierChain

    return ClassifierChain(LogisticRegression(C=C, max_iter=300), random_state=0)


class Powerset:
    """A support vector machine whose classes are the label sets of the training data."""

    def __init__(self, C: float, gamma: float) -> None:
        self.C, self.gamma = C, gamma

    def fit(self, X: Array, y: Array) -> Powerset:
        from sklearn.svm import SVC

        self.sets, number = np.unique(y, axis=0, return_inverse=True)
        self.model = SVC(C=self.C, gamma=self.gamma / X.shape[1] / max(X.var(), 1e-9)).fit(X, number.ravel())
        return self

    def predict(self, X: Array) -> Array:
        return np.asarray(self.sets[self.model.predict(X)])


def right(model: Any, X: Array, y: Array) -> float:
    return 100 * float((model.predict(X) == y).all(1).mean())


def tuned(make: Callable[..., Any], options: list[tuple[float, ...]], X: Array, y: Array, T: Array, z: Array) -> float:
    """Return the score on test rows of the options and the scaling that are best on a fifth of the training rows."""
    scale = np.where(X.std(0) > 1e-6, X.std(0), 1.0)
    y, cut, scored = y.copy(), 4 * len(X) // 5, list[tuple[float, Any, bool]]()
    order = np.random.default_rng(0).permutation(len(X))
    a, b = order[:cut], order[cut:]
    for part in (a, order):  # a logistic regression takes two classes
        for label in np.flatnonzero(np.ptp(y[part], axis=0) == 0):
            y[part[0], label] = 1 - y[part[0], label]
    for option, scaled in product(options, (True, False)):
        Z = (X - X.mean(0)) / scale if scaled else X
        scored.append((right(make(*option).fit(Z[a], y[a]), Z[b], y[b]), option, scaled))
    _, option, scaled = max(scored, key=lambda each: each[0])
    Z, W = ((each - X.mean(0)) / scale if scaled else each for each in (X, T))
    return right(make(*option).fit(Z, y), W, z)


def labels(quick: bool) -> Iterator[Record]:
    """Yield a record per data set: exact match on the given test rows, in percent, and CPU seconds of a fit."""
    from qubolearn import QuboClassifier

    for name in SETS[:1] if quick else SETS:
        X, y, T, z = rows(name)
        began = time.process_time()
        model = QuboClassifier(random_state=0).fit(X, y)
        seconds = time.process_time() - began
        grid = [(C, gamma) for C in (1.0, 10.0) for gamma in (0.3, 1.0)]
        chained = tuned(chain, [(10.0**k,) for k in range(-3, 2)], X, y, T, z)
        found = {"right": right(model, T, z), "chain": chained, "powerset": tuned(Powerset, grid, X, y, T, z)}
        yield {"data": name, "labels": y.shape[1], **found, "seconds": seconds}
