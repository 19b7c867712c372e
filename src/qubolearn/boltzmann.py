"""Learn one QUBO from samples: Ising, Potts and Boltzmann models."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from qubolearn.chips.topologies import Topology
from qubolearn.errors import QubolearnError, check_counts, check_numbers, unknown_name
from qubolearn.files import read_metadata, read_tensors, write_tensors
from qubolearn.qubo import (
    Clamp,
    Groups,
    all_states,
    allowed_bits,
    as_clamp,
    as_groups,
    energies,
    from_ising,
    propagate_clamps,
)
from qubolearn.random import derive_seed, stream
from qubolearn.solvers.contract import instance_seeds
from qubolearn.solvers.partition import log_partition
from qubolearn.solvers.tempering import ParallelTempering, move_chains

__all__ = ["BoltzmannMachine", "LogPartition"]

Floats = npt.NDArray[np.float64]
Method = Literal["auto", "exact", "pseudo", "screening", "persistent"]

#: The most bits for sums over all states, and for exact draws.
EXACT_SCORE, EXACT_DRAWS = 24, 20
#: Larger products of samples and A are computed in float32.
SINGLE = 1e8
#: Chains and temperatures of annealed importance sampling.
CHAINS, RUNGS = 256, 1000


class LogPartition(NamedTuple):
    """log Z of a machine, and its standard error, which is 0 if log Z is exact."""

    value: float
    error: float


@dataclass
class BoltzmannMachine:
    """Fit a QUBO whose Boltzmann distribution p(x) ∝ exp(-xᵀAx) matches samples.

    Args:
        pattern: the pairs of bits that may be coupled: a Topology or edges ``[2, m]`` over visible
            bits, then hidden ones; by default all pairs but those within a group.
        hidden: the number of hidden bits.
        groups: sets of visible bits of which exactly one is 1: variables of a Potts model.
        l1, l2: the penalty l1 Σ|J_ij| + l2 Σ J_ij² on couplings between spins; with ``groups``, on
            couplings between bits, and l2 also on linear terms.
        method: ``exact`` likelihood; ``pseudo``-likelihood (Besag 1975); ``screening`` for the
            structure of spin glasses (Vuffray et al., NeurIPS 2016); ``persistent`` chains
            (Tieleman, ICML 2008). ``auto`` is exact up to 24 bits, then persistent with hidden bits
            and pseudo without.
        steps: the most iterations of L-BFGS, or the number of steps of ``persistent``.
        seed: the seed of initial values, chains and samples.

    Attributes:
        couplings_: A ``[n, n]`` of all bits, upper triangular, float64.
        visible_: the number of visible bits.

    >>> X = np.random.default_rng(0).integers(0, 2, (500, 3))
    >>> X[:, 1] = X[:, 0] ^ (np.arange(500) % 10 == 0)
    >>> machine = BoltzmannMachine().fit(X)
    >>> best = 0.9 * math.log(0.9) + 0.1 * math.log(0.1) - math.log(4)  # possible
    >>> round(machine.score(X) - best, 2)
    0.0
    >>> machine.sample(4, clamp={0: 1}).shape
    torch.Size([4, 3])
    """

    pattern: Topology | Tensor | None = None
    hidden: int = 0
    groups: Groups | None = None
    l1: float = 0.0
    method: Method = "auto"
    l2: float = 0.0
    steps: int = 500
    seed: int = 0

    def __post_init__(self) -> None:
        if self.method not in get_args(Method):
            raise unknown_name("method", str(self.method), get_args(Method))
        check_numbers(zero=True, l1=self.l1, l2=self.l2)
        check_counts(hidden=self.hidden + 1, steps=self.steps)
        as_groups(self.groups)

    def fit(self, X: Any, sample_weight: Any = None) -> Self:
        """Fit the machine to samples X ``[N, n]`` of 0 and 1, weighted by ``sample_weight [N]``; return self."""
        X, weights = _samples(X, sample_weight, as_groups(self.groups))
        n = X.shape[1]
        edges = self._edges(n)
        size, method = n + self.hidden, self._method(n)
        self._check_sizes(X, n + edges.shape[1])
        learner = _Learner(X, weights, edges, size, as_groups(self.groups), self.hidden)
        start = np.zeros(size + edges.shape[1])
        if self.hidden:
            start += 0.3 * np.random.default_rng(self.seed).standard_normal(len(start))
        if method == "persistent":
            found = _chains_fit(learner, start, self)
        else:
            found = _minimize(getattr(learner, method), start, size, self)
        with torch.no_grad():
            self.couplings_, self.visible_ = learner.qubo(torch.from_numpy(found)), n
        self._log_z: LogPartition | None = None
        return self

    def log_partition(self) -> LogPartition:
        """Return log Z: exact up to 24 bits, else by annealed importance sampling.

        Reference: Neal, Statistics and Computing 2001.
        """
        A = self._fitted()
        if self._log_z is None:
            exact, groups = self._bits() <= EXACT_SCORE, as_groups(self.groups)
            one = LogPartition(log_partition(A[None], groups=groups).item(), 0.0) if exact else None
            self._log_z = one or _annealed(A, groups, self.seed)
        return self._log_z

    def score(self, X: Any, sample_weight: Any = None) -> float:
        """Return the mean log-likelihood of samples X ``[N, n]``, weighted by ``sample_weight [N]``."""
        A = self._fitted()
        X, weights = _samples(X, sample_weight, as_groups(self.groups))
        if X.shape[1] != self.visible_:
            raise QubolearnError(f"X has {X.shape[1]} columns, but the machine was fitted to {self.visible_}")
        return -float((weights * _free_energies(A, X)).sum()) - self.log_partition().value

    def sample(self, n: int, clamp: Clamp | None = None) -> Tensor:
        """Draw ``n`` states of the visible bits, ``[n, visible]``, given the clamped ones.

        Draws are exact up to 20 free bits, then from parallel tempering.
        """
        check_counts(n=n)
        A, groups = self._fitted(), as_groups(self.groups)
        held = propagate_clamps(as_clamp(clamp, 1, len(A)), groups)
        free = (held[0] == -1).nonzero()[:, 0]
        if len(free) > EXACT_DRAWS:
            solver = ParallelTempering(reads=n, sweeps=max(2000, 10 * n), seed=self.seed)
            return solver.sample(A[None], 1.0, clamp=held, groups=groups)[0, :, : self.visible_]
        states = held[0].clamp_min(0).double().repeat(2 ** len(free), 1)
        states[:, free] = all_states(len(free), dtype=torch.float64)
        states = states[groups.allowed(states)]
        chances = (-energies(A[None], states[None])[0]).softmax(0)
        draws = torch.multinomial(chances, n, replacement=True, generator=stream(self.seed, "draws"))
        return states[draws, : self.visible_]

    def save(self, path: Path | str) -> None:
        """Write the fitted machine as one safetensors file."""
        names = ("hidden", "l1", "l2", "method", "steps", "seed")
        options: dict[str, Any] = {name: getattr(self, name) for name in names}
        options["groups"] = self.groups and self.groups.members
        A = self._fitted()
        write_tensors(Path(path), {"couplings": A}, bits=len(A), options=json.dumps(options))

    @classmethod
    def load(cls, path: Path | str) -> BoltzmannMachine:
        """Read a machine that :meth:`save` wrote."""
        notes = read_metadata(Path(path))
        try:
            bits, options = int(notes["bits"]), json.loads(notes["options"])
            machine = cls(**{**options, "groups": options["groups"] and Groups(options["groups"])})
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise QubolearnError(f"{path} is not a Boltzmann machine ({error!r})") from error
        like = {"couplings": torch.zeros(bits, bits, dtype=torch.float64)}
        machine.couplings_ = read_tensors(Path(path), like)[0]["couplings"]
        machine.visible_, machine._log_z = bits - machine.hidden, None
        return machine

    def _fitted(self) -> Tensor:
        if not hasattr(self, "couplings_"):
            raise QubolearnError("the machine is not fitted; call fit(X) first")
        return self.couplings_

    def _bits(self, visible: int | None = None) -> float:
        n = (self.visible_ if visible is None else visible) + self.hidden
        return allowed_bits(as_clamp(None, 1, n), as_groups(self.groups)).item()

    def _method(self, n: int) -> str:
        exact = self._bits(n) <= EXACT_SCORE
        best = "exact" if exact else "persistent" if self.hidden else "pseudo"
        method = best if self.method == "auto" else self.method
        if self.hidden and method in ("pseudo", "screening"):
            raise QubolearnError(f"method={method!r} cannot fit hidden={self.hidden} bits; use persistent")
        if self.groups is not None and method == "screening":
            raise QubolearnError("method='screening' is for bits without groups; use pseudo")
        return method

    def _edges(self, n: int) -> Tensor:
        size, groups = n + self.hidden, as_groups(self.groups)
        groups.check(n)
        edges = torch.triu_indices(size, size, 1) if self.pattern is None else self.pattern
        if isinstance(edges, Topology):
            edges = torch.tensor(edges.couplers, dtype=torch.int64).reshape(-1, 2).T
        if edges.ndim != 2 or len(edges) != 2 or not bool(((edges >= 0) & (edges < size)).all()):
            what = f"{n} visible and {self.hidden} hidden bits"
            raise QubolearnError(f"pattern {list(edges.shape)} does not fit {what}")
        number = groups.of_bits(size)
        return edges[:, (number[edges[0]] != number[edges[1]]) | (number[edges[0]] < 0)]

    def _check_sizes(self, X: Tensor, parameters: int) -> None:
        if not self.l2 and self.method != "persistent":
            constant = (X[0] == X).all(0).nonzero()[:, 0].tolist()
            if constant:
                what = f"column {constant[0]} of X is always {int(X[0, constant[0]])}"
                raise QubolearnError(f"{what}; remove it, or pass l2=1e-3")
        if len(X) < parameters and not (self.l1 or self.l2):
            warnings.warn(f"{len(X)} samples for {parameters} parameters: pass l1 or l2", stacklevel=3)


def _samples(X: Any, weights: Any, groups: Groups) -> tuple[Tensor, Tensor]:
    try:
        X = torch.as_tensor(X if isinstance(X, Tensor) else np.asarray(X, np.float64)).double()
        weights = torch.ones(len(X)) if weights is None else torch.as_tensor(np.asarray(weights, np.float64))
    except (TypeError, ValueError) as error:
        raise QubolearnError(f"X is not an array of numbers: {error}") from None
    if X.ndim != 2 or not X.numel():
        raise QubolearnError(f"X has shape {list(X.shape)}; expected samples [N, n] with N, n >= 1")
    wrong = ((X != 0) & (X != 1)).nonzero()
    if len(wrong):
        row, column = wrong[0].tolist()
        hint = "; for spins pass (X + 1) / 2" if X[row, column] == -1 else ""
        raise QubolearnError(f"X[{row}, {column}] is {X[row, column].item():g}; expected 0 or 1{hint}")
    broken = (~groups.allowed(X)).nonzero()
    if len(broken):
        raise QubolearnError(f"sample {int(broken[0])} has a group without exactly one 1")
    total = float(weights.sum())
    if weights.shape != (len(X),) or not bool((weights >= 0).all()) or not 0 < total < math.inf:
        what = f"sample_weight {list(weights.shape)} of sum {total:g}"
        raise QubolearnError(f"{what}; expected [{len(X)}], at least 0")
    return X, weights.double() / total


def _free_energies(A: Tensor, V: Tensor) -> Tensor:
    """Return -log Σ_h exp(-E(v, h)) of visible states ``[N, n]``."""
    n = V.shape[1]
    visible = ((V @ A[:n, :n]) * V).sum(1)
    if len(A) == n:
        return visible
    inner = A[n:, n:]
    fields = V @ (A[:n, n:] + A[n:, :n].T) + inner.diagonal()
    if not bool((inner - inner.diagonal().diag()).detach().any()):
        return visible - torch.nn.functional.softplus(-fields).sum(1)
    return visible - log_partition(inner - inner.diagonal().diag() + torch.diag_embed(fields))


class _Learner:
    """Objectives of θ = (linear terms, couplings) of spins, or bits with groups."""

    def __init__(
        self, X: Tensor, weights: Tensor, edges: Tensor, size: int, groups: Groups, hidden: int
    ) -> None:
        bits = np.packbits(X.numpy().astype(np.uint8), axis=1)
        packed, inverse = np.unique(bits, axis=0, return_inverse=True)
        first = np.zeros(len(packed), np.int64)
        first[inverse.ravel()] = np.arange(len(X))
        same = torch.from_numpy(inverse.ravel())
        self.weights = torch.zeros(len(packed)).double().index_add(0, same, weights)
        self.X, self.edges, self.size, self.groups, self.hidden = X[first], edges, size, groups, hidden
        self.dtype = torch.float32 if self.X.numel() * size > SINGLE else torch.float64
        self.S = ((2 * self.X - 1) if not len(groups) else self.X).to(self.dtype)
        self.moments = self.X.T @ (self.weights[:, None] * self.X)

    def matrix(self, theta: Tensor) -> Tensor:
        W = torch.zeros(self.size, self.size, dtype=theta.dtype)
        return W.index_put((self.edges[0], self.edges[1]), theta[self.size :])

    def qubo(self, theta: Tensor) -> Tensor:
        if len(self.groups):
            return self.matrix(theta) + theta[: self.size].diag()
        return from_ising(self.matrix(theta)[None], theta[None, : self.size])[0][0]

    def fields(self, theta: Tensor) -> Tensor:
        """Return what each bit adds to each energy, half of it for spins."""
        W = self.matrix(theta).to(self.dtype)
        return self.S @ (W + W.T) + theta[: self.size].to(self.dtype)

    def mean_energy(self, A: Tensor) -> Tensor:
        """Return the mean free energy of the samples."""
        if self.hidden:
            return (self.weights * _free_energies(A, self.X)).sum()
        return (self.moments * A).sum()

    def exact(self, theta: Tensor) -> Tensor:
        """Return minus the mean log-likelihood."""
        A, groups = self.qubo(theta), self.groups if len(self.groups) else None
        return self.mean_energy(A) + log_partition(A[None], groups=groups)[0]

    def pseudo(self, theta: Tensor) -> Tensor:
        """Return minus the mean log of the conditional probabilities."""
        fields, weights = self.fields(theta), self.weights.to(self.dtype)
        if not len(self.groups):
            return (weights @ torch.nn.functional.softplus(2 * self.S * fields)).sum().double()
        number = self.groups.of_bits(self.size)
        single = (1 - 2 * self.S[:, number < 0]) * fields[:, number < 0]
        value = (weights @ torch.nn.functional.softplus(-single)).sum().double()
        for size in sorted(set(map(len, self.groups.members))):
            bits = torch.tensor([group for group in self.groups.members if len(group) == size])
            logits, chosen = -fields[:, bits], self.S[:, bits]
            value = value + (weights @ (logits.logsumexp(2) - (logits * chosen).sum(2))).sum().double()
        return value

    def screening(self, theta: Tensor) -> Tensor:
        """Return Σ_i log of the mean of exp(E_i), E_i the energy that spin i enters."""
        return ((self.S * self.fields(theta)).double() + self.weights.log()[:, None]).logsumexp(0).sum()


def _minimize(objective: Callable[[Tensor], Tensor], start: Floats, size: int, how: Any) -> Any:
    """Minimize by L-BFGS; with l1, couplings are differences of two parts >= 0."""
    from scipy.optimize import minimize

    m, l1 = len(start) - size, how.l1
    penalized = slice(0 if how.groups is not None else size, None)

    def merged(z: Floats) -> Floats:
        return np.concatenate([z[:size], z[size : size + m] - z[size + m :]]) if l1 else z

    def value(z: Floats) -> tuple[float, Floats]:
        theta = torch.from_numpy(merged(z).copy()).requires_grad_()
        loss = objective(theta) + how.l2 * theta[penalized].square().sum()
        slope = torch.autograd.grad(loss, theta)[0].numpy()
        if not l1:
            return loss.item(), slope
        both = np.concatenate([slope[:size], slope[size:] + l1, l1 - slope[size:]])
        return loss.item() + l1 * z[size:].sum(), both

    options = {"maxiter": how.steps, "maxfun": 2 * how.steps, "ftol": 1e-12, "gtol": 1e-7, "maxcor": 20}
    bounds = [(None, None)] * size + [(0, None)] * (2 * m) if l1 else None
    z = np.concatenate([start[:size], start[size:].clip(0), (-start[size:]).clip(0)]) if l1 else start
    return merged(minimize(value, z, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x)


def _chains_fit(learner: _Learner, start: Floats, how: Any, rate: float = 0.05) -> Any:
    """Return θ by Adam with persistent chains, averaged over the last half."""
    theta = torch.from_numpy(start).requires_grad_()
    optimizer = torch.optim.Adam([theta], rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, how.steps, rate / 20)
    random = stream(how.seed, "begin")
    states = torch.randint(0, 2, (1, CHAINS, learner.size), generator=random, dtype=torch.int8)
    total, first = torch.zeros_like(theta), how.steps // 2
    for step in range(how.steps):
        A = learner.qubo(theta)
        seeds = instance_seeds(derive_seed(how.seed, "chains", step), 1)
        move_chains(A.detach()[None], states, [1.0] * CHAINS, 5, seeds, groups=learner.groups)
        couplings = theta[learner.size :]
        loss = learner.mean_energy(A) - energies(A[None], states.double())[0].mean()
        loss = loss + how.l2 * couplings.square().sum()
        optimizer.zero_grad()
        (loss + how.l1 * couplings.abs().sum()).backward()
        optimizer.step()
        schedule.step()
        if step >= first:
            total += theta.detach()
    return (total / (how.steps - first)).numpy()


def _annealed(A: Tensor, groups: Groups, seed: int) -> LogPartition:
    n = len(A)
    states = torch.randint(0, 2, (1, CHAINS, n), generator=stream(seed, "begin"), dtype=torch.int8)
    for number, group in enumerate(groups.members):
        chosen = torch.randint(0, len(group), (CHAINS,), generator=stream(seed, "begin", number))
        states[0, :, list(group)] = torch.nn.functional.one_hot(chosen, len(group)).to(torch.int8)
    log_weights, step = torch.zeros(CHAINS, dtype=torch.float64), 1 / RUNGS
    for rung in range(1, RUNGS + 1):
        log_weights -= step * energies(A[None], states.double())[0]
        seeds = instance_seeds(derive_seed(seed, "anneal", rung), 1)
        move_chains(A[None], states, [rung * step] * CHAINS, 1, seeds, groups=groups)
    top = log_weights.max()
    weights = (log_weights - top).exp()
    base = allowed_bits(as_clamp(None, 1, n), groups).item() * math.log(2)
    error = weights.std() / weights.mean() / math.sqrt(CHAINS)
    return LogPartition(base + float(top + weights.mean().log()), float(error))
