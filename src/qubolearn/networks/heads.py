"""p -> A: what turns the outputs of any body into the allowed entries of a QUBO."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from qubolearn.chips.topologies import Topology
from qubolearn.errors import NonFiniteError, QubolearnError, unknown_name
from qubolearn.networks import Method
from qubolearn.notebook import MOST_CELLS, heat_map, table
from qubolearn.qubo import Qubo, SparseQubo, as_dense, reflected

__all__ = ["Couplings", "QuboNetwork", "Standardise"]


class Standardise(nn.Module):
    """(p - mean) / std, fitted on training data and stored with the model. ``[batch, m] -> [batch, m]``"""

    mean: Tensor
    scale: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("scale", torch.ones(size))

    def fit(self, p: Tensor) -> None:
        """Take mean and standard deviation from p ``[instances, m]``; entries that never vary are only shifted.

        NaN and infinities are refused, since they would silently spread to every instance.
        """
        mean, std = p.mean(0), p.std(0, correction=0)
        if not bool(mean.isfinite().all()):
            instance, entry = (~p.isfinite()).nonzero()[0].tolist()
            raise NonFiniteError(f"p[{instance}, {entry}] of the training instances is {p[instance, entry].item()}")
        self.mean.copy_(mean)
        self.scale.copy_(torch.where(std > 1e-6 * p.abs().mean(0).clamp_min(1e-6), 1 / std, 1.0))

    def forward(self, p: Tensor) -> Tensor:
        return (p - self.mean) * self.scale


class Couplings(NamedTuple):
    """The output of a network for a batch of instances."""

    A: Qubo  # [batch, n, n], symmetric, or sparse
    features: list[Tensor]  # outputs of the hidden layers, [batch, hidden] each; empty where the body gives none


class QuboNetwork(nn.Module):
    """A network p -> A around any body: symmetric ``[batch, n, n]``, with entries only where the topology has them.

    A body is any module that takes p to ``topology.size`` numbers per instance: one for each bit, then one for each
    coupler, in the order of ``topology.entries``. It may return ``(outputs, features)`` instead, with a list of hidden
    features that :class:`qubolearn.SparseFeatures` uses. p is whatever the body takes: a tensor ``[batch, m]``, or a
    structure of tensors.

    A body with a method ``reference(p)``, bits ``[batch, n]``, is understood to speak of changes to these: its numbers
    are those of the QUBO of (x XOR reference), which :func:`qubolearn.qubo.reflected` turns into A.

    quant and diag end in sin, so that entries stay in [-1, 1], the range of an annealer's couplers. *pure* regresses
    scores of the bits without a last activation; as a QUBO that is A = -diag(scores), whose minimiser is scores > 0, so
    that all methods are evaluated through the same pipeline.

    Args:
        body: the module.
        topology: which entries exist; the diagonal one for *diag* and *pure*.
        inputs: m, where p ``[batch, m]`` should be standardised; ``fit`` then takes mean and deviation from the
            training data. None hands p to the body as it is.
        method: quant, diag or pure.
        sparse: return A as a :class:`qubolearn.SparseQubo`, without ever making ``[batch, n, n]``; by default from 256
            bits on, where at most one entry in eight exists.

    Raises:
        QubolearnError: for an unknown method, couplers with *diag* or *pure*, or a body that is no module; when called,
            for a body that returns another number of entries.

    >>> from qubolearn import topology
    >>> pattern = topology("dense", 3)
    >>> network = QuboNetwork(nn.Linear(5, pattern.size), pattern)
    >>> network(torch.zeros(2, 5)).shape
    torch.Size([2, 3, 3])
    """

    column: Tensor  # [n * n]: which of the entries stands there; empty where A is sparse
    edges: Tensor  # [2, couplers]

    def __init__(
        self,
        body: nn.Module,
        topology: Topology,
        inputs: int | None = None,
        method: Method = "quant",
        sparse: bool | None = None,
    ) -> None:
        super().__init__()
        if method not in ("quant", "diag", "pure"):
            raise unknown_name("method", method, ["quant", "diag", "pure"])
        if not isinstance(body, nn.Module):
            raise QubolearnError(f"body={body!r} is no torch.nn.Module")
        if method != "quant" and topology.couplers:
            raise QubolearnError(
                f"method {method!r} has no couplers, but topology {topology.name!r} has {len(topology.couplers)}; "
                "use topology('diagonal', n)"
            )
        self.standardise = None if inputs is None else Standardise(inputs)
        self.body = body
        self.method = method
        self.n = topology.n
        rows, columns = topology.entries
        self.size = len(rows)
        self.sparse = (self.n >= 256 and 8 * self.size <= self.n**2) if sparse is None else sparse
        column = torch.full((self.n, self.n) if not self.sparse else (0, 0), self.size)
        if not self.sparse:  # entries that do not exist read a zero column
            column[rows, columns] = column[columns, rows] = torch.arange(self.size)
        self.register_buffer("column", column.flatten(), persistent=False)
        self.register_buffer("edges", torch.stack([rows[self.n :], columns[self.n :]]), persistent=False)
        self._graph: SparseQubo | None = None

    def couplings(self, p: Any) -> Couplings:
        """A and the hidden features that SparseFeatures needs."""
        outputs = self.body(p if self.standardise is None else self.standardise(p))
        features: list[Tensor] = []
        if isinstance(outputs, tuple) and len(outputs) == 2:
            outputs, features = outputs
        if not isinstance(outputs, Tensor) or outputs.ndim != 2 or outputs.shape[1] != self.size:
            shape = list(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
            raise QubolearnError(
                f"the body {type(self.body).__name__} returned {shape}; want [batch, {self.size}]: {self.n} bits and "
                f"{self.size - self.n} couplers (topology.size)"
            )
        A, reference = self.assemble(self.entries(outputs)), getattr(self.body, "reference", None)
        return Couplings(A if reference is None else reflected(A, reference(p)), features)

    def entries(self, outputs: Tensor) -> Tensor:
        """The last activation: what the body says ``[batch, entries]`` -> the entries of A that exist."""
        return -outputs if self.method == "pure" else torch.sin(outputs)

    def assemble(self, entries: Tensor) -> Qubo:
        """Entries ``[batch, entries]`` -> A ``[batch, n, n]``, symmetric, or the same as a sparse value."""
        if self.sparse:
            linear, quadratic = entries[:, : self.n], 2 * entries[:, self.n :]  # A_ij + A_ji
            if self._graph is None or self._graph.device != entries.device:
                self._graph = SparseQubo(linear[:0].detach(), self.edges, quadratic[:0].detach())
            return self._graph.with_values(linear, quadratic)
        return nn.functional.pad(entries, (0, 1)).index_select(1, self.column).reshape(-1, self.n, self.n)

    def forward(self, p: Any) -> Qubo:
        """p -> A ``[batch, n, n]``, or the same as a sparse value."""
        return self.couplings(p).A

    def _repr_html_(self) -> str:
        weights = sum(parameter.numel() for parameter in self.parameters())
        rows: list[tuple[str, object]] = [("bits", self.n), ("couplers", self.size - self.n), ("method", self.method)]
        rows += [("body", type(self.body).__name__), ("weights", weights)]
        if self.sparse or self.n > MOST_CELLS:
            return table(type(self).__name__, rows)
        if self.standardise is None:  # nothing says what p looks like
            there = (self.column < self.size).double().reshape(self.n, self.n)
            return table(type(self).__name__, rows) + heat_map(there.tolist(), "entries of A that exist")
        was_training = self.training
        try:
            with torch.no_grad():
                A = as_dense(self.eval()(self.standardise.mean[None]))[0]
        finally:
            self.train(was_training)
        return table(type(self).__name__, rows) + heat_map(A.tolist(), "A of the mean input")
