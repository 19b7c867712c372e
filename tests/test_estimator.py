"""The scikit-learn classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("sklearn", reason="needs qubolearn[sklearn]")
from sklearn.base import clone
from sklearn.datasets import make_multilabel_classification
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from qubolearn import solve
from qubolearn.chips.topologies import topology
from qubolearn.errors import QubolearnError
from qubolearn.estimator import QuboClassifier, SeenSets
from qubolearn.qubo import energies
from qubolearn.solvers import ExhaustiveSearch


@pytest.mark.filterwarnings("ignore")  # the checks warn of what they skip
def test_scikit_learns_own_checks_pass() -> None:
    check_estimator(QuboClassifier(max_iter=15, random_state=0))


def exclusive(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return three labels of which one holds, at random."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, 3)), np.eye(3, dtype=int)[rng.integers(0, 3, count)]


def test_couplings_learn_which_labels_go_together() -> None:
    X, y = exclusive(600, 0)
    fitted: dict[bool, Any] = {}
    for couplings in (True, False):
        fitted[couplings] = QuboClassifier(couplings=couplings, random_state=0).fit(X, y)
    coupled = fitted[True].predict(X)
    assert (coupled.sum(1) == 1).mean() > 0.99
    assert (fitted[False].predict(X).sum(1) == 1).mean() < 0.9
    assert abs(fitted[True].predict_proba(X).mean() - 1 / 3) < 0.05


def test_it_works_in_pipelines_and_searches() -> None:
    X, y = exclusive(120, 1)
    model = make_pipeline(StandardScaler(), QuboClassifier(max_iter=5, random_state=0))
    search = GridSearchCV(model, {"quboclassifier__couplings": [True, False]}, cv=2).fit(X, y)
    assert search.best_params_["quboclassifier__couplings"] in (True, False)
    assert clone(model).get_params()["quboclassifier__max_iter"] == 5
    assert cross_val_score(model, X, y, cv=3).mean() > 0.1  # one label set of three


def test_data_frames_are_accepted_and_checked_by_name() -> None:
    pandas = pytest.importorskip("pandas")
    X, y = exclusive(60, 2)
    frame, labels = pandas.DataFrame(X, columns=["a", "b", "c"]), pandas.DataFrame(y, columns=["u", "v", "w"])
    model = QuboClassifier(max_iter=5, random_state=0).fit(frame, labels)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    plain = QuboClassifier(max_iter=5, random_state=0).fit(X, y)
    assert np.array_equal(model.predict(frame), plain.predict(X))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["b", "a", "c"]])


@pytest.mark.parametrize("bits", [5, 20])
@pytest.mark.parametrize("layers", [1, 2])
def test_labels_of_unseen_samples_are_predicted(bits: int, layers: int) -> None:
    X, y = make_multilabel_classification(500, 12, n_classes=bits, n_labels=2, random_state=0)
    model = QuboClassifier(layers=layers, random_state=0).fit(X[:350], y[:350])
    constant = max((y[350:] == row).all(1).mean() for row in np.unique(y[:350], axis=0))
    assert model.score(X[350:], y[350:]) > 1.5 * constant
    proba = model.predict_proba(X[350:])
    log_loss = -np.log(np.where(y[350:] == 1, proba, 1 - proba).clip(1e-9)).mean()
    share = y[:350].mean(0).clip(1e-3, 1 - 1e-3)
    assert log_loss < -np.log(np.where(y[350:] == 1, share, 1 - share)).mean()


def test_the_likelihood_compares_with_all_seen_sets_and_flips() -> None:
    rng, n = np.random.default_rng(0), 5
    pattern, sets = topology("dense", n), np.unique(rng.integers(0, 2, (9, n)), axis=0)
    x, entries = sets[[0, 2, 3]], rng.normal(size=(3, pattern.size))
    found = SeenSets(*(torch.from_numpy(each).double() for each in (x, sets)), pattern)(
        *torch.from_numpy(entries).split([n, pattern.size - n], 1), scales=(1.0, 0.5)
    )
    for row, (labels, values) in enumerate(zip(x, entries, strict=True)):
        A = np.zeros((n, n))
        A[tuple(pattern.entries.numpy())] = values
        A = A + np.triu(A, 1).T
        others = {tuple(each) for each in (*sets, *abs(labels - np.eye(n, dtype=int)), labels)}
        E = {each: np.array(each) @ A @ np.array(each) for each in others}
        for at, scale in enumerate((1.0, 0.5)):
            Z = sum(np.exp(-scale * each) for each in E.values())
            assert float(found[at, row]) == pytest.approx(scale * E[tuple(labels)] + np.log(Z))


def test_early_stopping_lowers_the_penalty_only_as_far_as_it_helps() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6))
    noise, clear = rng.integers(0, 2, (300, 3)), (X[:, :3] > 0).astype(int)
    counted = (rng.random((300, 6)).argsort(1) < 3 + X[:, :1]).astype(int)  # X has the number of labels
    rough, sharp, sized = (QuboClassifier(random_state=0).fit(X, y) for y in (noise, clear, counted))
    assert rough.alpha_ > sharp.alpha_
    assert sized.network_.body.terms.shared > 0 == sharp.network_.body.terms.shared
    assert QuboClassifier(early_stopping=False, alpha=2.0).fit(X, clear).alpha_ == 2.0


@pytest.mark.parametrize("wrong", [{"alpha": -1.0}, {"validation_fraction": 1.5}, {"layers": 0}])
def test_wrong_settings_are_errors(wrong: dict[str, float]) -> None:
    with pytest.raises(QubolearnError, match=str(*wrong.values())):
        QuboClassifier(**wrong).fit(*exclusive(30, 0))


def test_predictions_are_minimizers_and_more_labels_than_sums_can_take_work() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), rng.integers(0, 2, (60, 18))
    model = QuboClassifier(solver=ExhaustiveSearch(), random_state=0).fit(X, y)
    A = torch.from_numpy(model.qubos(X[:5]))
    best = solve(A, ExhaustiveSearch(), 1).energies[:, 0]
    assert torch.allclose(energies(A, torch.from_numpy(model.predict(X[:5]))[:, None].double())[:, 0], best)
    assert model.predict_proba(X[:5]).shape == (5, 18)
