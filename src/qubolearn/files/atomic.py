"""Writing files so that a reader finds the old content or the new, never a part, and nothing outside the folder."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from qubolearn.errors import QubolearnError

__all__ = ["is_temporary", "make_folder", "write_atomic", "write_output"]


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file so that whatever happens, its place holds the old content or the new, never a part.

    A link at this place is replaced and not followed, so nothing outside the folder changes. A file that is replaced
    hands its mode on.
    """
    temporary = path.parent / f".{path.name[:100]}.{secrets.token_hex(8)}.tmp"
    try:
        if not path.name or path.is_dir():
            raise IsADirectoryError(None, "it is a folder")
        with open(temporary, "wb", opener=_new_file) as file:
            file.write(data)
            file.flush()
            _hand_mode_on(path, file.fileno())
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise QubolearnError(f"cannot write {path}: {error.strerror}; the file before it is untouched") from error
        raise


def write_output(path: Path, data: bytes) -> None:
    """Write where a user asked for it: links are followed, devices and pipes are written to, files are whole or not."""
    try:
        is_file = not path.exists() or stat.S_ISREG(path.stat().st_mode)
        # what a shell opened as /dev/stdout may be a file, which must not be replaced below it
        if (is_file and not str(path).startswith(("/dev/", "/proc/"))) or path.is_dir():
            write_atomic(Path(os.path.realpath(path)), data)
        else:
            path.write_bytes(data)
    except OSError as error:
        raise QubolearnError(f"cannot write {path}: {error.strerror}") from error


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, where they are missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise QubolearnError(f"cannot use the folder {folder}: {error.strerror}; choose another --out") from error


def is_temporary(path: Path) -> bool:
    """Whether a file is what :func:`write_atomic` writes before it is whole; a killed process leaves it behind."""
    return path.name.startswith(".") and path.name.endswith(".tmp")


def _new_file(path: str, flags: int) -> int:
    """Open a file that must not be there yet, not even as a link, with the mode that the umask leaves."""
    return os.open(path, flags | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _hand_mode_on(path: Path, descriptor: int) -> None:
    """Give an open file the mode, and where allowed the group, of the regular file whose place it takes."""
    with suppress(FileNotFoundError):
        before = path.lstat()
        if stat.S_ISREG(before.st_mode) and hasattr(os, "fchmod"):
            with suppress(OSError):
                os.fchown(descriptor, -1, before.st_gid)
            os.fchmod(descriptor, before.st_mode & 0o777)


def _sync_folder(folder: Path) -> None:
    """Make a renaming last through a power cut, where the system can."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
