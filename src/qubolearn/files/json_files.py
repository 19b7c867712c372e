"""JSON objects and lines of JSON in files, with a checksum where a flipped bit should be found."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from qubolearn.errors import QubolearnError
from qubolearn.files.atomic import write_atomic

__all__ = [
    "CHECKSUM",
    "MAX_JSON",
    "read_bytes",
    "read_json",
    "read_records",
    "read_text",
    "write_json",
    "write_records",
]

MAX_JSON = 2**24  # bytes

#: The entry with the checksum of all others. Files of older versions have none and are read as they are.
CHECKSUM = "sha256"

#: A list of numbers as json indents it. Within a string no line ends, so none of them is taken for one.
NUMBERS = re.compile(r"\[\n\s*((?:-?\d[\d.eE+-]*,\s*)*-?\d[\d.eE+-]*)\n\s*\]")


def write_json(path: Path, value: Mapping[str, Any], checksum: bool = False) -> None:
    """Write JSON atomically, indented but for lists of numbers, which stand on one line."""
    if checksum:
        value = {**value, CHECKSUM: _json_digest(json.loads(json.dumps(value)))}  # as it will be read
    text = json.dumps(value, indent=2, allow_nan=False)
    text = NUMBERS.sub(lambda found: f"[{' '.join(found[1].split())}]", text)
    write_atomic(path, (text + "\n").encode())


def write_records(path: Path, records: Sequence[Mapping[str, Any]]) -> None:
    """Write records as lines of JSON, atomically, and a last line with their checksum."""
    lines = [json.dumps(record) for record in records]
    write_atomic(path, "\n".join([*lines, json.dumps({CHECKSUM: _lines_digest(lines)}), ""]).encode())


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object of at most 16 MiB; where it has a checksum, it must be right."""
    try:
        value = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        if isinstance(error, QubolearnError):
            raise
        raise QubolearnError(f"{path} is not readable JSON ({type(error).__name__})") from error
    if not isinstance(value, dict):
        raise QubolearnError(f"{path} holds a JSON {type(value).__name__}, want an object")
    if value.pop(CHECKSUM, None) not in (None, _json_digest(value)):
        raise QubolearnError(
            f"{path} is damaged, or was changed by hand: its checksum is another; where you changed it, delete the "
            f"entry {CHECKSUM!r}"
        )
    return value


def read_records(path: Path, limit: int) -> list[dict[str, Any]]:
    """The JSON objects of a file of lines; lines that are none are skipped, and a checksum must be right."""
    lines, records = read_text(path, limit).splitlines(), []
    for number, line in enumerate(lines):
        record = None
        with suppress(ValueError, RecursionError):
            record = json.loads(line)
        if isinstance(record, dict) and CHECKSUM not in record:
            records.append(record)
        elif f'"{CHECKSUM}"' in line and record != {CHECKSUM: _lines_digest(lines[:number])}:
            raise QubolearnError(f"{path} is damaged: its checksum is another; delete it to go on without")
    return records


def read_text(path: Path, limit: int = MAX_JSON) -> str:
    """A text of at most ``limit`` bytes."""
    return read_bytes(path, limit).decode("utf-8", errors="replace")


def read_bytes(path: Path, limit: int) -> bytes:
    """A file of at most ``limit`` bytes."""
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise QubolearnError(f"cannot read {path}: {error.strerror}") from error
    if len(data) > limit:
        raise QubolearnError(f"{path} has more than {limit} bytes; is it the right file?")
    return data


def _json_digest(value: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _lines_digest(lines: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
