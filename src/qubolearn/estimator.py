"""A learned QUBO as a scikit-learn classifier, for labels that are predicted together. Needs ``qubolearn[sklearn]``."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch

from qubolearn.chips.topologies import topology
from qubolearn.data.arrays import Arrays
from qubolearn.errors import missing_extra
from qubolearn.losses import Likelihood, PseudoLikelihood
from qubolearn.networks import MLP, QuboNetwork
from qubolearn.solvers import SimulatedAnnealing, Solver, auto_solver, pair_marginals, solve
from qubolearn.training.callbacks import ProgressBar
from qubolearn.training.fit import fit
from qubolearn.training.optimizers import Adam, Cosine

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.preprocessing import LabelBinarizer
    from sklearn.utils import check_random_state, column_or_1d
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise missing_extra("QuboClassifier", "sklearn") from error

__all__ = ["QuboClassifier"]

#: Up to this number of labels likelihood and marginals are sums over all states; beyond, estimates.
EXACT_LABELS = 16


class QuboClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Predicts labels together: a network maps the features to a QUBO, and the labels are its minimiser.

    Each label is a bit. The network's linear terms say how likely a label is by itself, its couplings which labels go
    together. y may be an indicator matrix ``[samples, labels]`` of any number of labels (multi-label), or one class per
    sample, which becomes one bit per class. Works in ``Pipeline``, ``GridSearchCV`` and ``clone``.

    Args:
        couplings: whether to learn couplings; without them labels are predicted one by one.
        hidden, layers: width and depth of the network.
        beta: the inverse temperature of the likelihood; entries of A lie in [-1, 1], so it bounds how sure labels get.
        learning_rate, epochs, batch_size: of the training by Adam, whose rate falls to zero.
        solver: any solver of ours for ``predict``; by default exact search for few labels, annealing for many.
        random_state: a seed or generator, as everywhere in scikit-learn.
        verbose: show a progress bar.

    Attributes:
        classes_: the classes, or the columns of the labels.
        network_: the trained :class:`qubolearn.QuboNetwork`.

    >>> from sklearn.datasets import make_multilabel_classification
    >>> X, y = make_multilabel_classification(200, 8, n_classes=4, random_state=0)
    >>> model = QuboClassifier(epochs=20, random_state=0).fit(X[:150], y[:150])
    >>> model.predict(X[150:]).shape, model.predict_proba(X[150:]).shape, model.qubos(X[150:]).shape
    ((50, 4), (50, 4), (50, 4, 4))
    """

    def __init__(
        self,
        *,
        couplings: bool = True,
        hidden: int = 64,
        layers: int = 3,
        beta: float = 5.0,
        learning_rate: float = 3e-3,
        epochs: int = 60,
        batch_size: int = 32,
        solver: Solver | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.couplings = couplings
        self.hidden = hidden
        self.layers = layers
        self.beta = beta
        self.learning_rate = learning_rate
        self.epochs = epochs
        self.batch_size = batch_size
        self.solver = solver
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Self:
        """Train on X ``[samples, features]`` and y, ``[samples]`` classes or ``[samples, labels]`` of 0 and 1."""
        X, y = validate_data(self, X, y, multi_output=True)
        y = column_or_1d(y, warn=True) if y.ndim == 2 and y.shape[1] == 1 else y
        check_classification_targets(y)
        self._binarizer = LabelBinarizer().fit(y)
        labels = self._binarizer.transform(y)
        self.classes_ = self._binarizer.classes_
        self._multilabel = self._binarizer.y_type_.startswith("multilabel")
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        bits = labels.shape[1]
        pattern = topology("dense" if self.couplings and bits > 1 else "diagonal", bits)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            body = MLP(X.shape[1], pattern.size, self.layers, self.hidden)
        network = QuboNetwork(body, pattern, X.shape[1])
        fit(
            network,
            Arrays(torch.from_numpy(X.astype(np.float32)), torch.from_numpy(labels.astype(np.float32))),
            Likelihood(self.beta) if bits <= EXACT_LABELS else PseudoLikelihood(self.beta),
            epochs=self.epochs,
            optimizer=Adam(self.learning_rate, schedule=Cosine()),
            batch_size=self.batch_size,
            callbacks=[ProgressBar()] if self.verbose else [],
            seed=seed,
        )
        self.network_ = network.double()  # an answer should not depend on the rest of its batch by rounding
        return self

    def qubos(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the learned QUBO of each sample, ``[samples, labels, labels]``."""
        return self._qubos(X).numpy()

    def predict(self, X: Any) -> Any:
        """Return the minimizer of each sample's QUBO as labels ``[samples, labels]``, or the most likely class."""
        A = self._qubos(X)
        if not self._multilabel:
            return self._binarizer.inverse_transform(self._marginals(A))
        solver = self.solver or auto_solver(A.shape[1])
        return solve(A, solver, 1).states[:, 0].to(torch.int64).numpy()

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Probabilities ``[samples, labels]`` of each label at the inverse temperature beta, or of each class."""
        marginals = self._marginals(self._qubos(X))
        if self._multilabel:
            return marginals
        both = np.hstack([1 - marginals, marginals]) if marginals.shape[1] == 1 else marginals
        both = both[:, : len(self.classes_)]
        return np.asarray(both / both.sum(1, keepdims=True), np.float64)

    def _qubos(self, X: Any) -> torch.Tensor:
        check_is_fitted(self)
        p = torch.from_numpy(validate_data(self, X, reset=False).astype(np.float64))
        with torch.no_grad():
            A: torch.Tensor = self.network_(p)
        return A

    def _marginals(self, A: torch.Tensor) -> npt.NDArray[np.float64]:
        if A.shape[1] <= EXACT_LABELS:
            return pair_marginals(A, self.beta).diagonal(dim1=1, dim2=2).numpy()
        return SimulatedAnnealing(reads=400, sweeps=100, seed=0).sample(A, self.beta).double().mean(1).numpy()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags
