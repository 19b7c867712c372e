"""The scikit-learn classifier: scikit-learn's own checks, and couplings that are seen to matter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("sklearn", reason="needs qubolearn[sklearn]")
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from qubolearn import solve
from qubolearn.estimator import QuboClassifier
from qubolearn.qubo import energies
from qubolearn.solvers import ExhaustiveSearch


@pytest.mark.filterwarnings("ignore")  # the checks warn of what they skip
def test_scikit_learns_own_checks_pass() -> None:
    check_estimator(QuboClassifier(epochs=20, learning_rate=2e-2, members=1, random_state=0))


def exclusive(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Three labels of which exactly one holds, and p does not show which: only couplings can represent that."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, 3)), np.eye(3, dtype=int)[rng.integers(0, 3, count)]


def test_couplings_learn_which_labels_go_together() -> None:
    X, y = exclusive(600, 0)
    fitted: dict[bool, Any] = {}
    for couplings in (True, False):
        fitted[couplings] = QuboClassifier(couplings=couplings, epochs=15, hidden=8, random_state=0).fit(X, y)
    coupled = fitted[True].predict(X)
    assert (coupled.sum(1) == 1).mean() > 0.99
    assert (fitted[False].predict(X).sum(1) == 1).mean() < 0.9
    assert abs(fitted[True].predict_proba(X).mean() - 1 / 3) < 0.05


def test_it_works_in_pipelines_and_searches() -> None:
    X, y = exclusive(120, 1)
    model = make_pipeline(StandardScaler(), QuboClassifier(epochs=3, hidden=8, random_state=0))
    search = GridSearchCV(model, {"quboclassifier__couplings": [True, False]}, cv=2).fit(X, y)
    assert search.best_params_["quboclassifier__couplings"] in (True, False)
    assert clone(model).get_params()["quboclassifier__hidden"] == 8


def test_predictions_are_minimizers_and_more_labels_than_sums_can_take_work() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), rng.integers(0, 2, (60, 18))
    model = QuboClassifier(epochs=2, hidden=8, solver=ExhaustiveSearch(), random_state=0).fit(X, y)
    A = torch.from_numpy(model.qubos(X[:5]))
    best = solve(A, ExhaustiveSearch(), 1).energies[:, 0]
    assert torch.allclose(energies(A, torch.from_numpy(model.predict(X[:5]))[:, None].double())[:, 0], best)
    assert model.predict_proba(X[:5]).shape == (5, 18)
