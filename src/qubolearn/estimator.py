"""A learned QUBO as a scikit-learn classifier, for labels that are predicted together. Needs ``qubolearn[sklearn]``."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from qubolearn.chips.topologies import Topology, topology
from qubolearn.errors import missing_extra
from qubolearn.losses import Batch, Likelihood, Loss
from qubolearn.networks import QuboNetwork, Standardize
from qubolearn.qubo import Qubo, energies
from qubolearn.solvers import SimulatedAnnealing, Solver, auto_solver, pair_marginals, solve
from qubolearn.training.defaults import SCORINGS, BestWeights
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

#: Up to this number of labels the likelihood is a sum over all states, and couplings depend on the features. Beyond,
#: couplings are constant, and training and predictions compare the label sets of the training data.
EXACT_LABELS = 14
#: Up to this number of labels marginals are sums over all states; beyond, estimates.
EXACT_MARGINALS = 16
STEPS = 1000
EIGENVALUE = 1e-3  # below which directions of the kernel are not scaled up


class SeenSets(Loss):
    """Minus the log-likelihood of the labels among all label sets of the training data and all sets that differ in one.

    Args:
        sets: the label sets ``[t, n]``.
        beta: the inverse temperature.
    """

    def __init__(self, sets: Tensor, beta: float) -> None:
        self.sets, self.beta = sets, beta

    def __call__(self, A: Qubo, batch: Batch) -> Tensor:
        x = batch.x_true
        flipped = (x[:, None] - torch.eye(x.shape[1])).abs()
        others = torch.cat([self.sets.expand(len(x), -1, -1), flipped], 1)
        E = energies(A, others).masked_fill((others == x[:, None]).all(2), torch.inf)
        true = energies(A, x)[:, None]
        return torch.cat([torch.zeros_like(true), self.beta * (true - E)], 1).logsumexp(1)


class LabelBody(nn.Module):
    """Map standardized features to entries of A: linear in them and in their kernel with some training samples.

    The kernel features are those of Nyström's method, K(p, centers) K(centers, centers)^(-1/2), scaled to about unit
    size. With ``layers`` above 1, an MLP of the features is added.
    """

    centers: Tensor
    roots: Tensor

    def __init__(self, centers: Tensor, bits: int, size: int, layers: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.bits, m = bits, centers.shape[1]
        self.register_buffer("centers", centers)
        distances = torch.pdist(centers).square()
        self.median = float(distances[distances > 0].median()) if bool(distances.any()) else 1.0
        self.register_buffer("roots", torch.zeros(len(centers), len(centers)))
        kernel, directions = torch.linalg.eigh(self.kernel(centers).double())
        self.roots.copy_(directions * (len(centers) / kernel.clamp_min(EIGENVALUE)).sqrt())
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(m + len(centers), bits)
        self.coupling = nn.Linear(m + len(centers), size - bits) if size - bits > 0 and bits <= EXACT_LABELS else None
        self.constant = nn.Parameter(torch.zeros(size - bits))
        widths = [m] + [hidden] * (layers - 1)
        hiddens = [nn.Sequential(nn.Linear(a, b), nn.ReLU(), nn.Dropout(dropout)) for a, b in pairwise(widths)]
        self.mlp = nn.Sequential(*hiddens, nn.Linear(hidden, size)) if layers > 1 else None
        for last in (self.linear, self.coupling, self.mlp and self.mlp[-1]):
            if isinstance(last, nn.Linear):
                nn.init.zeros_(last.weight)
                nn.init.zeros_(last.bias)

    def kernel(self, p: Tensor) -> Tensor:
        """Return exp(-2 |p - c|² / median) for all centers c, with the median squared distance of two centers."""
        return torch.exp(-2 * torch.cdist(p, self.centers).square() / self.median)

    def forward(self, p: Tensor) -> Tensor:
        f = self.dropout(torch.cat([p, self.kernel(p) @ self.roots], 1))
        couplings = self.constant.expand(len(p), -1)
        if self.coupling is not None:
            couplings = couplings + 0.3 * self.coupling(f)  # they change less than biases do
        entries = torch.cat([self.linear(f), couplings], 1)
        return entries if self.mlp is None else entries + self.mlp(p)


class Mean(nn.Module):
    """The mean of the outputs of bodies."""

    def __init__(self, bodies: Iterable[nn.Module]) -> None:
        super().__init__()
        self.bodies = nn.ModuleList(bodies)

    def forward(self, p: Tensor) -> Tensor:
        return torch.stack([body(p) for body in self.bodies]).mean(0)


class QuboClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Predict labels jointly: a network maps the features to a QUBO, and the labels are its minimizer.

    Each label is a bit. Linear terms of the QUBO are the evidence for a label alone, couplings state which labels go
    together. y may be an indicator matrix ``[samples, labels]`` of any number of labels (multi-label), or one class per
    sample, which becomes one bit per class. Works in ``Pipeline``, ``GridSearchCV`` and ``clone``. Features are
    standardized, except for columns of 0 and 1. Beyond 14 labels and without a ``solver``, predictions are the lowest
    of the label sets of the training data.

    Args:
        couplings: learn couplings; without them each label is predicted alone.
        components: training samples whose kernel with a sample are features, next to the sample itself; 0 for none.
        layers, hidden: with ``layers`` above 1, depth and width of an MLP whose outputs are added.
        dropout: the share of features that is dropped in training.
        alpha: the weight decay of AdamW.
        members: networks whose QUBOs are averaged; each holds out another part of the data.
        early_stopping: hold out ``validation_fraction`` of the samples, and keep the weights near the lowest loss on
            them. Without it, all samples train for all steps.
        beta: the inverse temperature of the likelihood and of ``predict_proba``; the scale of A is learned.
        learning_rate: the highest rate of AdamW; it falls to zero.
        epochs: passes over the data; by default 1,000 steps.
        batch_size: samples per step.
        solver: any of our solvers for ``predict``; by default exact search for few labels, annealing for many.
        random_state: a seed or generator, as in scikit-learn.
        verbose: show a progress bar.

    Attributes:
        classes_: the classes, or the columns of the labels.
        network_: the trained :class:`qubolearn.QuboNetwork`.

    >>> from sklearn.datasets import make_multilabel_classification
    >>> X, y = make_multilabel_classification(200, 8, n_classes=4, random_state=0)
    >>> model = QuboClassifier(epochs=5, random_state=0).fit(X[:150], y[:150])
    >>> model.predict(X[150:]).shape, model.predict_proba(X[150:]).shape, model.qubos(X[150:]).shape
    ((50, 4), (50, 4), (50, 4, 4))
    """

    def __init__(
        self,
        *,
        couplings: bool = True,
        components: int = 500,
        layers: int = 1,
        hidden: int = 64,
        dropout: float = 0.5,
        alpha: float = 1e-2,
        members: int = 3,
        early_stopping: bool = True,
        validation_fraction: float = 0.15,
        beta: float = 1.0,
        learning_rate: float = 1e-2,
        epochs: int | None = None,
        batch_size: int = 32,
        solver: Solver | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.couplings = couplings
        self.components = components
        self.layers = layers
        self.hidden = hidden
        self.dropout = dropout
        self.alpha = alpha
        self.members = members
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
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
        p, x = torch.from_numpy(X.astype(np.float32)), torch.from_numpy(labels.astype(np.float32))
        scale = Standardize(X.shape[1])
        scale.fit(p)
        binary = ((p == 0) | (p == 1)).all(0)
        scale.mean[binary], scale.scale[binary] = 0.0, 1.0
        self._sets = torch.from_numpy(np.unique(labels, axis=0).astype(np.float32))
        order = torch.from_numpy(np.random.default_rng(seed).permutation(len(p)))
        bodies = [self._trained(scale(p), x, pattern, order, member, seed) for member in range(self.members)]
        network = QuboNetwork(Mean(bodies), pattern, X.shape[1])
        network.standardise = scale
        self.network_ = network.double()  # so that rounding does not make an answer depend on its batch
        return self

    def _trained(self, p: Tensor, x: Tensor, pattern: Topology, order: Tensor, member: int, seed: int) -> nn.Module:
        """Return one trained body; members hold out consecutive parts of the order."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed + member)
            centers = p[torch.randperm(len(p))[: self.components]]
            body = LabelBody(centers, pattern.n, pattern.size, self.layers, self.hidden, self.dropout)
        held = round(self.validation_fraction * len(p)) if self.early_stopping else 0
        rows, trained = order.roll(-member * held)[:held], order.roll(-member * held)[held:]
        steps = max(1, len(trained) // self.batch_size)
        network, epochs = QuboNetwork(body, pattern), self.epochs or -(-STEPS // steps)
        spaced = range(0, epochs * steps, max(1, epochs * steps // SCORINGS))
        fit(
            network,
            (p[trained], x[trained]),
            Likelihood(self.beta) if pattern.n <= EXACT_LABELS else SeenSets(self._sets, self.beta),
            epochs=epochs,
            optimizer=Adam(self.learning_rate, Cosine(), self.alpha),
            batch_size=self.batch_size,
            validation=(p[rows], x[rows]) if held else None,
            score_after=spaced,
            callbacks=[BestWeights()] if held else [],
            seed=seed,
            progress=self.verbose,
        )
        return body

    def qubos(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the learned QUBO of each sample, ``[samples, labels, labels]``."""
        return self._qubos(X).numpy()

    def predict(self, X: Any) -> Any:
        """Return the minimizer of each sample's QUBO as labels ``[samples, labels]``, or the most likely class."""
        A = self._qubos(X)
        if not self._multilabel:
            return self._binarizer.inverse_transform(self._marginals(A))
        if self.solver is None and A.shape[1] > EXACT_LABELS:
            return self._sets[energies(A, self._sets.expand(len(A), -1, -1).to(A.dtype)).argmin(1)].long().numpy()
        solver = self.solver or auto_solver(A.shape[1])
        return solve(A, solver, 1).states[:, 0].to(torch.int64).numpy()

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the probability of each label ``[samples, labels]`` at inverse temperature beta, or of each class."""
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
        if A.shape[1] <= EXACT_MARGINALS:
            return pair_marginals(A, self.beta).diagonal(dim1=1, dim2=2).numpy()
        return SimulatedAnnealing(reads=400, sweeps=100, seed=0).sample(A, self.beta).double().mean(1).numpy()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags
