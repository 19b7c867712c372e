"""dimod's BQM files, which ``qubolearn export --format bqm`` writes, read back without trusting them.

``dimod.BinaryQuadraticModel.from_file`` believes the counts and indices that a file names. Here they are checked
against the bytes that are there, before anything of their size is made.

A file is: ``DIMODBQM``, two bytes of version, four of the header's length, a JSON header with the shape [n, m] and
the types; then the offset, n pairs (start of the row, linear bias), 2m pairs (column, quadratic bias) row by row, and
where the header says so the labels, which are left unread.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.qubo.algebra import check_qubo, from_ising, upper_triangular
from qubolearn.qubo.interchange import MAX_FILE_BITS, check_offset

__all__ = ["read_bqm"]

MAGIC = b"DIMODBQM"
PREFIX = len(MAGIC) + 6
VERSIONS = (1, 2)
BIASES = ("float32", "float64")
INDICES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def read_bqm(data: bytes) -> tuple[Tensor, float]:
    """A ``[n, n]`` (upper triangular, float64) and offset of a BQM file's content; rows follow its variables.

    >>> import dimod
    >>> with dimod.BinaryQuadraticModel({"a": 1.0}, {("a", "b"): -3.0}, 0.5, "BINARY").to_file() as file:
    ...     A, offset = read_bqm(file.read())
    >>> A.tolist(), offset
    ([[1.0, -3.0], [0.0, 0.0]], 0.5)
    """
    header, body = _header(data)
    n, pairs, bias = header["n"], header["pairs"], np.dtype(header["dtype"])
    row = np.dtype([("start", header["ntype"]), ("bias", bias)])
    entry = np.dtype([("column", header["itype"]), ("bias", bias)])
    needed = bias.itemsize + n * row.itemsize + 2 * pairs * entry.itemsize
    if len(body) < needed:
        raise QubolearnError(f"BQM file of n={n} with {pairs} couplers needs {needed} bytes, but {len(body)} are left")
    offset = float(np.frombuffer(body, bias, 1)[0])
    rows = np.frombuffer(body, row, n, bias.itemsize)
    entries = np.frombuffer(body, entry, 2 * pairs, bias.itemsize + n * row.itemsize)

    bounds = np.append(rows["start"].astype(np.int64), 2 * pairs)
    columns = entries["column"].astype(np.int64)
    if bounds[0] != 0 or (np.diff(bounds) < 0).any() or not ((columns >= 0) & (columns < n)).all():
        raise QubolearnError(f"BQM file of n={n}: its couplers are out of order or name a variable that is not there")
    A = np.zeros((n, n))
    # every coupler stands in both rows; only one of the two is read
    line = np.repeat(np.arange(n), np.diff(bounds))
    above = line < columns
    A[line[above], columns[above]] = entries["bias"][above]
    linear = rows["bias"].astype(np.float64)
    return _qubo(torch.from_numpy(A), torch.from_numpy(linear), offset, header["vartype"])


def _qubo(quadratic: Tensor, linear: Tensor, offset: float, vartype: str) -> tuple[Tensor, float]:
    """Biases over bits or spins -> A and offset."""
    A = quadratic + torch.diag(linear)
    if vartype == "SPIN":
        qubo, added = from_ising(quadratic[None], linear[None])
        A, offset = upper_triangular(qubo[0]), offset + added.item()
    check_qubo(A[None], "the BQM file")
    check_offset(offset)
    return A, offset


def _header(data: bytes) -> tuple[dict[str, Any], memoryview]:
    """The header's n, pairs, dtype, itype, ntype and vartype, checked, and what follows it."""
    if data[: len(MAGIC)] != MAGIC or len(data) < PREFIX:
        raise QubolearnError(f"not a BQM file: it begins with {data[:8]!r}, want {MAGIC!r}")
    if data[len(MAGIC)] not in VERSIONS:
        raise QubolearnError(
            f"BQM file of version {data[len(MAGIC)]}; versions {VERSIONS} are read, convert it in dimod"
        )
    length = int.from_bytes(data[PREFIX - 4 : PREFIX], "little")
    try:
        header = json.loads(data[PREFIX : PREFIX + length].decode("ascii"))
        n, pairs = header["shape"]
        types = {name: str(header[name]) for name in ("dtype", "itype", "ntype", "vartype")}
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise QubolearnError(f"BQM file with a header that is not dimod's ({type(error).__name__})") from error
    if type(n) is not int or type(pairs) is not int or not 1 <= n <= MAX_FILE_BITS or not 0 <= pairs <= n * n:
        shape = str(header["shape"])[:40]
        raise QubolearnError(f"BQM file of shape {shape}; want 1 to {MAX_FILE_BITS} variables and their couplers")
    known = {"dtype": BIASES, "itype": INDICES, "ntype": INDICES, "vartype": ("BINARY", "SPIN")}
    for name, options in known.items():
        if types[name] not in options:
            raise QubolearnError(f"BQM file with {name} {types[name][:20]!r}; want one of {', '.join(options)}")
    return {"n": n, "pairs": pairs, **types}, memoryview(data)[PREFIX + length :]
