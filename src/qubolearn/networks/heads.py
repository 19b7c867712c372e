"""The MLP, and the network that turns outputs of any body into a QUBO."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from qubolearn.chips.topologies import Topology
from qubolearn.errors import NonFiniteError, QubolearnError
from qubolearn.networks import Head
from qubolearn.networks.predicting import Predicts
from qubolearn.networks.saving import Saved
from qubolearn.qubo import Qubo, SparseQubo, as_dense, reflected
from qubolearn.qubo.algebra import symmetric

__all__ = ["HEADS", "MLP", "Couplings", "DiagonalHead", "DirectHead", "QuboNetwork", "Standardize"]


class Standardize(nn.Module):
    """Map p to (p - mean) / std, fitted on training data."""

    mean: Tensor
    scale: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("scale", torch.ones(size))

    def fit(self, p: Tensor) -> None:
        """Store mean and deviation of p ``[instances, m]``; raise for NaN."""
        mean, std = p.mean(0), p.std(0, correction=0)
        if not bool(mean.isfinite().all()):
            instance, entry = (~p.isfinite()).nonzero()[0].tolist()
            value = p[instance, entry].item()
            raise NonFiniteError(f"p[{instance}, {entry}] of the training instances is {value}")
        self.mean.copy_(mean)
        self.scale.copy_(torch.where(std > 1e-6 * p.abs().mean(0).clamp_min(1e-6), 1 / std, 1.0))

    def forward(self, p: Tensor) -> Tensor:
        return (p - self.mean) * self.scale


class MLP(Saved):
    """The paper's network: L layers of width H with ReLU; the input also enters the odd layers between first and last.

    Args:
        inputs: m, the length of p.
        outputs: the number of entries of A, ``topology.size``.
        layers: L, the number of layers, at least 2.
        hidden: H, the width of hidden layers, at least 1.
        dropout: the share of hidden features that is dropped in training, and half that share of the inputs.

    >>> outputs, features = MLP(inputs=6, outputs=3, layers=5, hidden=4)(torch.zeros(2, 6))
    >>> list(outputs.shape), len(features)
    ([2, 3], 4)
    """

    def __init__(
        self, inputs: int, outputs: int, layers: int = 5, hidden: int = 78, dropout: float = 0.0
    ) -> None:
        super().__init__()
        if layers < 2 or hidden < 1:
            raise QubolearnError(f"layers={layers}, hidden={hidden}; expected layers >= 2 and hidden >= 1")
        self.in_features = inputs
        self.skips = [number % 2 == 1 and 1 < number < layers for number in range(1, layers + 1)]
        self.dropout = nn.ModuleList([nn.Dropout(dropout / 2), nn.Dropout(dropout)] if dropout else [])
        widths = [inputs] + [hidden] * (layers - 1)
        self.linears = nn.ModuleList(
            nn.Linear(width + inputs * skip, hidden if number < layers else outputs)
            for number, (width, skip) in enumerate(zip(widths, self.skips, strict=True), 1)
        )

    def forward(self, p: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return outputs ``[batch, outputs]`` and the hidden features."""
        plain = [one for one in self.linears if type(one) is nn.Linear and not one._forward_hooks]
        weights = [w for one in plain for w in (one.weight, one.bias)]
        if len(weights) == 2 * len(self.skips) and not self.dropout and _suits_numpy(p, weights):
            *features, outputs = _Layers.apply(self.skips, p, *weights)  # type: ignore[no-untyped-call]
            return outputs, features
        h = p = self.dropout[0](p) if self.dropout else p
        features = []
        *inner, last = self.linears
        for linear, skip in zip(inner, self.skips, strict=False):
            h = linear(torch.cat([h, p], -1) if skip else h).relu_()
            features.append(h)
            h = self.dropout[1](h) if self.dropout else h
        return last(h), features


def _suits_numpy(p: Tensor, weights: list[Tensor]) -> bool:
    """Return True in steps of ``fit`` on a CPU, which have one thread."""
    alone = torch.is_grad_enabled() and torch.get_num_threads() == 1 and not torch.compiler.is_compiling()
    plain = p.is_cpu and p.ndim == 2 and p.dtype == torch.float32 and not p.requires_grad
    return alone and plain and {*map(type, weights)} == {nn.Parameter} and weights[0].dtype == p.dtype


class _Layers(torch.autograd.Function):
    """The layers of an MLP by NumPy: fewer calls, and a BLAS that uses AVX-512 on AMD, too."""

    @staticmethod
    @np.errstate(over="ignore", invalid="ignore")
    def forward(ctx: Any, skips: list[bool], p: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
        x, *arrays = (tensor.detach().numpy() for tensor in (p, *weights))
        h, inputs, found = x, [], list[Tensor]()
        for W, b, skip in zip(arrays[::2], arrays[1::2], skips, strict=True):
            inputs.append(np.concatenate([h, x], 1) if skip else h)
            h = inputs[-1] @ W.T
            h += b
            found.append(torch.from_numpy(h).relu_() if len(inputs) < len(skips) else torch.from_numpy(h))
        ctx.kept = inputs, arrays[::2]
        ctx.save_for_backward(*found, *weights)
        ctx.set_materialize_grads(False)
        return tuple(found)

    @staticmethod
    @once_differentiable
    @np.errstate(over="ignore", invalid="ignore")
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        found, (inputs, matrices), slopes = ctx.saved_tensors, ctx.kept, list[Tensor]()
        slope = np.zeros(found[len(grads) - 1].shape, np.float32)
        for k, grad in reversed([*enumerate(grads)]):
            slope = slope if grad is None else slope + grad.numpy()
            if k < len(grads) - 1:
                slope *= found[k].sign().numpy()
            slopes += torch.from_numpy(slope).sum(0), torch.from_numpy(slope.T @ inputs[k])
            slope = slope @ matrices[k][:, : len(matrices[k - 1])] if k else slope
        return None, None, *reversed(slopes)


class Couplings(NamedTuple):
    """The output of a network for a batch of instances."""

    A: Qubo  # [batch, n, n], symmetric, or sparse
    features: list[Tensor]  # [batch, hidden] of each hidden layer


class QuboNetwork(Predicts, Saved):
    """Map inputs p to QUBOs A ``[batch, n, n]``, symmetric, with any PyTorch module as the body.

    A body maps p to ``topology.size`` numbers per instance: one per bit, then one
    per coupler, in the order of ``topology.entries``. It may return ``(outputs,
    features)``, for :class:`qubolearn.losses.SparseFeatures`. With a method
    ``reference(p)``, A is the QUBO of x XOR these bits.

    Args:
        body: the module.
        topology: the pairs of bits that may be coupled, such as ``topology("dense", n)``.
        inputs: m, the number of columns of p ``[batch, m]``, to standardize them by the training data.
        sparse: return a :class:`qubolearn.SparseQubo`; by default from 256 bits on, if
            at most one entry in eight exists.
        bound: keep entries in [-1, 1], the range of an annealer's couplers, by sin, as QuAnt does.
        centered: couplings are those of x - center, the mean of the training bits, so
            that a coupling does not shift the bias of its bits.
        fixed: a known part that is added to A, ``[n, n]``, or a function or module from
            p to ``[batch, n, n]``. It may have entries that the topology lacks.
        hard: ``fixed`` are penalties, 0 for allowed states and at least 1 for others;
            they are scaled beyond what flipping a bit can change in the learned part.

    >>> from qubolearn import topology
    >>> pattern = topology("dense", 3)
    >>> QuboNetwork(nn.Linear(5, pattern.size), pattern)(torch.zeros(2, 5)).shape
    torch.Size([2, 3, 3])
    """

    head: ClassVar[Head] = "coupled"  # its name in recipes
    column: Tensor  # [n * n]: the index of each entry; empty if A is sparse
    edges: Tensor  # [2, couplers]

    def __init__(
        self,
        body: nn.Module,
        topology: Topology,
        inputs: int | None = None,
        sparse: bool | None = None,
        *,
        bound: bool = False,
        centered: bool = False,
        fixed: Tensor | Callable[[Any], Tensor] | None = None,
        hard: bool = False,
    ) -> None:
        super().__init__()
        if not isinstance(body, nn.Module):
            raise QubolearnError(f"expected a torch.nn.Module as body, got {body!r}")
        if isinstance(self, DiagonalHead) and topology.couplers:
            what = f"{type(self).__name__} has no couplers, but topology {topology.name!r} has {len(topology.couplers)}"
            raise QubolearnError(f"{what}; use topology('diagonal', n)")
        self.standardize = None if inputs is None else Standardize(inputs)
        self.body = body
        self.n, self.bound = topology.n, bound
        rows, columns = topology.entries
        self.size = len(rows)
        self.sparse = (self.n >= 256 and 8 * self.size <= self.n**2) if sparse is None else sparse
        column = torch.full((0, 0) if self.sparse else (self.n, self.n), self.size)
        if not self.sparse:  # missing entries read a zero column
            column[rows, columns] = column[columns, rows] = torch.arange(self.size)
        self.register_buffer("column", column.flatten(), persistent=False)
        self.register_buffer("edges", topology.entries[:, self.n :], persistent=False)
        self.center: Tensor | None
        self.register_buffer("center", torch.zeros(self.n) if centered else None)
        self._graph: SparseQubo | None = None
        if isinstance(fixed, Tensor) and (fixed.shape != (self.n, self.n) or self.sparse):
            kind = f"{list(fixed.shape)}{' for a sparse network' * self.sparse}"
            raise QubolearnError(f"fixed is {kind}; expected [{self.n}, {self.n}] and sparse=False")
        self.hard = hard
        self.penalties: Any
        known = isinstance(fixed, Tensor)
        self.register_buffer("penalties", symmetric(fixed.float()) if known else None, False)  # type: ignore[union-attr]
        self.fixed: Any = None if known else fixed

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        for name in [name for name in state if name.startswith(f"{prefix}standardise.")]:  # in old files
            state[name.replace("standardise", "standardize")] = state.pop(name)
        super()._load_from_state_dict(state, prefix, *rest)

    def couplings(self, p: Any) -> Couplings:
        """Return A and the hidden features."""
        outputs = self.body(p if self.standardize is None else self.standardize(p))
        features: list[Tensor] = []
        if isinstance(outputs, tuple) and len(outputs) == 2:
            outputs, features = outputs
        if not isinstance(outputs, Tensor) or outputs.ndim != 2 or outputs.shape[1] != self.size:
            shape = list(getattr(outputs, "shape", [type(outputs).__name__]))
            want = f"[batch, {self.size}]: {self.n} bits and {self.size - self.n} couplers (topology.size)"
            raise QubolearnError(f"the body {type(self.body).__name__} returned {shape}; expected {want}")
        A, reference = self.assemble(self.entries(outputs)), getattr(self.body, "reference", None)
        A = A if reference is None else reflected(A, reference(p))
        known = self.penalties if self.fixed is None else self.fixed(p)
        if known is None:
            return Couplings(A, features)
        sizes = as_dense(A).detach().abs()
        change = 2 * sizes.sum(2) - sizes.diagonal(dim1=1, dim2=2)  # the most that a flip changes
        weight = 2 * change.amax(1)[:, None, None] if self.hard else 1.0
        return Couplings(as_dense(A) + weight * known.to(A.dtype), features)

    def entries(self, outputs: Tensor) -> Tensor:
        """Map outputs of the body to entries of A, ``[batch, entries]`` both."""
        if self.bound:
            return torch.sin(outputs)
        if self.center is None:
            return outputs
        (i, j), m, e = self.edges, 2 * self.center.to(outputs.dtype), outputs[:, self.n :]
        linear = outputs[:, : self.n].index_add(1, i, e * m[j], alpha=-1).index_add(1, j, e * m[i], alpha=-1)
        return torch.cat([linear, e], 1)

    def assemble(self, entries: Tensor) -> Qubo:
        """Place entries ``[batch, entries]`` in A."""
        if self.sparse:
            linear, quadratic = entries[:, : self.n], 2 * entries[:, self.n :]  # A_ij + A_ji
            if self._graph is None or self._graph.device != entries.device:
                self._graph = SparseQubo(linear[:0].detach(), self.edges, quadratic[:0].detach())
            return self._graph.with_values(linear, quadratic)
        padded = torch.cat([entries, entries.new_zeros(entries.shape[0], 1)], 1)
        return padded.index_select(1, self.column).reshape(-1, self.n, self.n)

    def forward(self, p: Any) -> Qubo:
        """Return A ``[batch, n, n]``, dense or sparse."""
        return self.couplings(p).A


class DiagonalHead(QuboNetwork):
    """A head without couplers: each bit is decided alone."""

    head: ClassVar[Head] = "uncoupled"


class DirectHead(DiagonalHead):
    """A head that regresses the bits: A = -diag(scores), minimized by scores > 0.

    As a QUBO it passes through the same pipeline as the other heads.
    """

    head = "direct"

    def entries(self, outputs: Tensor) -> Tensor:
        return -outputs


#: The heads by their names in recipes.
HEADS: dict[str, type[QuboNetwork]] = {kind.head: kind for kind in (QuboNetwork, DiagonalHead, DirectHead)}
