"""Read and write files of one QUBO, as untrusted input: rudy (Gset), qbsolv, BiqMac, COO, and dimod's BQM files.

Text formats, recognized by their first line and by entries on the diagonal:

- rudy: ``n m``, then m edges ``i j weight`` from 1 on, of a graph whose maximum cut is searched;
- BiqMac: ``n m``, then m entries ``i j value`` from 1 on, of a symmetric Q, so that i < j counts twice;
- qbsolv: ``p qubo 0 n diagonals couplers``, then entries ``i i value`` and ``i j value`` from 0 on; ``c`` are comments;
- COO: entries ``i j value`` from 0 on; ``#`` are comments.

A BQM file is: ``DIMODBQM``, two bytes of version, four of the header's length, a JSON header; then the offset, n pairs
(start of the row, linear bias), 2m pairs (column, quadratic bias) row by row, and labels, which are not read. dimod
trusts the counts and indices in a file. Here they are checked before anything of their size is made.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
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
#: The most bytes of a file.
MAX_BYTES = 2**29
#: n and the type of the variables in a comment of COO text: ``# n=3`` or, as dimod reads it, ``# vartype: SPIN``.
NOTE = re.compile(r"^#.*?\b(n|vartype)[ \t]*[:=][ \t]*([-_.a-zA-Z0-9]+)", re.MULTILINE)


class _Header(msgspec.Struct):
    """The header of a BQM file."""

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
    """Return the QUBO of a graph, edges ``[2, m]`` from 0 on, whose energies are minus the weight of a cut."""
    ends, w = torch.as_tensor(np.asarray(edges, np.int64)), torch.as_tensor(np.asarray(weights, np.float64))
    linear = torch.zeros(n, dtype=torch.float64).index_add(0, ends.flatten(), -w.repeat(2))
    return SparseQubo(linear[None], ends, 2 * w[None])


def read_qubo(path: Path | str, format: str | None = None) -> Instance:
    """Return the QUBO of a file of up to a million bits and 512 MiB; its format is found by its content."""
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
        raise unknown_name("format", format, list(FORMATS))
    format = format or found
    entries = [_entry(words, number, format) for number, words in lines[format != "coo" :]]
    if format == "coo":
        n, start = _coo_size(text, entries), 0
    else:
        n, start, counts = _sizes(lines[0] if lines else (1, []), format)
        _check_sizes(entries, counts, format)
    used = {bit for i, j, _ in entries for bit in (i, j)}
    notes: tuple[str, ...] = ()
    if start == 1 and 0 in used:
        start, notes = 0, ("bits are numbered from 0",)
    if used and not start <= min(used) <= max(used) < n + start:
        limits = f"{start} to {n - 1 + start}"
        raise QubolearnError(f"bits are numbered {min(used)} to {max(used)} in a file of n={n}; expected {limits}")
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
    """Return n, of the comment or one more than the largest bit."""
    n = max((max(i, j) + 1 for i, j, _ in entries), default=0)
    for key, value in NOTE.findall(text):
        if key == "vartype" and value != "BINARY":
            raise QubolearnError(f"vartype {value[:20]!r}; only BINARY is read")
        n = max(n, int(value[:18])) if key == "n" and value.isdecimal() else n
    if not 1 <= n <= MAX_SPARSE_FILE_BITS:
        missing = "the file holds no entry; expected a graph or a QUBO as text, or a BQM file of dimod"
        raise QubolearnError(f"n={n}; expected at most {MAX_SPARSE_FILE_BITS} bits" if n > 0 else missing)
    return n


def _sizes(first: tuple[int, list[str]], format: str) -> tuple[int, int, tuple[int, ...]]:
    """Return n, the number of the first bit, and how many entries on and off the diagonal, or in all, the file has."""
    number, words = first
    wanted = "p qubo 0 n diagonals couplers" if format == "qbsolv" else "n m"
    given = words[2:] if format == "qbsolv" else words
    if len(given) != (4 if format == "qbsolv" else 2) or not all(word.isascii() and word.isdecimal() for word in given):
        raise QubolearnError(f"line {number}: {' '.join(words)[:60]!r} is not {wanted!r}")
    sizes = [int(word[:18]) for word in given]
    n = sizes[1] if format == "qbsolv" else sizes[0]
    if not 1 <= n <= MAX_SPARSE_FILE_BITS:
        raise QubolearnError(f"line {number}: n={n}; expected 1 to {MAX_SPARSE_FILE_BITS} bits")
    return (n, 0, tuple(sizes[2:])) if format == "qbsolv" else (n, 1, (sizes[1],))


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
        raise QubolearnError(f"the first line promises {promised} entries, but {there} follow; is the file complete?")


def write_qubo(A: Qubo, format: str = "coo") -> str:
    """Return one QUBO, ``[n, n]`` or a sparse batch of one, as text; values are exact in float64."""
    if format not in FORMATS:
        raise unknown_name("format", format, list(FORMATS))
    return FORMATS[format](A)


def _listed(A: Qubo, format: str) -> str:
    """Return a QUBO in a format with a first line of sizes."""
    entries, n = entries_of(A)
    if format == "rudy":
        sums = np.zeros(n)
        for i, j, value in entries:
            np.add.at(sums, [i, j], value / 2)
        if np.abs(sums).max() > 1e-9 * max(abs(value) for *_, value in [*entries, (0, 0, 1.0)]):
            raise QubolearnError("the QUBO is not a maximum cut: it has fields; write it as qbsolv, biqmac or coo")
    start, halves = (0, 1) if format == "qbsolv" else (1, 2)
    diagonal = [] if format == "rudy" else [entry for entry in entries if entry[0] == entry[1]]
    couplers = [(i, j, value / halves) for i, j, value in entries if i < j]
    sizes = f"{len(diagonal)} {len(couplers)}" if format == "qbsolv" else f"{len(diagonal) + len(couplers)}"
    first = f"p qubo 0 {n} {sizes}" if format == "qbsolv" else f"{n} {sizes}"
    lines = [f"{i + start} {j + start} {value!r}" for i, j, value in [*diagonal, *couplers]]
    return "\n".join([first, *lines]) + "\n"


#: Names of the text formats and their writers.
FORMATS: dict[str, Callable[[Qubo], str]] = {
    "rudy": lambda A: _listed(A, "rudy"),
    "biqmac": lambda A: _listed(A, "biqmac"),
    "qbsolv": lambda A: _listed(A, "qbsolv"),
    "coo": to_coo,
}


def read_bqm(data: bytes) -> tuple[SparseQubo, float]:
    """Return the QUBO of a BQM file's content as a sparse batch of one in float64, and its offset."""
    header, body = _header(data)
    (n, pairs), bias = header.shape, np.dtype(header.dtype)
    row = np.dtype([("start", header.ntype), ("bias", bias)])
    entry = np.dtype([("column", header.itype), ("bias", bias)])
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
    keys = line[above] * n + columns[above]
    if np.unique(keys).size < keys.size:
        raise QubolearnError(f"BQM file of n={n}: a coupler occurs twice in a row; write it again with dimod")
    edges = np.stack([line[above], columns[above]])
    return as_bits(edges, rows["bias"], entries["bias"][above], offset, header.vartype == "SPIN")


def _header(data: bytes) -> tuple[_Header, memoryview]:
    """Return the checked header, and the bytes that follow it."""
    if data[: len(MAGIC)] != MAGIC or len(data) < PREFIX:
        raise QubolearnError(f"not a BQM file: it begins with {data[:8]!r}, not {MAGIC!r}")
    if data[len(MAGIC)] not in (1, 2):
        raise QubolearnError(f"BQM file of version {data[len(MAGIC)]}; versions 1 and 2 are read, convert it in dimod")
    end = PREFIX + int.from_bytes(data[PREFIX - 4 : PREFIX], "little")
    try:
        header = msgspec.json.decode(data[PREFIX:end], type=_Header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise QubolearnError(f"BQM file with a header that is not dimod's: {str(error)[:80]}") from error
    n, pairs = header.shape
    if not 1 <= n <= MAX_SPARSE_FILE_BITS or not 0 <= pairs <= n * n:
        wanted = f"expected 1 to {MAX_SPARSE_FILE_BITS} variables and their couplers"
        raise QubolearnError(f"BQM file of shape {[n, pairs]}; {wanted}")
    return header, memoryview(data)[end:]
