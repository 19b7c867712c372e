"""A learned QUBO as a multi-label classifier; needs ``qubolearn[sklearn]``."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from itertools import pairwise
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from qubolearn.chips.topologies import Topology, topology
from qubolearn.errors import QubolearnError, check_counts, check_numbers, missing_extra
from qubolearn.networks import QuboNetwork, Standardize
from qubolearn.solvers import Solver, auto_solver, pair_marginals, solve
from qubolearn.training.defaults import SCALES

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.preprocessing import LabelBinarizer
    from sklearn.utils import check_random_state, column_or_1d
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise missing_extra("QuboClassifier", "sklearn") from error

__all__ = ["QuboClassifier"]

#: Up to this number of labels couplings depend on the features, and predictions cover
#: all states. Beyond, they cover the label sets of the training data.
EXACT_LABELS = 14
MAX_SETS = 1000  # in the likelihood, frequent ones first
#: Multiples of alpha, in order, and how many without a lower loss stop the search.
PATH, PATIENCE = tuple(10.0 ** (k / 2) for k in range(3, -4, -1)), 2
SHARED = (1.5, 4.0, 10.0)  # multiples of their mean that linear terms may add, tried in order
HELD_OUT, MAX_FOLDS = 400, 5  # held-out samples in all, and parts
WIDTH = 2.0  # of the kernel: exp(-2) at the median squared distance
COUPLING = 0.25  # of a linear term's step; couplings change less
JITTER = 1e-4  # added to the kernel's diagonal


class SeenSets:
    """Minus the log-likelihood of labels among the training sets and their neighbors.

    Neighbors differ in one label. Labels x are ``[samples, n]``, sets ``[t, n]``.
    """

    def __init__(self, x: Tensor, sets: Tensor, pattern: Topology) -> None:
        n, (i, j) = pattern.n, pattern.entries[:, pattern.n :]
        self.x, self.sets, self.pairs = x, sets, 2 * sets[:, i] * sets[:, j]
        self.near = (x @ (1 - sets).T + (1 - x) @ sets.T) < 1.5  # counted as flips
        self.column = torch.full((n, n), len(i))
        self.column[i, j] = self.column[j, i] = torch.arange(len(i))

    def __call__(self, linear: Tensor, couplings: Tensor, scales: Sequence[float] = (1.0,)) -> Tensor:
        """Return losses ``[scales, samples]`` of linear terms and couplings."""
        B = nn.functional.pad(couplings, (0, 1))[:, self.column]
        fields = linear + 2 * torch.einsum("bij,bj->bi", B, self.x)
        flips = (2 * self.x - 1) * fields  # E(x) - E(x with one label flipped)
        if not couplings.shape[1]:
            return torch.stack([nn.functional.softplus(scale * flips).sum(1) for scale in scales])
        own = ((linear + fields) * self.x).sum(1, keepdim=True) / 2
        others = own - linear @ self.sets.T - couplings @ self.pairs.T
        gaps = torch.cat([torch.zeros_like(own), flips, others.masked_fill(self.near, -torch.inf)], 1)
        return torch.stack([(scale * gaps).logsumexp(1) for scale in scales])


class Terms(nn.Module):
    """Linear terms and couplings of features; ``layers > 1`` adds an MLP of p."""

    def __init__(self, features: int, m: int, pattern: Topology, layers: int, hidden: int) -> None:
        super().__init__()
        self.n, self.shared = pattern.n, 0.0
        varying = pattern.size if self.n <= EXACT_LABELS else self.n
        self.linear = nn.Linear(features, varying)
        self.constant = nn.Parameter(torch.zeros(pattern.size - self.n))
        widths = [m] + [hidden] * (layers - 1)
        hiddens = [nn.Sequential(nn.Linear(a, b), nn.ReLU()) for a, b in pairwise(widths)]
        self.mlp = nn.Sequential(*hiddens, nn.Linear(hidden, varying, bias=False)) if layers > 1 else None
        for weight in self.last():
            nn.init.zeros_(weight)

    def last(self) -> list[nn.Parameter]:
        """Return the weights in which A is linear."""
        last = [] if self.mlp is None else self.mlp[-1].parameters()
        return [*self.linear.parameters(), self.constant, *last]

    def forward(self, features: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
        """Return linear terms ``[batch, n]`` and couplings ``[batch or 1, pairs]``."""
        found = self.linear(features) if self.mlp is None else self.linear(features) + self.mlp(p)
        linear, couplings = found[:, : self.n], COUPLING * found[:, self.n :]
        linear = linear + self.shared * linear.mean(1, keepdim=True)
        return linear, self.constant + couplings if couplings.shape[1] else self.constant[None]

    def lower(self, features: Tensor, p: Tensor, loss: SeenSets, alpha: float, iterations: int) -> int:
        """Minimize losses plus alpha / 2 times squared weights by L-BFGS; return its steps."""
        weights = list(self.parameters())
        optimizer = torch.optim.LBFGS(weights, 1, iterations, None, 1e-5, 1e-6, 10, "strong_wolfe")

        def objective() -> Tensor:
            optimizer.zero_grad()
            norm = sum(w.square().sum() for w in weights if w.ndim > 1) + 0.1 * self.constant.square().sum()
            total = (loss(*self(features, p)).sum() + alpha / 2 * norm) / len(p)
            total.backward()  # type: ignore[no-untyped-call]
            return total

        optimizer.step(objective)  # type: ignore[no-untyped-call]
        return int(optimizer.state[weights[0]]["n_iter"])


class LabelBody(nn.Module):
    """Map standardized features to A by their kernel with training samples, the centers.

    The kernel is a Gaussian plus the dot product, each about 1 for equal samples.
    """

    centers: Tensor

    def __init__(self, centers: Tensor, terms: Terms) -> None:
        super().__init__()
        self.register_buffer("centers", centers)
        distances = torch.pdist(centers[:500]).square()
        self.median = float(distances[distances > 0].median()) if bool(distances.any()) else 1.0
        self.norm = max(float(centers.square().sum(1).mean()), 1e-9)
        self.terms = terms

    def kernel(self, p: Tensor) -> Tensor:
        """Return k(p, c), ``[batch, centers]``."""
        near = torch.exp(-WIDTH * torch.cdist(p, self.centers).square() / self.median)
        return near + p @ self.centers.T / self.norm

    def whitening(self) -> Tensor:
        """Return W that makes squared weights of ``kernel(p) @ W`` the kernel's norm."""
        K = self.kernel(self.centers).double()
        root = torch.linalg.cholesky(K + JITTER * torch.eye(len(K)))
        inverse: Tensor = torch.linalg.solve_triangular(root, torch.eye(len(K)).double(), upper=False)
        return inverse.T.float()

    def forward(self, p: Tensor) -> Tensor:
        linear, couplings = self.terms(self.kernel(p), p)
        return torch.cat([linear, couplings.expand(len(p), -1)], 1)


class QuboClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Predict labels jointly: a kernel machine maps features to a QUBO, which is minimized.

    Each label is a bit. Linear terms are the evidence for single labels, couplings state
    which labels go together. y is an indicator matrix ``[samples, labels]``, or one class
    per sample, which becomes one bit per class. Features are standardized, except for
    columns of 0 and 1. Training maximizes the likelihood among the label sets of the
    training data and all that differ in one label. Beyond 14 labels, couplings do not
    depend on the features, and without a ``solver`` predictions are training label sets.

    Args:
        couplings: learn couplings; without them each label is predicted alone.
        components: the maximum number of training samples in the kernel.
        layers, hidden: with ``layers`` above 1, depth and width of an MLP, added to the kernel.
        alpha: the strength of the penalty on the squared norm.
        early_stopping: lower the penalty from 30 alpha to at least alpha / 30 while the held-out
            loss falls, then up to 14 labels that of the mean linear term. Without it, use alpha.
        validation_fraction: the share held out, up to five times in turn below 2,000 samples.
        max_iter: steps of L-BFGS for each penalty.
        solver: for ``predict``; by default exact search up to 14 labels.
        random_state: a seed or generator, as in scikit-learn.

    Attributes:
        classes_: the classes, or the columns of the labels.
        network_: the trained :class:`qubolearn.QuboNetwork`.
        alpha_, n_iter_: the chosen penalty, and the steps of L-BFGS.

    >>> from sklearn.datasets import make_multilabel_classification
    >>> X, y = make_multilabel_classification(200, 8, n_classes=4, random_state=0)
    >>> model = QuboClassifier(random_state=0).fit(X[:150], y[:150])
    >>> model.predict(X[150:]).shape, model.qubos(X[150:]).shape
    ((50, 4), (50, 4, 4))
    """

    def __init__(
        self,
        *,
        couplings: bool = True,
        components: int = 1500,
        layers: int = 1,
        hidden: int = 64,
        alpha: float = 0.3,
        early_stopping: bool = True,
        validation_fraction: float = 0.2,
        max_iter: int = 40,
        solver: Solver | None = None,
        random_state: Any = None,
    ) -> None:
        self.couplings, self.components = couplings, components
        self.layers, self.hidden, self.alpha, self.max_iter = layers, hidden, alpha, max_iter
        self.early_stopping, self.validation_fraction = early_stopping, validation_fraction
        self.solver, self.random_state = solver, random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Train on X ``[samples, features]`` and y, classes or labels of 0 and 1."""
        check_counts(components=self.components, max_iter=self.max_iter)
        check_counts(layers=self.layers, hidden=self.hidden)
        check_numbers(zero=True, alpha=self.alpha)
        if not 0 < (held := self.validation_fraction) < 1:
            raise QubolearnError(f"validation_fraction={held!r}; expected 0 < fraction < 1")
        X, y = validate_data(self, X, y, multi_output=True)
        y = column_or_1d(y, warn=True) if y.ndim == 2 and y.shape[1] == 1 else y
        check_classification_targets(y)
        self._binarizer = LabelBinarizer().fit(y)
        labels, self.classes_ = self._binarizer.transform(y), self._binarizer.classes_
        self._multilabel = self._binarizer.y_type_.startswith("multilabel")
        sets, counts = np.unique(labels, axis=0, return_counts=True)
        self._sets = torch.from_numpy(sets[np.argsort(-counts, kind="stable")[:MAX_SETS]].astype(np.float32))
        bits = labels.shape[1]
        pattern = topology("dense" if self.couplings and bits > 1 else "diagonal", bits)
        p, x = torch.from_numpy(X.astype(np.float32)), torch.from_numpy(labels.astype(np.float32))
        scale = Standardize(X.shape[1])
        scale.fit(p)
        binary = ((p == 0) | (p == 1)).all(0)
        scale.mean[binary], scale.scale[binary] = 0.0, 1.0
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        order = torch.from_numpy(np.random.default_rng(seed).permutation(len(p)))
        network = QuboNetwork(self._trained(scale(p)[order], x[order], pattern, seed), pattern, X.shape[1])
        network.standardize = scale
        self.network_ = network.double()  # rounding must not depend on the batch
        return self

    def _trained(self, p: Tensor, x: Tensor, pattern: Topology, seed: int) -> LabelBody:
        """Return the body of all samples, at the best penalty and scale."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            centers = p[: self.components]
            body = LabelBody(centers, Terms(len(centers), p.shape[1], pattern, self.layers, self.hidden))
        whitening = body.whitening()
        features = body.kernel(p) @ whitening
        held, each = round(self.validation_fraction * len(p)), list[Any]()

        def samples(rows: Any) -> tuple[Tensor, Tensor, SeenSets]:
            return features[rows], p[rows], SeenSets(x[rows], self._sets, pattern)

        def scored(alpha: float, shared: float) -> tuple[float, float, float]:
            for terms, kept, _ in each:
                terms.shared = shared
                terms.lower(*kept, alpha, self.max_iter)
            with torch.no_grad():
                losses = [loss(*terms.forward(phi, q), SCALES) for terms, _, (phi, q, loss) in each]
            return *min(zip(torch.cat(losses, 1).mean(1).tolist(), SCALES, strict=True)), shared

        penalties, tried = [self.alpha], [(0.0, 1.0, 0.0)]  # loss, scale and share of each penalty
        if self.early_stopping and 0 < held < len(p):
            folds = max(1, min(MAX_FOLDS, len(p) // held, -(-HELD_OUT // held)))
            parts = [torch.arange(len(p)).roll(-held * fold) for fold in range(folds)]
            each = [(deepcopy(body.terms), samples(rows[held:]), samples(rows[:held])) for rows in parts]
            penalties, tried = [self.alpha * factor for factor in PATH], []
            for alpha in penalties:
                tried.append(scored(alpha, 0.0))
                if min(tried) not in tried[-PATIENCE:]:
                    break
        best = tried.index(min(tried))
        for shared in SHARED if each and 1 < pattern.n <= EXACT_LABELS else ():
            if (found := scored(penalties[best], shared)) > tried[best]:
                break
            tried[best] = found
        _, scale, body.terms.shared = tried[best]
        self.alpha_, final = penalties[best], samples(slice(None))
        self.n_iter_ = sum(body.terms.lower(*final, alpha, self.max_iter) for alpha in penalties[: best + 1])
        with torch.no_grad():
            for weight in body.terms.last():
                weight.mul_(scale)
            body.terms.linear.weight.copy_(body.terms.linear.weight @ whitening.T)
        return body

    def qubos(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the learned QUBO of each sample, ``[samples, labels, labels]``."""
        return self._qubos(X).numpy()

    def predict(self, X: Any) -> Any:
        """Return the minimizers as labels ``[samples, labels]``, or classes."""
        A = self._qubos(X)
        if not self._multilabel:
            return self._binarizer.inverse_transform(self._marginals(A))
        if self.solver is None and A.shape[1] > EXACT_LABELS:
            return self._sets[self._energies(A).argmin(1)].long().numpy()
        return solve(A, self.solver or auto_solver(A.shape[1]), 1).states[:, 0].long().numpy()

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the probability of each label ``[samples, labels]``, or of each class."""
        marginals = self._marginals(self._qubos(X))
        if self._multilabel:
            return marginals
        both = np.hstack([1 - marginals, marginals]) if marginals.shape[1] == 1 else marginals
        both = both[:, : len(self.classes_)]
        return np.asarray(both / both.sum(1, keepdims=True), np.float64)

    def _qubos(self, X: Any) -> Tensor:
        check_is_fitted(self)
        p = torch.from_numpy(validate_data(self, X, reset=False).astype(np.float64))
        with torch.no_grad():
            A: Tensor = self.network_(p)
        return A

    def _marginals(self, A: Tensor) -> npt.NDArray[np.float64]:
        if A.shape[1] <= EXACT_LABELS:
            return pair_marginals(A).diagonal(dim1=1, dim2=2).numpy()
        return ((-self._energies(A)).softmax(1) @ self._sets.to(A.dtype)).numpy()

    def _energies(self, A: Tensor) -> Tensor:
        sets = self._sets.to(A.dtype)
        return A.flatten(1) @ (sets[:, :, None] * sets[:, None]).flatten(1).T

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags
