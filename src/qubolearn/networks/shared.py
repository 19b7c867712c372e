"""One A for all instances, as for rules: instances differ by clamped bits or by biases."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from qubolearn.data.arrays import count_rows
from qubolearn.errors import QubolearnError
from qubolearn.networks.predicting import Predicts
from qubolearn.networks.saving import Saved
from qubolearn.qubo import Qubo, SparseQubo, share


class SharedQubo(Predicts, Saved):
    """Return the same symmetric A for every instance; p may add biases.

    Args:
        n: the number of bits. Entries start at 0 and are not bounded.
        edges: the pairs i < j that may be coupled, ``[2, m]``; A is then sparse.
        levels: in evaluation, round couplings (:func:`harden`) and drop linear terms.
        biases: with levels, in evaluation, p ``[batch, n]`` are the linear terms. In
            training, biases would explain the rules away.
        strength: the size of the weakest rounded coupling; above all biases, rules are hard.

    >>> SharedQubo(5)(torch.zeros(3, 2)).shape
    torch.Size([3, 5, 5])
    """

    def __init__(
        self,
        n: int,
        edges: Tensor | None = None,
        levels: int | None = None,
        biases: bool = False,
        strength: float | None = None,
    ) -> None:
        super().__init__()
        if n < 1:
            raise QubolearnError(f"expected n >= 1 bits, got n={n}")
        if levels is not None and (levels < 2 or edges is not None):
            raise QubolearnError(f"levels={levels}; expected at least 2, and no edges, which hardening finds")
        if (biases or strength is not None) and levels is None:
            raise QubolearnError("biases and strength require rounded couplings; pass levels=2")
        self.n, self.levels, self.biases, self.strength = n, levels, biases, strength
        self.linear = nn.Parameter(torch.zeros(n))
        self.quadratic = nn.Parameter(torch.zeros((n, n) if edges is None else edges.shape[1]))
        self._graph = None
        if edges is not None:
            self._graph = SparseQubo(torch.zeros(1, n), edges, torch.zeros(1, edges.shape[1]))

    def forward(self, p: Any) -> Qubo:
        batch = count_rows(p)
        if self._graph is not None:
            return share(self._graph.with_values(self.linear[None], self.quadratic[None]), batch)
        hard = None if self.training else self.hardened()
        if hard is not None:
            rules = hard.A.quadratic
            if self.strength:
                rules = rules * (self.strength / rules.abs().min())
            given = p if self.biases else rules.new_zeros(1, self.n)
            return hard.A.with_values(given.expand(batch, -1), rules.expand(batch, -1))
        return share(self.soft()[None], batch)

    def soft(self) -> Tensor:
        """Return A as it was learned, ``[n, n]``."""
        return ((self.quadratic + self.quadratic.T) / 2).diagonal_scatter(self.linear)

    def hardened(self) -> Hardened | None:
        """Return the rounded couplings, or None if too few differ."""
        if self.levels is None:
            return None
        soft = self.soft().detach()
        i, j = torch.triu_indices(self.n, self.n, 1)
        different = torch.unique((soft + soft.T)[i, j])
        return harden(soft, self.levels) if len(different) >= self.levels else None


class Hardened(NamedTuple):
    """Rounded couplings, and what rounding changed."""

    A: SparseQubo  # a batch of one
    levels: list[float]  # the remaining values, 0 among them, ascending
    counts: list[int]  # the number of pairs of bits of each level
    gaps: list[tuple[float, float]]  # the soft values on both sides of each cut
    largest_linear: float  # magnitude of the dropped linear terms


def harden(A: Tensor, levels: int = 2) -> Hardened:
    """Round couplings to few levels, split at the widest gaps of A_ij + A_ji.

    Each class gets its mean, and the one nearest to 0 becomes 0. Linear terms are
    dropped. A is one QUBO; fewer different couplings than levels raise an error.

    >>> A = torch.tensor([[0.0, 1.0, 0.1], [0.0, 0.0, 0.9], [0.0, 0.0, 0.0]])
    >>> found = harden(A)
    >>> found.A.edges.tolist(), [round(level, 2) for level in found.levels], found.counts
    ([[0, 1], [1, 2]], [0.0, 0.95], [1, 2])
    """
    n = A.shape[-1]
    if A.numel() != n * n:
        raise QubolearnError(f"expected one QUBO [n, n], got A of shape {list(A.shape)}")
    one = A.detach().reshape(n, n)
    i, j = torch.triu_indices(n, n, 1, device=one.device)
    values = (one + one.T)[i, j]
    ordered = values.sort().values
    steps = ordered.diff()
    different = 1 + int((steps > 0).sum())
    if not 2 <= levels <= different:
        raise QubolearnError(f"levels={levels}; expected 2 to {different}, the different couplings of A")
    cuts = steps.topk(levels - 1).indices.sort().values
    bounds = (ordered[cuts] + ordered[cuts + 1]) / 2
    kind = torch.bucketize(values, bounds)
    counts = torch.bincount(kind, minlength=levels)
    means = torch.zeros(levels, dtype=values.dtype, device=one.device).index_add(0, kind, values) / counts
    means[means.abs().argmin()] = 0.0
    kept = means[kind] != 0
    hard = SparseQubo(one.new_zeros(1, n), torch.stack([i[kept], j[kept]]), means[kind][kept][None])
    gaps = list(zip(ordered[cuts].tolist(), ordered[cuts + 1].tolist(), strict=True))
    return Hardened(hard, means.tolist(), counts.tolist(), gaps, float(one.diagonal().abs().max()))
