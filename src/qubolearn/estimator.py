"""A learned QUBO as a scikit-learn classifier, for labels that are predicted together. Needs ``qubolearn[sklearn]``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from qubolearn.chips.topologies import Topology, topology
from qubolearn.errors import QubolearnError, missing_extra
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

#: Up to this number of labels couplings depend on the features, predictions are minimizers over all states, and
#: probabilities are sums over them. Beyond, couplings are constant, and both take the label sets of the training data.
EXACT_LABELS = 14
MAX_SETS = 1000  # of the training data, to which the likelihood compares; frequent ones come first
#: Multiples of alpha in the order of early stopping, and after how many without a lower loss it stops.
PATH, PATIENCE = tuple(10.0 ** (k / 2) for k in range(3, -4, -1)), 2
HELD_OUT, MAX_FOLDS = 400, 5  # samples that are held out in all, and the most parts
WIDTH = 2.0  # of the kernel: exp(-2) at the median squared distance
COUPLING = 0.25  # of the step of a linear term; couplings change less
JITTER = 1e-4  # added to the kernel's diagonal


class SeenSets:
    """Minus the log-likelihood of labels among label sets of the training data and all sets that differ in one label.

    Without couplings it is the likelihood among all sets. Labels x are ``[samples, n]``, sets ``[t, n]``.
    """

    def __init__(self, x: Tensor, sets: Tensor, pattern: Topology) -> None:
        n, (i, j) = pattern.n, pattern.entries[:, pattern.n :]
        self.x, self.sets, self.pairs = x, sets, 2 * sets[:, i] * sets[:, j]
        self.near = (x @ (1 - sets).T + (1 - x) @ sets.T) < 1.5  # the flips, which are counted anyway
        self.column = torch.full((n, n), len(i))
        self.column[i, j] = self.column[j, i] = torch.arange(len(i))

    def __call__(self, linear: Tensor, couplings: Tensor, scales: Sequence[float] = (1.0,)) -> Tensor:
        """Return losses ``[scales, samples]`` of linear ``[samples, n]`` and couplings ``[samples or 1, pairs]``."""
        B = nn.functional.pad(couplings, (0, 1))[:, self.column]
        fields = linear + 2 * torch.einsum("bij,bj->bi", B, self.x)
        flips = (2 * self.x - 1) * fields  # E(x) - E(x with one label flipped)
        if not couplings.shape[1]:
            return torch.stack([nn.functional.softplus(scale * flips).sum(1) for scale in scales])
        own = ((linear + fields) * self.x).sum(1, keepdim=True) / 2
        others = own - linear @ self.sets.T - couplings @ self.pairs.T
        gaps = torch.cat([torch.zeros_like(own), flips, others.masked_fill(self.near, -torch.inf)], 1)
        return torch.stack([(scale * gaps).logsumexp(1) for scale in scales])


class LabelBody(nn.Module):
    """Map standardized features to entries of A: linear in their kernel with some training samples, the centers.

    The kernel is a Gaussian plus the dot product, each about 1 for equal samples. ``layers > 1`` adds an MLP.
    """

    centers: Tensor

    def __init__(self, centers: Tensor, pattern: Topology, layers: int, hidden: int) -> None:
        super().__init__()
        self.n, m = pattern.n, centers.shape[1]
        self.register_buffer("centers", centers)
        distances = torch.pdist(centers[:500]).square()
        self.median = float(distances[distances > 0].median()) if bool(distances.any()) else 1.0
        self.norm = max(float(centers.square().sum(1).mean()), 1e-9)
        varying = pattern.size if self.n <= EXACT_LABELS else self.n
        self.linear = nn.Linear(len(centers), varying)
        self.constant = nn.Parameter(torch.zeros(pattern.size - self.n))
        widths = [m] + [hidden] * (layers - 1)
        hiddens = [nn.Sequential(nn.Linear(a, b), nn.ReLU()) for a, b in pairwise(widths)]
        self.mlp = nn.Sequential(*hiddens, nn.Linear(hidden, varying, bias=False)) if layers > 1 else None
        for weight in self.last():
            nn.init.zeros_(weight)

    def last(self) -> list[nn.Parameter]:
        """Return the weights in which the entries of A are linear."""
        return [
            self.linear.weight,
            self.linear.bias,
            self.constant,
            *(() if self.mlp is None else [self.mlp[-1].weight]),
        ]

    def kernel(self, p: Tensor) -> Tensor:
        """Return k(p, c) for all centers c, ``[batch, centers]``."""
        return torch.exp(-WIDTH * torch.cdist(p, self.centers).square() / self.median) + p @ self.centers.T / self.norm

    def terms(self, kernel: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
        """Return linear terms ``[batch, n]`` and couplings ``[batch, pairs]``, or ``[1, pairs]`` if constant."""
        found = self.linear(kernel) if self.mlp is None else self.linear(kernel) + self.mlp(p)
        linear, couplings = found[:, : self.n], COUPLING * found[:, self.n :]
        return linear, self.constant + couplings if couplings.shape[1] else self.constant[None]

    def forward(self, p: Tensor) -> Tensor:
        linear, couplings = self.terms(self.kernel(p), p)
        return torch.cat([linear, couplings.expand(len(p), -1)], 1)


class Path:
    """A body whose weights minimize the loss of some samples plus a penalty, which falls from call to call.

    With the inverse root of the kernel of the centers, the penalty is the squared norm of a function of that kernel.
    """

    def __init__(self, body: LabelBody, p: Tensor, loss: SeenSets) -> None:
        self.body, self.p, self.loss = body, p, loss
        K = body.kernel(body.centers).double()
        root = torch.linalg.cholesky(K + JITTER * torch.eye(len(K)))
        self.inverse = torch.linalg.solve_triangular(root, torch.eye(len(K)).double(), upper=False).T.float()
        self.kernel = body.kernel(p) @ self.inverse

    def lower(self, alpha: float, iterations: int) -> int:
        """Minimize the losses plus alpha / 2 times the squared weights by L-BFGS; return the number of iterations."""
        weights = list(self.body.parameters())
        optimizer = torch.optim.LBFGS(weights, 1, iterations, None, 1e-5, 1e-6, 10, "strong_wolfe")

        def objective() -> Tensor:
            optimizer.zero_grad()
            norm = sum(w.square().sum() for w in weights if w.ndim > 1) + 0.1 * self.body.constant.square().sum()
            total = (self.loss(*self.body.terms(self.kernel, self.p)).sum() + alpha / 2 * norm) / len(self.p)
            total.backward()  # type: ignore[no-untyped-call]
            return total

        optimizer.step(objective)  # type: ignore[no-untyped-call]
        return int(optimizer.state[weights[0]]["n_iter"])

    @torch.no_grad()
    def losses(self, p: Tensor, loss: SeenSets) -> Tensor:
        """Return the losses ``[scales, samples]`` of other samples."""
        return loss(*self.body.terms(self.body.kernel(p) @ self.inverse, p), SCALES)

    @torch.no_grad()
    def scaled(self, scale: float) -> LabelBody:
        """Return the body for p, with A multiplied by a scale."""
        for weight in self.body.last():
            weight.mul_(scale)
        self.body.linear.weight.copy_(self.body.linear.weight @ self.inverse.T)
        return self.body


class QuboClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Predict labels jointly: a kernel machine maps the features to a QUBO, and the labels are its minimizer.

    Each label is a bit. Linear terms of the QUBO are the evidence for a label alone, couplings state which labels go
    together. y may be an indicator matrix ``[samples, labels]`` of any number of labels (multi-label), or one class per
    sample, which becomes one bit per class. Works in ``Pipeline``, ``GridSearchCV`` and ``clone``. Features are
    standardized, except for columns of 0 and 1. Training maximizes the likelihood of the labels among the label sets of
    the training data and all that differ in one label. Beyond 14 labels couplings do not depend on the features, and
    without a ``solver``, predictions are the lowest of the label sets of the training data.

    Args:
        couplings: learn couplings; without them each label is predicted alone.
        components: the most training samples whose kernel with a sample enters the QUBO.
        layers, hidden: with ``layers`` above 1, depth and width of an MLP whose outputs are added.
        alpha: the weight of the squared norm next to the sum of the losses.
        early_stopping: start with a penalty of 30 alpha and lower it to at least alpha / 30, as long as the loss of
            held-out samples falls; then train on all samples. Without it, the penalty is alpha.
        validation_fraction: the share that is held out, up to five times in turn below 2,000 samples.
        max_iter: steps of L-BFGS for each penalty.
        solver: any of our solvers for ``predict``; by default exact search up to 14 labels.
        random_state: a seed or generator, as in scikit-learn.

    Attributes:
        classes_: the classes, or the columns of the labels.
        network_: the trained :class:`qubolearn.QuboNetwork`.
        alpha_, n_iter_: the penalty that was chosen, and the steps of L-BFGS that led there.

    >>> from sklearn.datasets import make_multilabel_classification
    >>> X, y = make_multilabel_classification(200, 8, n_classes=4, random_state=0)
    >>> model = QuboClassifier(random_state=0).fit(X[:150], y[:150])
    >>> model.predict(X[150:]).shape, model.predict_proba(X[150:]).shape, model.qubos(X[150:]).shape
    ((50, 4), (50, 4), (50, 4, 4))
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
        self.couplings = couplings
        self.components = components
        self.layers = layers
        self.hidden = hidden
        self.alpha = alpha
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.max_iter = max_iter
        self.solver = solver
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Train on X ``[samples, features]`` and y, ``[samples]`` classes or ``[samples, labels]`` of 0 and 1."""
        if not 0 < self.validation_fraction < 1 or self.alpha < 0:
            given = f"alpha={self.alpha!r} and validation_fraction={self.validation_fraction!r}"
            raise QubolearnError(f"{given}; expected alpha >= 0 and a fraction between 0 and 1")
        X, y = validate_data(self, X, y, multi_output=True)
        y = column_or_1d(y, warn=True) if y.ndim == 2 and y.shape[1] == 1 else y
        check_classification_targets(y)
        self._binarizer = LabelBinarizer().fit(y)
        labels = self._binarizer.transform(y)
        self.classes_ = self._binarizer.classes_
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
        self.network_ = network.double()  # so that rounding does not make an answer depend on its batch
        return self

    def _trained(self, p: Tensor, x: Tensor, pattern: Topology, seed: int) -> LabelBody:
        """Return the body of all samples, at the penalty and the scale that are best for samples that are held out."""

        def loss(rows: Tensor) -> SeenSets:
            return SeenSets(x[rows], self._sets, pattern)

        def path(rows: Tensor) -> Path:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                body = LabelBody(p[rows[: self.components]], pattern, self.layers, self.hidden)
            return Path(body, p[rows], loss(rows))

        every, held = torch.arange(len(p)), round(self.validation_fraction * len(p))
        penalties, tried = [self.alpha], [(0.0, 1.0)]  # loss and scale of each penalty
        if self.early_stopping and 0 < held < len(p):
            folds = max(1, min(MAX_FOLDS, len(p) // held, -(-HELD_OUT // held)))
            parts = [every.roll(-held * fold) for fold in range(folds)]
            paths = [(path(part[held:]), (p[part[:held]], loss(part[:held]))) for part in parts]
            penalties, tried = [self.alpha * factor for factor in PATH], []
            for alpha in penalties:
                for each, _ in paths:
                    each.lower(alpha, self.max_iter)
                losses = torch.cat([each.losses(*others) for each, others in paths], 1).mean(1)
                tried.append((float(losses.min()), SCALES[int(losses.argmin())]))
                if min(tried) not in tried[-PATIENCE:]:
                    break
        best = tried.index(min(tried))
        self.alpha_, final = penalties[best], path(every)
        self.n_iter_ = sum(final.lower(alpha, self.max_iter) for alpha in penalties[: best + 1])
        return final.scaled(tried[best][1])

    def qubos(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the learned QUBO of each sample, ``[samples, labels, labels]``."""
        return self._qubos(X).numpy()

    def predict(self, X: Any) -> Any:
        """Return the minimizer of each sample's QUBO as labels ``[samples, labels]``, or the most likely class."""
        A = self._qubos(X)
        if not self._multilabel:
            return self._binarizer.inverse_transform(self._marginals(A))
        if self.solver is None and A.shape[1] > EXACT_LABELS:
            return self._sets[self._energies(A).argmin(1)].long().numpy()
        solver = self.solver or auto_solver(A.shape[1])
        return solve(A, solver, 1).states[:, 0].to(torch.int64).numpy()

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
