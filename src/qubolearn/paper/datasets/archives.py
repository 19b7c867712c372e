"""The files of an original dataset, in the zip archive that its authors publish or in the folder that it unpacks to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TypeVar

from qubolearn.errors import QubolearnError
from qubolearn.problems.data import ZIP_ERRORS, data_root, download_file, note_file, open_zip, read_member

__all__ = ["fetch", "packed_files"]

Read = TypeVar("Read")


@contextmanager
def packed_files(path: Path, suffix: str, max_bytes: int) -> Iterator[dict[PurePosixPath, Callable[[], bytes]]]:
    """Each file with this ending, in order of the names, and what reads it; nothing is unpacked to disk.

    Hidden files and what macOS adds are left out. A file of more than ``max_bytes`` is refused when it is read.
    """
    if path.is_dir():
        found = {PurePosixPath(file.relative_to(path).as_posix()): file for file in path.rglob(f"*{suffix}")}
        yield {
            name: partial(_read, path, name, file.stat().st_size, max_bytes, partial(_noted, file))
            for name, file in sorted(found.items())
            if _is_data(name)
        }
        return
    with open_zip(path) as archive:
        entries = {PurePosixPath(entry.filename): entry for entry in archive.infolist()}
        yield {
            name: partial(_read, path, name, entry.file_size, max_bytes, partial(read_member, archive, entry))
            for name, entry in sorted(entries.items(), key=lambda item: item[0])
            if name.suffix == suffix and _is_data(name)
        }


def _is_data(name: PurePosixPath) -> bool:
    return not name.name.startswith(".") and "__MACOSX" not in name.parts


def _noted(file: Path) -> bytes:
    note_file(file)
    return file.read_bytes()


def _read(path: Path, name: PurePosixPath, size: int, max_bytes: int, read: Callable[[], bytes]) -> bytes:
    if size > max_bytes:
        raise QubolearnError(f"{path}: {name} has {size} bytes (limit {max_bytes}); is it the right file?")
    try:
        return read()
    except ZIP_ERRORS as error:
        raise QubolearnError(f"{path}: cannot read {name}: {error}; fetch it anew") from error


def fetch(
    url: str, file: str, max_bytes: int, read: Callable[[Path], Read], sha256: str | None = None
) -> tuple[Path, Read]:
    """Download an archive to ``file`` below the data folder and read it; one that cannot be read is not kept.

    The authors publish no checksums, so what counts by default is that their reader accepts it.
    """
    archive = download_file(url, data_root() / file, max_bytes, sha256)
    try:
        return archive, read(archive)
    except QubolearnError:
        archive.unlink()
        raise
