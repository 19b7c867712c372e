"""A batch of QUBOs that share one graph: linear terms, a list of edges, and one coupling per edge and QUBO.

A dense batch of 1,000 QUBOs on a whole Pegasus chip (5,640 bits) takes 127 GB in float32; in this form it takes 0.2 GB.
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

#: The most memory that a dense copy of a sparse batch may take.
MAX_DENSE_BYTES = 4 * 2**30
#: The largest energy that may occur; intermediate sums are a few times larger.
MAX_ENERGY = 1e306


@dataclass(frozen=True, eq=False, repr=False)
class SparseQubo:
    """A batch of QUBOs on one graph: E(x) = Σ_i linear_i x_i² + Σ_(i,j) quadratic_ij x_i x_j; on bits x_i² is x_i.

    It is accepted wherever a dense A ``[batch, n, n]`` is, and differentiable in ``linear`` and ``quadratic``.

    Args:
        linear: ``[batch, n]``, floating point and finite.
        edges: int64 ``[2, m]``; each column is a pair i < j of bits, and no pair occurs twice.
        quadratic: ``[batch, m]``, of the dtype of ``linear``; all three tensors are on one device.

    >>> A = SparseQubo(torch.tensor([[1.0, 1.0]]), torch.tensor([[0], [1]]), torch.tensor([[-3.0]]))
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
        """Return the QUBOs of A ``[batch, n, n]``, with an edge wherever A_ij + A_ji is not 0 in one of them."""
        check_dense(A)
        U = upper_triangular(A)
        try:
            check_finite("A_ij + A_ji", U)
        except NonFiniteError as error:
            raise NonFiniteError(f"{error} in {A.dtype}; pass A.double(), or divide A") from None
        edges = (U.triu(1) != 0).any(0).nonzero().T.contiguous()
        return on_checked_graph(U.diagonal(dim1=1, dim2=2), edges, U[:, edges[0], edges[1]])

    def dense(self) -> Tensor:
        """Return upper triangular matrices ``[batch, n, n]``; raise if these exceed 4 GiB."""
        needed = len(self) * self.n**2 * self.linear.element_size()
        if needed > MAX_DENSE_BYTES:
            raise QubolearnError(
                f"{counted(len(self), 'QUBO')} of n={self.n} bits as dense matrices take {needed / 2**30:.1f} GiB "
                f"(limit {MAX_DENSE_BYTES / 2**30:.0f} GiB); take fewer at once, or SimulatedAnnealing()"
            )
        A = torch.diag_embed(self.linear)
        A[:, self.edges[0], self.edges[1]] = self.quadratic
        return A

    def with_values(self, linear: Tensor, quadratic: Tensor) -> SparseQubo:
        """Return other values, ``[batch, n]`` and ``[batch, m]``, of any batch on the same graph, not checked again."""
        if linear.ndim != 2 or linear.shape[1] != self.n:
            raise QubolearnError(f"linear must have shape [batch, {self.n}] on this graph, got {list(linear.shape)}")
        _check_values(linear, quadratic, self.edges)
        return on_checked_graph(linear, self.edges, quadratic)

    def __len__(self) -> int:
        return self.linear.shape[0]

    def __getitem__(self, index: Any) -> SparseQubo:
        """Return some QUBOs of the batch, by a slice or a tensor; an integer gives a batch of one."""
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
        """The dtype of the values."""
        return self.linear.dtype

    @property
    def device(self) -> torch.device:
        """The device of all tensors."""
        return self.linear.device

    @property
    def is_cpu(self) -> bool:
        """True if the tensors are on the CPU."""
        return self.linear.is_cpu

    def to(self, *args: Any, **kwargs: Any) -> SparseQubo:
        """Return a copy on another device or in another dtype, by the arguments of ``Tensor.to``."""
        linear = self.linear.to(*args, **kwargs)
        return on_checked_graph(linear, self.edges.to(linear.device), self.quadratic.to(*args, **kwargs))

    def detach(self) -> SparseQubo:
        """Return the same values without a gradient."""
        return on_checked_graph(self.linear.detach(), self.edges, self.quadratic.detach())


Q = TypeVar("Q", Tensor, SparseQubo)

#: A batch of QUBOs: a dense tensor ``[batch, n, n]`` or a :class:`SparseQubo`.
Qubo: TypeAlias = Tensor | SparseQubo


def as_dense(A: Qubo) -> Tensor:
    """Return A as a dense tensor ``[batch, n, n]``."""
    return A.dense() if isinstance(A, SparseQubo) else A


def share(one: Q, batch: int) -> Q:
    """Return one QUBO, a batch of one, as a batch of ``batch`` instances that declares that they share it.

    Losses then compute with the one QUBO (:func:`shared_qubo`); what is computed from the result declares nothing.
    """
    if isinstance(one, SparseQubo):
        expanded: Any = on_checked_graph(one.linear.expand(batch, -1), one.edges, one.quadratic.expand(batch, -1))
        object.__setattr__(expanded, "_shared_qubo", one)
    else:
        expanded = one.expand(batch, -1, -1)
        expanded._shared_qubo = one
    return expanded  # type: ignore[no-any-return]


def shared_qubo(A: Qubo) -> Any:
    """Return the QUBO, a batch of one, that :func:`share` made A from; None for any other A."""
    return getattr(A, "_shared_qubo", None)


def upper_triangular(A: Tensor) -> Tensor:
    """Return the upper-triangular matrix of the same energies, A_ij + A_ji above the diagonal: ``[..., n, n]``."""
    return A.triu() + A.tril(-1).mT


def on_checked_graph(linear: Tensor, edges: Tensor, quadratic: Tensor) -> SparseQubo:
    """Return a value whose graph has been checked before."""
    made = object.__new__(SparseQubo)
    for name, tensor in (("linear", linear), ("edges", edges), ("quadratic", quadratic)):
        object.__setattr__(made, name, tensor)
    return made


def _check_values(linear: Tensor, quadratic: Tensor, edges: Tensor) -> None:
    """Raise unless the values fit the edges and each other, and are finite."""
    for name, tensor in (("linear", linear), ("quadratic", quadratic), ("edges", edges)):
        check_plain(name, tensor)
        if tensor.device != linear.device:
            raise QubolearnError(f"linear on {linear.device}, {name} on {tensor.device}; expected one device")
    if linear.ndim != 2 or linear.shape[1] < 1:
        raise QubolearnError(f"linear must have shape [batch, n] with n >= 1, got {list(linear.shape)}")
    if edges.ndim != 2 or edges.shape[0] != 2 or edges.dtype != torch.int64:
        raise QubolearnError(f"edges must be int64 of shape [2, m], got {edges.dtype} of shape {list(edges.shape)}")
    if list(quadratic.shape) != (expected := [len(linear), edges.shape[1]]):
        raise QubolearnError(f"quadratic must have shape {expected} = [batch, m], got {list(quadratic.shape)}")
    if not linear.dtype.is_floating_point or linear.dtype != quadratic.dtype:
        raise QubolearnError(f"linear is {linear.dtype}, quadratic {quadratic.dtype}; expected one float dtype")
    check_finite("linear", linear)
    check_finite("quadratic", quadratic)


def _check_edges(edges: Tensor, n: int) -> None:
    """Raise unless every edge is a pair 0 <= i < j < n that occurs only once."""
    i, j = edges
    wrong = (i < 0) | (j >= n) | (i >= j)
    if bool(wrong.any()):
        column = int(wrong.nonzero()[0])
        pair = (int(i[column]), int(j[column]))
        remedy = "a self edge belongs to linear" if pair[0] == pair[1] else f"expected pairs i < j of 0 to {n - 1}"
        raise QubolearnError(f"edge {column} is {pair} on n={n} bits; {remedy}")
    keys = (i * n + j).sort().values
    repeated = keys[1:] == keys[:-1]
    if bool(repeated.any()):
        key = int(keys[1:][repeated][0])
        raise QubolearnError(f"edge {(key // n, key % n)} occurs twice; add its couplings")


def check_dense(A: Tensor, what: str = "A") -> None:
    """Raise unless A is ``[batch, n, n]``, dense, real floating point, n >= 1 and finite."""
    if not isinstance(A, Tensor):
        raise QubolearnError(f"{what} must be a torch.Tensor [batch, n, n] or a SparseQubo, got {type(A).__name__}")
    if A.ndim != 3 or A.shape[1] != A.shape[2] or A.shape[2] < 1:
        hint = f"; for one QUBO pass {what}[None]" if A.ndim == 2 else ""
        raise QubolearnError(f"{what} must have shape [batch, n, n] with n >= 1, got {list(A.shape)}{hint}")
    if not A.dtype.is_floating_point:
        raise QubolearnError(f"{what} must be a floating point tensor, got {A.dtype}; call {what}.float()")
    check_plain(what, A)
    check_finite(what, A)


def check_plain(what: str, tensor: Tensor) -> None:
    """Raise unless this is an ordinary tensor of real floating point numbers."""
    if not isinstance(tensor, Tensor):
        raise QubolearnError(f"{what} must be a torch.Tensor, got {type(tensor).__name__}")
    if tensor.is_meta or tensor.layout != torch.strided:
        layout = f"a {tensor.layout} tensor on device {tensor.device}"
        raise QubolearnError(f"expected a dense tensor with values as {what}, got {layout}")
    if tensor.dtype.is_floating_point and tensor.dtype.itemsize < 2:  # torch cannot add them
        raise QubolearnError(f"{what} is {tensor.dtype}, which cannot be computed with; call {what}.float()")
    if tensor.is_complex():
        raise QubolearnError(f"expected real numbers as {what}, got {tensor.dtype}")
    if tensor.is_neg():
        raise QubolearnError(f"{what} is a lazily negated view; call {what}.resolve_neg()")


def check_finite(what: str, tensor: Tensor) -> None:
    """Raise if the tensor holds NaN or an infinity, and name the place; pass if its values cannot be read."""
    # A finite sum has finite terms, and costs a fraction of a check of every entry.
    if can_read_values(tensor) and not math.isfinite(_sum(tensor.detach())) and not bool(torch.isfinite(tensor).all()):
        place = (~torch.isfinite(tensor)).nonzero()[0].tolist()
        raise NonFiniteError(f"{what} must be finite, but {what}{place} is {tensor[tuple(place)].item()}")


def check_range(A: Tensor, n: int, what: str = "A") -> None:
    """Raise NonFiniteError if sums of n² entries as large as those of A may overflow float64."""
    if A.dtype != torch.float64 or not A.numel() or not can_read_values(A):
        return  # no sum of smaller dtypes comes near
    largest = max(float(A.max()), -float(A.min()))
    if largest > MAX_ENERGY / n**2:
        raise NonFiniteError(
            f"energies of n={n} bits may overflow float64: {what} has entries up to {largest:.1e} in size "
            f"(limit {MAX_ENERGY / n**2:.1e}); divide {what} by {n**2 * largest / MAX_ENERGY * 10:.0e}"
        )


def check_memory(needed: float, what: str, remedy: str) -> None:
    """Raise if this many bytes are more than half of the machine's memory."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > memory / 2:
        has = f"this machine has {memory / 2**30:.3g}"
        raise QubolearnError(f"{what} need {needed / 2**30:.3g} GiB, and {has}; {remedy}")


def can_read_values(A: Tensor) -> bool:
    """Return True if the host can read A's values, which it cannot while a CUDA graph is captured."""
    return not (A.is_cuda and torch.cuda.is_current_stream_capturing())


def _sum(A: Tensor) -> float:
    """Return the sum of all entries; not by torch's threads on a CPU, which would occupy the solver's cores."""
    if A.is_cpu and A.dtype in (torch.float32, torch.float64):
        with np.errstate(over="ignore", invalid="ignore"):
            return float(A.numpy().sum())
    return float(A.sum())
