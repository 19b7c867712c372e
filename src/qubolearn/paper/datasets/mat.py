"""One real matrix out of a MATLAB 5 file.

scipy's ``loadmat`` (1.17) ends the process with a segmentation fault on some damaged files. This reads the few parts of
the format that a matrix of numbers needs: elements of (type, size, data), one of them a matrix of (flags, shape, name,
numbers), perhaps compressed.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from qubolearn.errors import QubolearnError

__all__ = ["read_matrix"]

HEADER = 128  # bytes
MAX_UNPACKED = 2**24  # bytes of a compressed matrix; keypoints have 300
MATRIX, COMPRESSED = 14, 15
NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
#: Classes of arrays that hold plain numbers: double, single and the integers.
NUMERIC_CLASSES = range(6, 16)
COMPLEX = 0x0800


def read_matrix(data: bytes, name: str, what: str = "MATLAB file") -> np.ndarray[Any, Any]:
    """The matrix ``[rows, columns]``, float64, that a MATLAB 5 file holds under a name."""
    order = {b"IM": "<", b"MI": ">"}.get(data[HEADER - 2 : HEADER])
    if order is None:
        raise QubolearnError(f"{what} is no MATLAB 5 file; save it in MATLAB with -v6 or -v7")
    try:
        for kind, content in _elements(data[HEADER:], order):
            if kind == COMPRESSED:
                unpacked = zlib.decompressobj().decompress(content, MAX_UNPACKED)
                kind, content = next(_elements(unpacked, order))
            if kind == MATRIX:
                flags, shape, label, *numbers = _elements(content, order)
                if label[1] == name.encode():
                    return _matrix(flags[1], shape[1], numbers, order)
    except (ValueError, StopIteration, IndexError, struct.error, zlib.error) as error:
        raise QubolearnError(f"{what} is damaged ({type(error).__name__}: {error})") from error
    raise QubolearnError(f"{what} holds no matrix {name!r}")


def _elements(data: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    """The elements of a part of the file: their types and contents."""
    at = 0
    while at + 8 <= len(data):
        kind, size = struct.unpack_from(f"{order}II", data, at)
        start, step = at + 8, size + -size % 8
        if kind >> 16:  # up to four bytes fit the tag itself
            kind, size, start, step = kind & 0xFFFF, kind >> 16, at + 4, 0
            if size > 4:
                raise ValueError(f"{size} bytes in a tag of 4")
        if start + size > len(data):
            raise ValueError(f"an element of {size} bytes where {len(data) - start} are left")
        yield kind, data[start : start + size]
        at += 8 + (size if kind == COMPRESSED else step)


def _matrix(flags: bytes, shape: bytes, numbers: list[tuple[int, bytes]], order: str) -> np.ndarray[Any, Any]:
    word = struct.unpack_from(f"{order}I", flags)[0]
    rows, columns = struct.unpack(f"{order}ii", shape)
    kind, content = numbers[0]
    if word & 0xFF not in NUMERIC_CLASSES or word & COMPLEX or kind not in NUMBERS:
        raise ValueError(f"class {word & 0xFF} of type {kind} is no real matrix")
    values = np.frombuffer(content, f"{order}{NUMBERS[kind]}")
    if rows < 0 or columns < 0 or values.size != rows * columns:
        raise ValueError(f"{values.size} numbers for a matrix [{rows}, {columns}]")
    return values.reshape(rows, columns, order="F").astype(np.float64)
