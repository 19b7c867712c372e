"""QUBO algebra: energies xᵀAx in batches, normal forms, QUBO <-> Ising, dimod and COO text in and out.

``A [batch, n, n]`` is a batch of QUBOs; ``x [..., n]`` are bits, 0 or 1. A need not be symmetric: only
A_ij + A_ji matters. Functions of one QUBO (dimod, COO) take ``A [n, n]``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from qubolearn.errors import NonFiniteError, QubolearnError

if TYPE_CHECKING:
    import dimod

__all__ = [
    "MAX_FILE_BITS",
    "Ising",
    "all_states",
    "can_be_read",
    "check_qubo",
    "energies",
    "from_bqm",
    "from_coo",
    "from_ising",
    "symmetric",
    "to_bqm",
    "to_coo",
    "to_ising",
    "upper_triangular",
]

#: The largest n of a file or a dimod model: [n, n] is allocated dense, and a stranger's file must not choose its size.
MAX_FILE_BITS = 4096


def check_qubo(A: Tensor, what: str = "A") -> None:
    """Raise unless A is ``[batch, n, n]``, dense, real floating point, n >= 1 and finite."""
    if not isinstance(A, Tensor):
        raise QubolearnError(f"{what} must be a torch.Tensor [batch, n, n], got {type(A).__name__}")
    if A.ndim != 3 or A.shape[1] != A.shape[2] or A.shape[2] < 1:
        hint = f"; for one QUBO pass {what}[None]" if A.ndim == 2 else ""
        raise QubolearnError(f"{what} must have shape [batch, n, n] with n >= 1, got {list(A.shape)}{hint}")
    if not A.dtype.is_floating_point:
        raise QubolearnError(f"{what} must be a floating point tensor, got {A.dtype}; call {what}.float()")
    if A.is_meta or A.layout != torch.strided:
        raise QubolearnError(f"{what} is a {A.layout} tensor on device {A.device}; want a dense one that holds numbers")
    # A finite sum has finite terms, and costs a fraction of asking every entry.
    if can_be_read(A) and not math.isfinite(_sum(A.detach())) and not bool(torch.isfinite(A).all()):
        batch, i, j = (~torch.isfinite(A)).nonzero()[0].tolist()
        value = A[batch, i, j].item()
        raise NonFiniteError(f"{what} must be finite, but {what}[{batch}, {i}, {j}] is {value}")


def can_be_read(A: Tensor) -> bool:
    """Whether the host can look at A's numbers: not while a CUDA graph is captured, when there are none yet."""
    return not (A.is_cuda and torch.cuda.is_current_stream_capturing())


def _sum(A: Tensor) -> float:
    """The sum of all entries; on a CPU without torch's threads, which would then wait on the cores of the solver."""
    if A.is_cpu and A.dtype in (torch.float32, torch.float64):
        with np.errstate(over="ignore", invalid="ignore"):
            return float(A.numpy().sum())
    return float(A.sum())


def energies(A: Tensor, x: Tensor) -> Tensor:
    """E(x) = xᵀAx for A ``[batch, n, n]`` and x ``[batch, ..., n]`` -> ``[batch, ...]``, differentiable in A.

    >>> A = torch.tensor([[[1.0, -3.0], [0.0, 1.0]]])
    >>> energies(A, torch.tensor([[[0, 0], [1, 0], [1, 1]]]))
    tensor([[ 0.,  1., -1.]])
    """
    batch, n = A.shape[0], A.shape[-1]
    if x.shape[0] != batch or x.shape[-1] != n:
        raise QubolearnError(f"states {list(x.shape)} do not fit QUBOs {list(A.shape)}: want [{batch}, ..., {n}]")
    rows = x.to(A.dtype).reshape(batch, math.prod(x.shape[1:-1]), n)
    return ((rows @ A) * rows).sum(-1).reshape(x.shape[:-1])


def symmetric(A: Tensor) -> Tensor:
    """The symmetric matrix of the same energies: (A + Aᵀ) / 2. Shape ``[..., n, n]``."""
    return (A + A.mT) / 2


def upper_triangular(A: Tensor) -> Tensor:
    """The upper-triangular matrix of the same energies: A_ij + A_ji above the diagonal. Shape ``[..., n, n]``."""
    return A.triu() + A.tril(-1).mT


def all_states(n: int, device: torch.device | str | None = None, dtype: torch.dtype = torch.float32) -> Tensor:
    """All bit vectors ``[2**n, n]``; row r holds the bits of r, most significant first.

    >>> all_states(2).tolist()
    [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    """
    if n > 24:
        raise QubolearnError(f"all states of n={n} bits are 2**{n} rows (limit 2**24); use a solver instead")
    index = torch.arange(2**n, device=device)
    return ((index[:, None] >> torch.arange(n - 1, -1, -1, device=device)) & 1).to(dtype)


class Ising(NamedTuple):
    """sᵀJs + bᵀs + offset over s in {-1, +1}^n."""

    J: Tensor  # [batch, n, n], upper triangular, zero diagonal
    b: Tensor  # [batch, n]
    offset: Tensor  # [batch]


def to_ising(A: Tensor) -> Ising:
    """The Ising model with the energies of A ``[batch, n, n]`` under x = (s + 1) / 2.

    >>> A = torch.tensor([[[1.0, -3.0], [0.0, 1.0]]])
    >>> J, b, offset = to_ising(A)
    >>> s = torch.tensor([1.0, 1.0])
    >>> float(s @ J[0] @ s + b[0] @ s + offset[0])
    -1.0
    """
    U = upper_triangular(A)
    J = U.triu(1) / 4
    diagonal = U.diagonal(dim1=-2, dim2=-1)
    b = diagonal / 2 + J.sum(-1) + J.sum(-2)
    offset = diagonal.sum(-1) / 2 + J.sum((-1, -2))
    return Ising(J, b, offset)


def from_ising(J: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """The QUBO of an Ising model, s = 2x - 1: J ``[batch, n, n]``, b ``[batch, n]`` -> A and offset ``[batch]``.

    A = 4J + diag(2b - 2(J1 + Jᵀ1)), offset = 1ᵀJ1 - 1ᵀb. The formula printed in the QuAnt paper (1/4 J + ...)
    fails brute force. A diagonal of J is a constant here, since s² = 1, and 4J_ii x_i - 4J_ii x_i cancel.
    """
    A = 4 * J + torch.diag_embed(2 * b - 2 * (J.sum(-1) + J.sum(-2)))
    return A, J.sum((-1, -2)) - b.sum(-1)


def to_bqm(A: Tensor) -> dimod.BinaryQuadraticModel:
    """One QUBO ``[n, n]`` as a dimod model over variables 0 ... n-1, with an interaction wherever A is not 0.

    >>> float(to_bqm(torch.tensor([[1.0, -3.0], [0.0, 1.0]])).energy({0: 1, 1: 1}))
    -1.0
    """
    import dimod

    check_qubo(A[None] if A.ndim == 2 else A)
    U = upper_triangular(A.detach().to("cpu", torch.float64))
    rows, columns = U.triu(1).nonzero(as_tuple=True)
    return dimod.BinaryQuadraticModel.from_numpy_vectors(
        U.diagonal().numpy(), (rows.numpy(), columns.numpy(), U[rows, columns].numpy()), 0.0, dimod.BINARY
    )


def from_bqm(bqm: dimod.BinaryQuadraticModel) -> tuple[Tensor, float]:
    """A ``[n, n]`` (upper triangular, float64) and offset of a dimod model; rows follow ``bqm.variables``."""
    if not 1 <= bqm.num_variables <= MAX_FILE_BITS:
        raise QubolearnError(f"a dimod model of {bqm.num_variables} variables; want 1 to {MAX_FILE_BITS}")
    binary = bqm.binary  # a view: the model itself keeps its vartype
    index = {variable: i for i, variable in enumerate(binary.variables)}
    A = torch.zeros(len(index), len(index), dtype=torch.float64)
    for variable, bias in binary.iter_linear():
        A[index[variable], index[variable]] = float(bias)
    for u, v, bias in binary.iter_quadratic():
        i, j = sorted((index[u], index[v]))
        A[i, j] = float(bias)
    check_qubo(A[None], "the dimod model")  # dimod itself lets NaN pass
    check_offset(float(binary.offset))
    return A, float(binary.offset)


def check_offset(offset: float) -> None:
    """Raise unless the offset is finite."""
    if not math.isfinite(offset):
        raise NonFiniteError(f"the offset must be finite, but is {offset}")


def to_coo(A: Tensor) -> str:
    """One QUBO ``[n, n]`` as dimod's COO text: ``# vartype=BINARY``, a comment with n, one ``i j value`` a line.

    Values are written so that reading them back gives the same float64. n matters where the last rows are zero.

    >>> print(to_coo(torch.tensor([[1.0, -3.0], [0.0, 1.0]])), end="")
    # vartype=BINARY
    # n=2
    0 0 1.0
    0 1 -3.0
    1 1 1.0
    """
    check_qubo(A[None] if A.ndim == 2 else A)
    U = upper_triangular(A.detach().to("cpu", torch.float64))
    lines = [f"{i} {j} {U[i, j].item()!r}" for i, j in U.nonzero().tolist()]
    return "\n".join(["# vartype=BINARY", f"# n={len(U)}", *lines]) + "\n"


def from_coo(text: str) -> Tensor:
    """A ``[n, n]`` (upper triangular, float64) from COO text; a repeated entry adds up, as in dimod."""
    entries: list[tuple[int, int, float]] = []
    n = 0
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#"):
            key, _, value = line.lstrip("# ").partition("=")
            if key == "n" and value.isdecimal():
                n = max(n, _bit_count(value, number))
            if key == "vartype" and value.strip() != "BINARY":
                raise QubolearnError(f"COO line {number}: vartype {value.strip()!r}, only BINARY is read")
        elif line.strip():
            entry = _coo_entry(line, number)
            entries.append(entry)
            n = max(n, entry[0] + 1, entry[1] + 1)
    if n == 0:
        raise QubolearnError("COO text holds no entry; want lines 'i j value'")
    A = torch.zeros(n, n, dtype=torch.float64)
    for i, j, bias in entries:
        A[min(i, j), max(i, j)] += bias
    check_qubo(A[None], "the sum of COO entries")
    return A


def _coo_entry(line: str, number: int) -> tuple[int, int, float]:
    parts = line.split()
    try:
        first, second, value = parts
        entry = _bit_count(first, number), _bit_count(second, number), float(value)
    except ValueError as error:
        if isinstance(error, QubolearnError):
            raise
        raise QubolearnError(f"COO line {number}: {line[:60]!r} is not 'i j value'") from None
    if not math.isfinite(entry[2]):
        raise QubolearnError(f"COO line {number}: value {value} is not finite")
    return entry


def _bit_count(text: str, number: int) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 9 or int(text) >= MAX_FILE_BITS:
        raise QubolearnError(f"COO line {number}: index {text[:20]!r} is not in 0 ... {MAX_FILE_BITS - 1}")
    return int(text)
