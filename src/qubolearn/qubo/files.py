"""Read and write files of one QUBO as untrusted input.

Text formats, recognized by their first line and by entries on the diagonal:

- rudy (Gset): ``n m``, then m edges ``i j weight`` from 1 on, for maximum cut;
- BiqMac: ``n m``, then m entries ``i j value`` from 1 on; i < j counts twice;
- qbsolv: ``p qubo 0 n diagonals couplers``, then entries from 0 on; ``c`` are comments;
- COO: entries ``i j value`` from 0 on; ``#`` are comments.

dimod's BQM files have: ``DIMODBQM``, two bytes of version, four of the header's length, a JSON
header; the offset, n pairs (start of the row, linear bias), 2m pairs (column, quadratic bias),
labels. dimod trusts the counts in a file; here they are checked before memory is allocated.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import torch

from qubolearn.errors import QubolearnError, counted, unknown_name
from qubolearn.files import read_bytes
from qubolearn.qubo.interchange import MAX_SPARSE_FILE_BITS, Entries, add_up, as_bits, entries_of, to_coo
from qubolearn.qubo.sparse import Qubo, SparseQubo

__all__ = ["FORMATS", "Instance", "max_cut", "parse_qubo", "read_bqm", "read_qubo", "write_qubo"]

MAGIC = b"DIMODBQM"
PREFIX = len(MAGIC) + 6
Index = Literal["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FORMATS = ("rudy", "biqmac", "qbsolv", "coo")
#: The most bytes of a file.
MAX_BYTES = 2**29
#: In comments of COO text: ``# n=3``, ``# vartype: SPIN``.
NOTE = re.compile(r"^#.*?\b(n|vartype)[ \t]*[:=][ \t]*([-_.a-zA-Z0-9]+)", re.MULTILINE)


class _Header(msgspec.Struct):
    shape: tuple[int, int]  # variables and couplers
    dtype: Literal["float32", "float64"]
    itype: Index
    ntype: Index
    vartype: Literal["BINARY", "SPIN"]


@dataclass(frozen=True, eq=False)
class Instance:
    """One QUBO of a file or of a collection."""

    A: SparseQubo  # a batch of one, float64
    offset: float = 0.0  # to be added to energies
    format: str = "bqm"
    is_cut: bool = False  # True if energies are minus the weight of a cut
    best: float | None = None  # the lowest known energy
    notes: tuple[str, ...] = ()  # what was unusual about the file


def max_cut(edges: Any, weights: Any, n: int) -> SparseQubo:
    """Return the QUBO of a graph, edges ``[2, m]``; energies are minus the weight of a cut."""
    ends, w = torch.as_tensor(np.asarray(edges, np.int64)), torch.as_tensor(np.asarray(weights, np.float64))
    linear = torch.zeros(n, dtype=torch.float64).index_add(0, ends.flatten(), -w.repeat(2))
    return SparseQubo(linear[None], ends, 2 * w[None])


def read_qubo(path: Path | str, format: str | None = None) -> Instance:
    """Return the QUBO of a file of any format, up to a million bits and 512 MiB."""
    data = read_bytes(Path(path), MAX_BYTES)
    try:
        if data.startswith(MAGIC):
            return Instance(*read_bqm(data))
        return parse_qubo(data.decode("utf-8", "replace"), format)
    except QubolearnError as error:
        raise type(error)(f"{path}: {error}") from error


def parse_qubo(text: str, format: str | None = None) -> Instance:
    """Return the QUBO of a text in one of :data:`FORMATS`.

    >>> graph = parse_qubo("3 2\\n1 2 1\\n1 3 5")
    >>> graph.format, graph.A.linear.tolist()
    ('rudy', [[-6.0, -1.0, -5.0]])
    """
    lines = [(number, line.split()) for number, line in enumerate(text.splitlines(), 1)]
    lines = [(number, words) for number, words in lines if words and words[0] != "c" and words[0][0] != "#"]
    first = lines[0][1] if lines else []
    found = "qbsolv" if first[:1] == ["p"] else "rudy" if len(first) == 2 else "coo"
    if found == "rudy" and any(words[0] == words[1] for _, words in lines[1:] if len(words) > 1):
        found = "biqmac"  # a graph has no edge from a node to itself
    if format is not None and format not in FORMATS:
        raise unknown_name("format", format, FORMATS)
    notes: tuple[str, ...] = ()
    if format is None and found == "biqmac":
        notes = ("a diagonal, so read as a BiqMac QUBO; pass format rudy for a graph with self-loops",)
    format = format or found
    entries = [_entry(words, number, format) for number, words in lines[format != "coo" :]]
    if format == "coo":
        n, start = _coo_size(text, entries), 0
    else:
        n, start, counts = _sizes(lines[0] if lines else (1, []), format)
        _check_sizes(entries, counts, format)
    if not 1 <= n <= MAX_SPARSE_FILE_BITS:
        raise QubolearnError(f"n={n}; expected 1 to {MAX_SPARSE_FILE_BITS} bits")
    used = {bit for i, j, _ in entries for bit in (i, j)}
    if start == 1 and 0 in used:
        start, notes = 0, (*notes, "bits are numbered from 0")
    if used and not start <= min(used) <= max(used) < n + start:
        limits = f"expected {start} to {n - 1 + start}"
        raise QubolearnError(f"bits {min(used)} to {max(used)} in a file of n={n}; {limits}")
    entries = [(i - start, j - start, value) for i, j, value in entries]
    if format == "rudy":
        loops = [entry for entry in entries if entry[0] == entry[1]]
        notes += (f"{counted(len(loops), 'self-loop')} left out, which no cut contains",) if loops else ()
        entries = [entry for entry in entries if entry[0] != entry[1]]
    elif format == "biqmac":
        entries = [(i, j, value if i == j else 2 * value) for i, j, value in entries]
    A = add_up(entries, n)
    if format == "rudy":
        A = max_cut(A.edges, A.quadratic[0], n)
    repeats = len(entries) - len({(min(i, j), max(i, j)) for i, j, _ in entries})
    notes += (f"{counted(repeats, 'repeat')} of an entry added up",) if repeats else ()
    return Instance(A, format=format, is_cut=format == "rudy", notes=notes)


def _coo_size(text: str, entries: Entries) -> int:
    n = max((max(i, j) + 1 for i, j, _ in entries), default=0)
    for key, value in NOTE.findall(text):
        if key == "vartype" and value != "BINARY":
            raise QubolearnError(f"vartype {value[:20]!r}; only BINARY is read")
        n = max(n, int(value[:18])) if key == "n" and value.isdecimal() else n
    if n < 1:
        raise QubolearnError("no entries; expected a graph or a QUBO as text, or a BQM file of dimod")
    return n


def _sizes(first: tuple[int, list[str]], format: str) -> tuple[int, int, tuple[int, ...]]:
    """Return n, the number of the first bit, and the number of entries."""
    (number, words), qbsolv = first, format == "qbsolv"
    wanted = r"p qubo \d+ (\d+) (\d+) (\d+)" if qbsolv else r"(\d+) (\d+)"
    found = re.fullmatch(wanted, line := " ".join(words), re.ASCII)
    if found is None:
        expected = "p qubo 0 n diagonals couplers" if qbsolv else "n m"
        raise QubolearnError(f"line {number}: {line[:60]!r} is not {expected!r}")
    n, *counts = (int(word[:18]) for word in found.groups())
    return n, 0 if qbsolv else 1, tuple(counts)


def _entry(words: list[str], number: int, format: str) -> tuple[int, int, float]:
    try:
        i, j = map(int, words[:2])
        (value,) = map(float, words[2:] or (["1"] if format == "rudy" else []))
    except ValueError:
        raise QubolearnError(f"line {number}: {' '.join(words)[:60]!r} is not 'i j value'") from None
    if not math.isfinite(value):
        raise QubolearnError(f"line {number}: value {words[2]} is not finite")
    return i, j, value


def _check_sizes(entries: Entries, counts: tuple[int, ...], format: str) -> None:
    diagonal = sum(i == j for i, j, _ in entries)
    found = (diagonal, len(entries) - diagonal) if format == "qbsolv" else (len(entries),)
    if found != counts:
        promised, there = (" + ".join(map(str, some)) for some in (counts, found))
        raise QubolearnError(f"number of entries: {promised} by the first line, but {there} follow")


def write_qubo(A: Qubo, format: str = "coo") -> str:
    """Return one QUBO, ``[n, n]`` or a sparse batch of one, as text, exact in float64."""
    if format not in FORMATS:
        raise unknown_name("format", format, FORMATS)
    if format == "coo":
        return to_coo(A)
    entries, n = entries_of(A)
    if format == "rudy":
        sums = np.zeros(n)
        for i, j, value in entries:
            np.add.at(sums, [i, j], value / 2)
        if np.abs(sums).max() > 1e-9 * max(abs(value) for *_, value in [*entries, (0, 0, 1.0)]):
            raise QubolearnError("the QUBO is not a maximum cut: it has fields; write another format")
    diagonal = [] if format == "rudy" else [entry for entry in entries if entry[0] == entry[1]]
    couplers = [entry for entry in entries if entry[0] < entry[1]]
    if format == "qbsolv":
        start, first = 0, f"p qubo 0 {n} {len(diagonal)} {len(couplers)}"
    else:
        start, first = 1, f"{n} {len(diagonal) + len(couplers)}"
        couplers = [(i, j, value / 2) for i, j, value in couplers]
    lines = [f"{i + start} {j + start} {value!r}" for i, j, value in [*diagonal, *couplers]]
    return "\n".join([first, *lines]) + "\n"


def read_bqm(data: bytes) -> tuple[SparseQubo, float]:
    """Return the QUBO of a BQM file's content as a sparse batch of one, and its offset."""
    header, body = _header(data)
    (n, pairs), bias = header.shape, np.dtype(header.dtype)
    row = np.dtype([("start", header.ntype), ("bias", bias)])
    entry = np.dtype([("column", header.itype), ("bias", bias)])
    needed = bias.itemsize + n * row.itemsize + 2 * pairs * entry.itemsize
    if len(body) < needed:
        raise QubolearnError(f"BQM file of {n} bits and {pairs} couplers; {needed} bytes expected")
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
    keys = line[above] * n + columns[above]
    if np.unique(keys).size < keys.size:
        raise QubolearnError(f"BQM file of n={n}: a coupler occurs twice in a row; write it again with dimod")
    edges = np.stack([line[above], columns[above]])
    return as_bits(edges, rows["bias"], entries["bias"][above], offset, header.vartype == "SPIN")


def _header(data: bytes) -> tuple[_Header, memoryview]:
    if data[: len(MAGIC)] != MAGIC or len(data) < PREFIX:
        raise QubolearnError(f"not a BQM file: it begins with {data[:8]!r}, not {MAGIC!r}")
    if data[len(MAGIC)] not in (1, 2):
        raise QubolearnError(f"BQM file of version {data[len(MAGIC)]}; expected 1 or 2, convert it in dimod")
    end = PREFIX + int.from_bytes(data[PREFIX - 4 : PREFIX], "little")
    try:
        header = msgspec.json.decode(data[PREFIX:end], type=_Header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise QubolearnError(f"BQM file with a header that is not dimod's: {str(error)[:80]}") from error
    n, pairs = header.shape
    if not 1 <= n <= MAX_SPARSE_FILE_BITS or not 0 <= pairs <= n * n:
        raise QubolearnError(f"BQM file of shape {[n, pairs]}; expected 1 to {MAX_SPARSE_FILE_BITS} bits")
    return header, memoryview(data)[end:]
