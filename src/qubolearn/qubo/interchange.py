"""Convert QUBOs from and to dimod models and lists of entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.qubo.algebra import from_ising
from qubolearn.qubo.sparse import Qubo, SparseQubo, as_sparse, check_finite, check_qubo, on_checked_graph

if TYPE_CHECKING:
    import dimod

#: The largest n of a file or a dimod model.
MAX_SPARSE_FILE_BITS = 2**20
Entries = list[tuple[int, int, float]]


def to_bqm(A: Qubo) -> dimod.BinaryQuadraticModel:
    """Return one QUBO, ``[n, n]`` or a sparse batch of one, as a dimod model over 0 to n-1.

    >>> float(to_bqm(torch.tensor([[1.0, -3.0], [0.0, 1.0]])).energy({0: 1, 1: 1}))
    -1.0
    """
    import dimod

    one = one_qubo(A)
    pairs = (*one.edges.numpy(), one.quadratic[0].numpy())
    return dimod.BinaryQuadraticModel.from_numpy_vectors(one.linear[0].numpy(), pairs, 0.0, dimod.BINARY)


def from_bqm(bqm: dimod.BinaryQuadraticModel) -> tuple[Tensor, float]:
    """Return A ``[n, n]``, upper triangular in float64, of a dimod model, and the offset.

    Rows follow ``bqm.variables``. Raises if the matrix would exceed 4 GiB.

    >>> A, offset = from_bqm(to_bqm(torch.tensor([[1.0, -3.0], [0.0, 1.0]])))
    >>> A.tolist(), offset
    ([[1.0, -3.0], [0.0, 1.0]], 0.0)
    """
    A, offset = sparse_from_bqm(bqm)
    return A.dense()[0], offset


def sparse_from_bqm(bqm: dimod.BinaryQuadraticModel) -> tuple[SparseQubo, float]:
    """Return a dimod model as a sparse batch of one, and its offset."""
    check_bqm(bqm)
    if not 1 <= (n := bqm.num_variables) <= MAX_SPARSE_FILE_BITS:
        raise QubolearnError(f"expected 1 to {MAX_SPARSE_FILE_BITS} variables, got a dimod model of {n}")
    vectors: Any = bqm.to_numpy_vectors(sort_labels=False)
    linear, (u, v, couplings), offset = vectors
    edges = np.sort(np.stack([u, v]).astype(np.int64), axis=0)
    return as_bits(edges, linear, couplings, float(offset), bqm.vartype.name == "SPIN")


def check_bqm(bqm: object) -> None:
    import dimod

    if not isinstance(bqm, dimod.BinaryQuadraticModel):
        given = type(bqm).__name__
        raise QubolearnError(f"expected a dimod.BinaryQuadraticModel, got {given}; see dimod.cqm_to_bqm")


def as_bits(
    edges: npt.NDArray[np.int64], linear: Any, quadratic: Any, offset: float, spins: bool
) -> tuple[SparseQubo, float]:
    """Return biases over bits or spins as a batch of one and its offset."""
    fields, couplings = (torch.from_numpy(np.array(part, np.float64)[None]) for part in (linear, quadratic))
    # dimod's models hold no edge twice, so edges need no sorting.
    A = on_checked_graph(fields, torch.from_numpy(edges), couplings)
    check_qubo(A, "the dimod model")
    if spins:
        A, added = from_ising(A.with_values(torch.zeros_like(fields), couplings), fields)
        offset += added.item()
    check_finite("the offset", torch.tensor([offset], dtype=torch.float64))
    return A, offset


def to_coo(A: Qubo) -> str:
    """Return one QUBO, ``[n, n]`` or a sparse batch of one, as dimod's COO text.

    >>> print(to_coo(torch.tensor([[1.0, -3.0], [0.0, 1.0]])), end="")
    # vartype=BINARY
    # n=2
    0 0 1.0
    0 1 -3.0
    1 1 1.0
    """
    entries, n = entries_of(A)
    lines = [f"{i} {j} {value!r}" for i, j, value in entries]
    return "\n".join(["# vartype=BINARY", f"# n={n}", *lines]) + "\n"


def entries_of(A: Qubo) -> tuple[Entries, int]:
    """Return the sorted nonzero entries (i, j, value), i <= j, of one QUBO, and n."""
    sparse = one_qubo(A)
    bits = torch.arange(sparse.n)
    i, j = torch.cat([torch.stack([bits, bits]), sparse.edges], 1)
    values = torch.cat([sparse.linear[0], sparse.quadratic[0]])
    order = (i * sparse.n + j).argsort()
    order = order[values[order] != 0]
    return list(zip(i[order].tolist(), j[order].tolist(), values[order].tolist(), strict=True)), sparse.n


def one_qubo(A: Qubo) -> SparseQubo:
    """Return ``[n, n]``, or a batch of one, as a checked sparse batch of one."""
    if (isinstance(A, SparseQubo) and len(A) != 1) or (isinstance(A, Tensor) and A.ndim == 3):
        raise QubolearnError(f"expected one QUBO [n, n], got a batch {list(A.shape)}; pass one, as in A[0]")
    batch = A[None] if isinstance(A, Tensor) else A
    check_qubo(batch)
    return as_sparse(batch)


def add_up(entries: Entries, n: int) -> SparseQubo:
    """Return the sparse QUBO of entries (i, j, value); repeated ones add up."""
    u, v = (np.array([entry[k] for entry in entries], np.int64) for k in range(2))
    values = np.array([entry[2] for entry in entries], np.float64)
    keys, place = np.unique(np.minimum(u, v) * n + np.maximum(u, v), return_inverse=True)
    sums: npt.NDArray[np.float64] = np.zeros(keys.size)
    with np.errstate(over="ignore"):  # SparseQubo raises
        np.add.at(sums, place.reshape(-1), values)
    i, j = keys // n, keys % n
    linear, above = np.zeros((1, n)), i < j
    linear[0, i[~above]] = sums[~above]
    edges = torch.from_numpy(np.stack([i[above], j[above]]))
    return SparseQubo(torch.from_numpy(linear), edges, torch.from_numpy(sums[None, above]))
