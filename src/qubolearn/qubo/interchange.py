"""Convert QUBOs from and to dimod models, COO text, and files."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.qubo.algebra import check_qubo, from_ising
from qubolearn.qubo.sparse import Qubo, SparseQubo, check_finite, on_checked_graph

if TYPE_CHECKING:
    import dimod

#: The largest n of a file or a dimod model.
MAX_SPARSE_FILE_BITS = 2**20

#: The type of the variables in a comment, as dimod reads it: ``# vartype=SPIN`` or ``# vartype: SPIN``.
VARTYPE = re.compile(r"vartype[ \t]*[:=][ \t]*([-_.a-zA-Z0-9]+)")


def to_bqm(A: Qubo) -> dimod.BinaryQuadraticModel:
    """Return one finite QUBO, ``[n, n]`` or a sparse batch of one, as a dimod model over variables 0 to n-1.

    A dense QUBO gives an interaction wherever A is not 0, a sparse one wherever it has an edge.

    >>> float(to_bqm(torch.tensor([[1.0, -3.0], [0.0, 1.0]])).energy({0: 1, 1: 1}))
    -1.0
    """
    import dimod

    sparse = _sparse(one_qubo(A))
    couplings = sparse.quadratic[0].numpy()
    i, j = sparse.edges.numpy()
    return dimod.BinaryQuadraticModel.from_numpy_vectors(sparse.linear[0].numpy(), (i, j, couplings), 0.0, dimod.BINARY)


def from_bqm(bqm: dimod.BinaryQuadraticModel) -> tuple[Tensor, float]:
    """Return A ``[n, n]``, upper triangular in float64, of a dimod model of any vartype, and the offset of energies.

    Rows follow ``bqm.variables``. Raises if the matrix would exceed 4 GiB.

    >>> A, offset = from_bqm(to_bqm(torch.tensor([[1.0, -3.0], [0.0, 1.0]])))
    >>> A.tolist(), offset
    ([[1.0, -3.0], [0.0, 1.0]], 0.0)
    """
    A, offset = sparse_from_bqm(bqm)
    return A.dense()[0], offset


def sparse_from_bqm(bqm: dimod.BinaryQuadraticModel) -> tuple[SparseQubo, float]:
    """Return a dimod model as a sparse batch of one in float64, and its offset; bits follow ``bqm.variables``.

    >>> A, offset = sparse_from_bqm(to_bqm(torch.tensor([[1.0, -3.0], [0.0, 1.0]])))
    >>> A.linear.tolist(), A.edges.tolist(), A.quadratic.tolist(), offset
    ([[1.0, 1.0]], [[0], [1]], [[-3.0]], 0.0)
    """
    check_bqm(bqm)
    if not 1 <= (n := bqm.num_variables) <= MAX_SPARSE_FILE_BITS:
        raise QubolearnError(f"expected 1 to {MAX_SPARSE_FILE_BITS} variables, got a dimod model of {n}")
    vectors: Any = bqm.to_numpy_vectors(sort_labels=False)
    linear, (u, v, couplings), offset = vectors
    edges = np.sort(np.stack([u, v]).astype(np.int64), axis=0)
    return as_bits(edges, linear, couplings, float(offset), bqm.vartype.name == "SPIN")


def check_bqm(bqm: object) -> None:
    """Raise unless this is a binary quadratic model."""
    import dimod

    if not isinstance(bqm, dimod.BinaryQuadraticModel):
        raise QubolearnError(f"expected a dimod.BinaryQuadraticModel, got {type(bqm).__name__}; see dimod.cqm_to_bqm")


def as_bits(
    edges: npt.NDArray[np.int64], linear: Any, quadratic: Any, offset: float, spins: bool
) -> tuple[SparseQubo, float]:
    """Return biases ``[n]`` and ``[m]`` over bits or spins, on edges ``[2, m]``, as a batch of one and its offset."""
    fields, couplings = (torch.from_numpy(np.array(part, np.float64)[None]) for part in (linear, quadratic))
    # dimod's models hold no edge twice: there is no need to sort millions of them.
    A = on_checked_graph(fields, torch.from_numpy(edges), couplings)
    check_qubo(A, "the dimod model")
    if spins:
        A, added = from_ising(A.with_values(torch.zeros_like(fields), couplings), fields)
        offset += added.item()
    check_finite("the offset", torch.tensor([offset], dtype=torch.float64))
    return A, offset


def to_coo(A: Qubo) -> str:
    """Return one QUBO, ``[n, n]`` or a sparse batch of one, as dimod's COO text.

    That is ``# vartype=BINARY``, a comment with n, and one line ``i j value`` per nonzero value, exact in float64.

    >>> print(to_coo(torch.tensor([[1.0, -3.0], [0.0, 1.0]])), end="")
    # vartype=BINARY
    # n=2
    0 0 1.0
    0 1 -3.0
    1 1 1.0
    """
    sparse = _sparse(one_qubo(A))
    bits = torch.arange(sparse.n)
    i, j = torch.cat([torch.stack([bits, bits]), sparse.edges], 1)
    values = torch.cat([sparse.linear[0], sparse.quadratic[0]])
    order = (i * sparse.n + j).argsort()
    order = order[values[order] != 0]
    entries = zip(i[order].tolist(), j[order].tolist(), values[order].tolist(), strict=True)
    lines = [f"{row} {column} {value!r}" for row, column, value in entries]
    return "\n".join(["# vartype=BINARY", f"# n={sparse.n}", *lines]) + "\n"


def one_qubo(A: Qubo) -> Qubo:
    """Return ``[n, n]``, or a sparse batch of one, as a checked batch of one."""
    if isinstance(A, SparseQubo) and len(A) != 1:
        raise QubolearnError(f"expected one QUBO, got a batch of {len(A)}; pass one of them, as in A[0]")
    if isinstance(A, Tensor) and A.ndim == 3:
        raise QubolearnError(f"expected one QUBO [n, n], got a batch {list(A.shape)}; pass one of them, as in A[0]")
    batch = A[None] if isinstance(A, Tensor) else A
    check_qubo(batch)
    return batch


def _sparse(A: Qubo) -> SparseQubo:
    """Return A as a sparse batch on the CPU, in float64."""
    A = A.detach().to("cpu", torch.float64)
    return SparseQubo.from_dense(A) if isinstance(A, Tensor) else A


def sparse_from_coo(text: str, max_bits: int = MAX_SPARSE_FILE_BITS) -> SparseQubo:
    """Return COO text as a sparse batch of one, by default of up to a million bits.

    >>> sparse_from_coo("0 0 1\\n0 9999 -3")
    SparseQubo(batch=1, n=10000, edges=1, dtype=torch.float64, device=cpu)
    """
    return add_up(*coo_entries(text, max_bits))


def coo_entries(text: str, max_bits: int = MAX_SPARSE_FILE_BITS) -> tuple[list[tuple[int, int, float]], int]:
    """Return the entries (i, j, value) of COO text, and n."""
    entries: list[tuple[int, int, float]] = []
    n = 0
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#"):
            key, _, value = line.lstrip("# ").partition("=")
            if key == "n" and value.isdecimal():
                n = max(n, _bit_count(value, number, max_bits))
            vartype = VARTYPE.search(line)
            if vartype and vartype[1] != "BINARY":
                raise QubolearnError(f"COO line {number}: vartype {vartype[1][:20]!r}, only BINARY is read")
        elif line.strip():
            entry = _coo_entry(line, number, max_bits)
            entries.append(entry)
            n = max(n, entry[0] + 1, entry[1] + 1)
    if n == 0:
        raise QubolearnError("COO text holds no entry; expected lines 'i j value'")
    return entries, n


def add_up(entries: list[tuple[int, int, float]], n: int) -> SparseQubo:
    """Return the sparse QUBO of entries (i, j, value) in any order; repeated ones add up."""
    u, v = (np.array([entry[k] for entry in entries], np.int64) for k in range(2))
    values = np.array([entry[2] for entry in entries], np.float64)
    keys, place = np.unique(np.minimum(u, v) * n + np.maximum(u, v), return_inverse=True)
    sums: npt.NDArray[np.float64] = np.zeros(keys.size)
    np.add.at(sums, place.reshape(-1), values)
    i, j = keys // n, keys % n
    linear, above = np.zeros((1, n)), i < j
    linear[0, i[~above]] = sums[~above]
    edges = torch.from_numpy(np.stack([i[above], j[above]]))
    return SparseQubo(torch.from_numpy(linear), edges, torch.from_numpy(sums[None, above]))


def _coo_entry(line: str, number: int, limit: int) -> tuple[int, int, float]:
    parts = line.split()
    try:
        first, second, value = parts
        entry = _bit_count(first, number, limit - 1), _bit_count(second, number, limit - 1), float(value)
    except ValueError as error:
        if isinstance(error, QubolearnError):
            raise
        raise QubolearnError(f"COO line {number}: {line[:60]!r} is not 'i j value'") from None
    if not math.isfinite(entry[2]):
        raise QubolearnError(f"COO line {number}: value {value} is not finite")
    return entry


def _bit_count(text: str, number: int, limit: int) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 9 or int(text) > limit:
        raise QubolearnError(f"COO line {number}: {text[:20]!r} is not in 0 ... {limit}")
    return int(text)
