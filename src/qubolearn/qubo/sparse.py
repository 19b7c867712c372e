"""A batch of QUBOs that share one graph: linear terms, a list of edges, and one coupling per edge and QUBO.

A dense batch of 1,000 QUBOs on a whole Pegasus chip (5,640 bits) takes 127 GB in float32; in this form it takes 0.2 GB.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.qubo.checks import check_dense, check_finite, check_plain

__all__ = ["MAX_DENSE_BYTES", "Qubo", "SparseQubo", "as_dense", "on_checked_graph", "upper_triangular"]

#: The most memory that a dense copy of a sparse batch may take.
MAX_DENSE_BYTES = 4 * 2**30


@dataclass(frozen=True, eq=False, repr=False)
class SparseQubo:
    """A batch of QUBOs on one graph: E(x) = Σ_i linear_i x_i² + Σ_(i,j) quadratic_ij x_i x_j; on bits x_i² is x_i.

    It is accepted wherever a dense A ``[batch, n, n]`` is, and differentiable in ``linear`` and ``quadratic``.
    :meth:`with_values` makes another value on the same graph without checking the edges again, as a network does in
    every step.

    Args:
        linear: ``[batch, n]``, floating point and finite.
        edges: int64 ``[2, m]``; each column is a pair i < j of bits, and no pair occurs twice.
        quadratic: ``[batch, m]``, of the dtype of ``linear``; all three tensors lie on one device.

    Raises:
        QubolearnError: where one of these does not hold.

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
        """The same QUBOs as A ``[batch, n, n]``, with an edge wherever A_ij + A_ji is not 0 in one of them."""
        check_dense(A)
        U = upper_triangular(A)
        edges = (U.triu(1) != 0).any(0).nonzero().T.contiguous()
        return on_checked_graph(U.diagonal(dim1=1, dim2=2), edges, U[:, edges[0], edges[1]])

    def dense(self) -> Tensor:
        """The same QUBOs as upper triangular matrices ``[batch, n, n]``, where these fit into 4 GiB."""
        needed = len(self) * self.n**2 * self.linear.element_size()
        if needed > MAX_DENSE_BYTES:
            raise QubolearnError(
                f"{len(self)} QUBOs of n={self.n} bits as dense matrices take {needed / 2**30:.1f} GiB "
                f"(limit {MAX_DENSE_BYTES / 2**30:.0f} GiB); take fewer at once, or simulated annealing, "
                "which takes sparse QUBOs as they are"
            )
        A = torch.diag_embed(self.linear)
        A[:, self.edges[0], self.edges[1]] = self.quadratic
        return A

    def with_values(self, linear: Tensor, quadratic: Tensor) -> SparseQubo:
        """Other numbers, ``[batch, n]`` and ``[batch, m]`` with any batch, on the same graph."""
        if linear.ndim != 2 or linear.shape[1] != self.n:
            raise QubolearnError(f"linear must have shape [batch, {self.n}] on this graph, got {list(linear.shape)}")
        _check_values(linear, quadratic, self.edges)
        return on_checked_graph(linear, self.edges, quadratic)

    def __len__(self) -> int:
        return self.linear.shape[0]

    def __getitem__(self, index: Any) -> SparseQubo:
        """Some QUBOs of the batch, by a slice or a tensor; a number gives a batch of one."""
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
        """What the shape of the dense batch would be: ``[batch, n, n]``."""
        return torch.Size((len(self), self.n, self.n))

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the numbers."""
        return self.linear.dtype

    @property
    def device(self) -> torch.device:
        """Where all tensors lie."""
        return self.linear.device

    @property
    def is_cpu(self) -> bool:
        """Whether the tensors lie in the host's memory."""
        return self.linear.is_cpu

    def to(self, *args: Any, **kwargs: Any) -> SparseQubo:
        """On another device or in another dtype, by the arguments of ``Tensor.to``."""
        linear = self.linear.to(*args, **kwargs)
        return on_checked_graph(linear, self.edges.to(linear.device), self.quadratic.to(*args, **kwargs))

    def detach(self) -> SparseQubo:
        """The same numbers without their history."""
        return on_checked_graph(self.linear.detach(), self.edges, self.quadratic.detach())


#: A batch of QUBOs: a dense tensor ``[batch, n, n]`` or a :class:`SparseQubo`.
Qubo: TypeAlias = Tensor | SparseQubo


def as_dense(A: Qubo) -> Tensor:
    """A as a dense tensor ``[batch, n, n]``: itself, or :meth:`SparseQubo.dense`."""
    return A.dense() if isinstance(A, SparseQubo) else A


def upper_triangular(A: Tensor) -> Tensor:
    """The upper-triangular matrix of the same energies: A_ij + A_ji above the diagonal. Shape ``[..., n, n]``."""
    return A.triu() + A.tril(-1).mT


def on_checked_graph(linear: Tensor, edges: Tensor, quadratic: Tensor) -> SparseQubo:
    """A value whose graph has been checked before."""
    made = object.__new__(SparseQubo)
    for name, tensor in (("linear", linear), ("edges", edges), ("quadratic", quadratic)):
        object.__setattr__(made, name, tensor)
    return made


def _check_values(linear: Tensor, quadratic: Tensor, edges: Tensor) -> None:
    """Raise unless the numbers fit the edges and each other, and are finite."""
    for name, tensor in (("linear", linear), ("quadratic", quadratic), ("edges", edges)):
        check_plain(name, tensor)
    if linear.ndim != 2 or linear.shape[1] < 1:
        raise QubolearnError(f"linear must have shape [batch, n] with n >= 1, got {list(linear.shape)}")
    if edges.ndim != 2 or edges.shape[0] != 2 or edges.dtype != torch.int64:
        raise QubolearnError(f"edges must be int64 of shape [2, m], got {edges.dtype} of shape {list(edges.shape)}")
    if list(quadratic.shape) != [linear.shape[0], edges.shape[1]]:
        want = [linear.shape[0], edges.shape[1]]
        raise QubolearnError(f"quadratic must have shape {want} = [batch, m], got {list(quadratic.shape)}")
    if not linear.dtype.is_floating_point or linear.dtype != quadratic.dtype:
        raise QubolearnError(f"linear is {linear.dtype}, quadratic {quadratic.dtype}; want one floating point dtype")
    if not linear.device == quadratic.device == edges.device:
        devices = f"linear on {linear.device}, quadratic on {quadratic.device}, edges on {edges.device}"
        raise QubolearnError(f"{devices}; want all on one device")
    check_finite("linear", linear)
    check_finite("quadratic", quadratic)


def _check_edges(edges: Tensor, n: int) -> None:
    """Raise unless every edge is a pair 0 <= i < j < n that stands only once."""
    i, j = edges
    wrong = (i < 0) | (j >= n) | (i >= j)
    if bool(wrong.any()):
        column = int(wrong.nonzero()[0])
        pair = (int(i[column]), int(j[column]))
        if min(pair) < 0 or max(pair) >= n:
            remedy = f"bits are numbered 0 to {n - 1}"
        elif pair[0] == pair[1]:
            remedy = "x_i² = x_i on bits, so a self edge belongs into linear"
        else:
            remedy = "write the smaller bit first"
        raise QubolearnError(f"edge {column} is {pair} on n={n} bits; {remedy}")
    keys = (i * n + j).sort().values
    repeated = keys[1:] == keys[:-1]
    if bool(repeated.any()):
        key = int(keys[1:][repeated][0])
        raise QubolearnError(f"edge {(key // n, key % n)} stands twice; add its couplings up")
