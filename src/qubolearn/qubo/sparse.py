"""A batch of QUBOs that share one graph.

1,000 QUBOs on a Pegasus chip (5,640 bits) take 0.2 GB in float32; dense ones take 127 GB.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor

from qubolearn.errors import NonFiniteError, QubolearnError, counted

#: The most bytes of a dense copy of a sparse batch.
MAX_DENSE_BYTES = 4 * 2**30
#: The largest energy; intermediate sums are a few times larger.
MAX_ENERGY = 1e306
#: Up to this many entries torch adds on one thread.
MAX_UNTHREADED = 2**15


@dataclass(frozen=True, eq=False, repr=False)
class SparseQubo:
    """QUBOs on one graph: E(x) = Σ_i linear_i x_i² + Σ_(i,j) quadratic_ij x_i x_j.

    It is accepted wherever a dense A is, and differentiable in ``linear`` and ``quadratic``.

    Args:
        linear: ``[batch, n]``, floating point and finite.
        edges: int64 ``[2, m]``; each column is a pair i < j of bits, and no pair occurs twice.
        quadratic: ``[batch, m]``, of the same dtype and on the same device.

    >>> linear, edges = torch.tensor([[1.0, 1.0]]), torch.tensor([[0], [1]])
    >>> A = SparseQubo(linear, edges, torch.tensor([[-3.0]]))
    >>> A
    SparseQubo(batch=1, n=2, edges=1, dtype=torch.float32, device=cpu)
    >>> A.dense().tolist()
    [[[1.0, -3.0], [0.0, 1.0]]]
    """

    linear: Tensor  # [batch, n]
    edges: Tensor  # [2, m], int64
    quadratic: Tensor  # [batch, m]

    def __post_init__(self) -> None:
        _check_values(self.linear, self.quadratic, self.edges)
        _check_edges(self.edges, self.n)

    @classmethod
    def from_dense(cls, A: Tensor) -> SparseQubo:
        """Return the QUBOs of A, with an edge for each nonzero A_ij + A_ji."""
        check_qubo(A)
        U = upper_triangular(A)
        try:
            check_finite("A_ij + A_ji", U)
        except NonFiniteError as error:
            raise NonFiniteError(f"{error} in {A.dtype}; pass A.double(), or divide A") from None
        edges = (U.triu(1) != 0).any(0).nonzero().T.contiguous()
        return on_checked_graph(U.diagonal(dim1=1, dim2=2), edges, U[:, edges[0], edges[1]])

    def dense(self) -> Tensor:
        """Return upper triangular matrices ``[batch, n, n]``; raise above 4 GiB."""
        needed = len(self) * self.n**2 * self.linear.element_size()
        if needed > MAX_DENSE_BYTES:
            what = f"{counted(len(self), 'QUBO')} of n={self.n} bits take {needed / 2**30:.1f} GiB"
            raise QubolearnError(f"{what} as matrices (limit 4 GiB); take fewer, or SimulatedAnnealing()")
        A = torch.diag_embed(self.linear)
        A[:, self.edges[0], self.edges[1]] = self.quadratic
        return A

    def with_values(self, linear: Tensor, quadratic: Tensor) -> SparseQubo:
        """Return a QUBO with other values on the same graph, which is not checked again."""
        if linear.shape[1:] != (self.n,):
            raise QubolearnError(f"linear is {list(linear.shape)}; this graph expects [batch, {self.n}]")
        _check_values(linear, quadratic, self.edges)
        return on_checked_graph(linear, self.edges, quadratic)

    def __len__(self) -> int:
        return self.linear.shape[0]

    def __getitem__(self, index: Any) -> SparseQubo:
        """Return some QUBOs of the batch; an integer gives a batch of one."""
        if isinstance(index, int):
            if not -len(self) <= index < len(self):
                raise IndexError(f"QUBO {index} of a batch of {len(self)}")
            index = slice(index, index + 1 or None)
        return on_checked_graph(self.linear[index], self.edges, self.quadratic[index])

    def __repr__(self) -> str:
        size = f"batch={len(self)}, n={self.n}, edges={self.edges.shape[1]}"
        return f"SparseQubo({size}, dtype={self.dtype}, device={self.device})"

    @property
    def n(self) -> int:
        """The number of bits."""
        return self.linear.shape[1]

    @property
    def shape(self) -> torch.Size:
        """The shape of the dense batch: ``[batch, n, n]``."""
        return torch.Size((len(self), self.n, self.n))

    @property
    def dtype(self) -> torch.dtype:
        return self.linear.dtype

    @property
    def device(self) -> torch.device:
        return self.linear.device

    @property
    def is_cpu(self) -> bool:
        return self.linear.is_cpu

    def to(self, *args: Any, **kwargs: Any) -> SparseQubo:
        """Return the QUBO in another dtype or on another device; arguments as for ``Tensor.to``."""
        linear = self.linear.to(*args, **kwargs)
        return on_checked_graph(linear, self.edges.to(linear.device), self.quadratic.to(*args, **kwargs))

    def detach(self) -> SparseQubo:
        """Return the same values without a gradient."""
        return on_checked_graph(self.linear.detach(), self.edges, self.quadratic.detach())


Q = TypeVar("Q", Tensor, SparseQubo)

#: A batch of QUBOs: a dense tensor ``[batch, n, n]`` or a :class:`SparseQubo`.
Qubo: TypeAlias = Tensor | SparseQubo


def as_dense(A: Qubo) -> Tensor:
    return A.dense() if isinstance(A, SparseQubo) else A


def as_sparse(A: Qubo) -> SparseQubo:
    """Return A as a sparse batch on the CPU, in float64 and without a gradient."""
    sparse = A if isinstance(A, SparseQubo) else SparseQubo.from_dense(A.double())
    return sparse.detach().to("cpu", torch.float64)


def share(one: Q, batch: int) -> Q:
    """Return a batch of one as ``batch`` instances; see :func:`shared_qubo`."""
    if isinstance(one, SparseQubo):
        linear, quadratic = (values.expand(batch, -1) for values in (one.linear, one.quadratic))
        expanded: Any = on_checked_graph(linear, one.edges, quadratic)
        object.__setattr__(expanded, "_shared_qubo", one)
    else:
        expanded = one.expand(batch, -1, -1)
        expanded._shared_qubo = one
    return expanded  # type: ignore[no-any-return]


def shared_qubo(A: Qubo) -> Any:
    """Return the QUBO that :func:`share` made A from; None for any other A."""
    return getattr(A, "_shared_qubo", None)


def upper_triangular(A: Tensor) -> Tensor:
    """Return the upper-triangular matrix ``[..., n, n]`` of the same energies."""
    return A.triu() + A.tril(-1).mT


def on_checked_graph(linear: Tensor, edges: Tensor, quadratic: Tensor) -> SparseQubo:
    made = object.__new__(SparseQubo)
    for name, tensor in (("linear", linear), ("edges", edges), ("quadratic", quadratic)):
        object.__setattr__(made, name, tensor)
    return made


def _check_values(linear: Tensor, quadratic: Tensor, edges: Tensor) -> None:
    for name, tensor in (("linear", linear), ("quadratic", quadratic), ("edges", edges)):
        check_plain(name, tensor)
        if tensor.device != linear.device:
            raise QubolearnError(f"linear on {linear.device}, {name} on {tensor.device}; expected one device")
    if linear.ndim != 2 or linear.shape[1] < 1:
        raise QubolearnError(f"linear must have shape [batch, n] with n >= 1, got {list(linear.shape)}")
    if edges.ndim != 2 or edges.shape[0] != 2 or edges.dtype != torch.int64:
        raise QubolearnError(f"edges must be int64 [2, m], got {edges.dtype} {list(edges.shape)}")
    if list(quadratic.shape) != (expected := [len(linear), edges.shape[1]]):
        raise QubolearnError(f"quadratic must be [batch, m] = {expected}, got {list(quadratic.shape)}")
    if not linear.dtype.is_floating_point or linear.dtype != quadratic.dtype:
        kinds = f"linear is {linear.dtype}, quadratic {quadratic.dtype}"
        raise QubolearnError(f"{kinds}; expected one float dtype")
    check_finite("linear", linear)
    check_finite("quadratic", quadratic)


def _check_edges(edges: Tensor, n: int) -> None:
    """Raise unless every edge is a pair 0 <= i < j < n that occurs once."""
    i, j = edges
    wrong = (i < 0) | (j >= n) | (i >= j)
    if bool(wrong.any()):
        column = int(wrong.nonzero()[0])
        pair = (int(i[column]), int(j[column]))
        remedy = "(a self edge belongs to linear)" if pair[0] == pair[1] else f"of 0 to {n - 1}"
        raise QubolearnError(f"edge {column} is {pair} on n={n} bits; expected pairs i < j {remedy}")
    keys = (i * n + j).sort().values
    repeated = keys[1:] == keys[:-1]
    if bool(repeated.any()):
        key = int(keys[1:][repeated][0])
        raise QubolearnError(f"edge {(key // n, key % n)} occurs twice; add its couplings")


def check_qubo(A: Qubo, what: str = "A") -> None:
    """Raise unless A is a finite floating point ``[batch, n, n]``, n >= 1, or SparseQubo."""
    if isinstance(A, SparseQubo):
        check_finite(f"{what}.linear", A.linear)
        check_finite(f"{what}.quadratic", A.quadratic)
        return
    if not isinstance(A, Tensor):
        raise QubolearnError(f"{what} must be a Tensor [batch, n, n] or SparseQubo, got {type(A).__name__}")
    if A.ndim != 3 or A.shape[1] != A.shape[2] or A.shape[2] < 1:
        hint = f"; for one QUBO pass {what}[None]" if A.ndim == 2 else ""
        raise QubolearnError(f"{what} must have shape [batch, n, n] with n >= 1, got {list(A.shape)}{hint}")
    if not A.dtype.is_floating_point:
        raise QubolearnError(f"{what} must be a floating point tensor, got {A.dtype}; call {what}.float()")
    check_plain(what, A)
    check_finite(what, A)


def check_plain(what: str, tensor: Tensor) -> None:
    if not isinstance(tensor, Tensor):
        raise QubolearnError(f"{what} must be a torch.Tensor, got {type(tensor).__name__}")
    if tensor.is_meta or tensor.layout != torch.strided:
        layout = f"a {tensor.layout} tensor on device {tensor.device}"
        raise QubolearnError(f"expected a dense tensor with values as {what}, got {layout}")
    if tensor.dtype.is_floating_point and tensor.dtype.itemsize < 2:  # torch cannot add them
        raise QubolearnError(f"{what} is {tensor.dtype}, which cannot be computed with; call {what}.float()")
    if tensor.is_complex():
        raise QubolearnError(f"expected real numbers as {what}, got {tensor.dtype}")


def check_finite(what: str, tensor: Tensor) -> None:
    # A finite sum has finite terms, and costs a fraction of a check of every entry.
    if not can_read_values(tensor) or math.isfinite(_sum(tensor.detach())):
        return
    if places := (~torch.isfinite(tensor)).nonzero().tolist():
        value = tensor[tuple(places[0])].item()
        raise NonFiniteError(f"{what} must be finite, but {what}{places[0]} is {value}")


def check_solvable(A: Qubo) -> None:
    """Raise unless A passes :func:`check_qubo` and float64 holds its energies."""
    check_qubo(A)
    n, limit = A.shape[2], MAX_ENERGY / A.shape[2] ** 2
    for part in (A.linear, A.quadratic) if isinstance(A, SparseQubo) else (A,):
        if part.dtype != torch.float64 or not part.numel() or not can_read_values(part):
            continue  # no sum of smaller dtypes comes near
        if (largest := max(float(part.max()), -float(part.min()))) > limit:
            entries = f"A has entries up to {largest:.1e} in size (limit {limit:.1e}); divide it"
            raise NonFiniteError(f"energies of n={n} bits may overflow float64: {entries}")


def check_memory(needed: float, A: Qubo, count: int, noun: str = "read") -> None:
    """Raise if some reads of A need more than half of the machine's memory."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > memory / 2:
        what = f"{counted(count, noun)} of {counted(len(A), 'QUBO')} of n={A.shape[2]} bits"
        needs = f"{needed / 2**30:.3g} GiB, and this machine has {memory / 2**30:.3g}"
        raise QubolearnError(f"{what} need {needs}; request fewer, or solve fewer at once")


def can_read_values(A: Tensor) -> bool:
    """Return True unless a CUDA graph is being captured on A's device."""
    return not (A.is_cuda and torch.cuda.is_current_stream_capturing())


def _sum(A: Tensor) -> float:
    if A.is_cpu and A.numel() > MAX_UNTHREADED and A.dtype in (torch.float32, torch.float64):
        with np.errstate(over="ignore", invalid="ignore"):
            return float(A.numpy().sum())
    return float(A.sum())
