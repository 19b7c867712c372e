"""Read files of one QUBO, COO text and dimod's BQM files, as untrusted input.

``dimod.BinaryQuadraticModel.from_file`` trusts the counts and indices in a file. Here they are checked against the
bytes that exist before anything of their size is made.

A BQM file is: ``DIMODBQM``, two bytes of version, four of the header's length, a JSON header with the shape [n, m] and
the types; then the offset, n pairs (start of the row, linear bias), 2m pairs (column, quadratic bias) row by row, and
optionally labels, which are not read.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from qubolearn.errors import QubolearnError
from qubolearn.files import read_bytes
from qubolearn.qubo.interchange import MAX_SPARSE_FILE_BITS, as_bits, sparse_from_coo
from qubolearn.qubo.sparse import SparseQubo

__all__ = ["read_bqm", "read_qubo"]

MAGIC = b"DIMODBQM"
PREFIX = len(MAGIC) + 6
VERSIONS = (1, 2)
BIASES = ("float32", "float64")
INDICES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
#: The most bytes of a file.
MAX_BYTES = 2**29


def read_qubo(path: Path) -> tuple[SparseQubo, float]:
    """Return the QUBO of a file, COO text or a BQM file, as a sparse batch of one in float64, and its offset.

    Files have up to a million bits and 512 MiB.
    """
    data = read_bytes(path, MAX_BYTES)
    try:
        if data.startswith(MAGIC):
            return read_bqm(data)
        return sparse_from_coo(data.decode("utf-8", "replace")), 0.0
    except QubolearnError as error:
        raise type(error)(f"{path}: {error}") from error


def read_bqm(data: bytes) -> tuple[SparseQubo, float]:
    """Return the QUBO of a BQM file's content as a sparse batch of one in float64, and its offset.

    >>> import dimod
    >>> with dimod.BinaryQuadraticModel({"a": 1.0}, {("a", "b"): -3.0}, 0.5, "BINARY").to_file() as file:
    ...     A, offset = read_bqm(file.read())
    >>> A.dense().tolist(), offset
    ([[[1.0, -3.0], [0.0, 0.0]]], 0.5)
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
        raise QubolearnError(f"BQM file of n={n}: its couplers are out of order or name an unknown variable")
    # every coupler is in both rows; only one of the two is read
    line = np.repeat(np.arange(n), np.diff(bounds))
    above = line < columns
    keys, quadratic = line[above] * n + columns[above], entries["bias"][above].astype(np.float64)
    if np.unique(keys).size < keys.size:
        raise QubolearnError(f"BQM file of n={n}: a coupler occurs twice in a row; write it again with dimod")
    linear = rows["bias"].astype(np.float64)
    A, offsets = as_bits(keys, linear[None], quadratic[None], np.array([offset]), [header["vartype"] == "SPIN"])
    return A, offsets.item()


def _header(data: bytes) -> tuple[dict[str, Any], memoryview]:
    """Return the header's checked n, pairs, dtype, itype, ntype and vartype, and the bytes that follow it."""
    if data[: len(MAGIC)] != MAGIC or len(data) < PREFIX:
        raise QubolearnError(f"not a BQM file: it begins with {data[:8]!r}, not {MAGIC!r}")
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
    if type(n) is not int or type(pairs) is not int or not 1 <= n <= MAX_SPARSE_FILE_BITS or not 0 <= pairs <= n * n:
        shape = str(header["shape"])[:40]
        raise QubolearnError(
            f"BQM file of shape {shape}; expected 1 to {MAX_SPARSE_FILE_BITS} variables and their couplers"
        )
    known = {"dtype": BIASES, "itype": INDICES, "ntype": INDICES, "vartype": ("BINARY", "SPIN")}
    for name, options in known.items():
        if types[name] not in options:
            raise QubolearnError(f"BQM file with {name} {types[name][:20]!r}; expected one of {', '.join(options)}")
    return {"n": n, "pairs": pairs, **types}, memoryview(data)[PREFIX + length :]
