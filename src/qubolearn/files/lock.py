"""One writer at a time for a run folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from qubolearn.errors import QubolearnError

__all__ = ["lock_folder"]


@contextmanager
def lock_folder(folder: Path, wait: bool = False) -> Iterator[None]:
    """Be the only writer of a folder meanwhile; a second one, in any process or thread, is refused, or waits.

    The system keeps the lock (flock on the file ``.lock``) and drops it when its holder dies, however that dies. Where
    there are no such locks, e.g. on Windows and some network file systems, nothing is locked.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    descriptor = _open(folder / ".lock")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError as error:
        os.close(descriptor)
        raise QubolearnError(
            f"{folder} is being written by another training; wait for its end, or choose another --out"
        ) from error
    except (OSError, ValueError):  # a file system without locks, or no descriptor
        pass
    try:
        yield
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _open(path: Path) -> int:
    """A descriptor of the file, made where it is missing; -1 where that is not allowed, as no write will be."""
    for flags in (os.O_RDWR | os.O_CREAT, os.O_RDONLY):  # another user's file may be readable only
        with suppress(OSError):
            return os.open(path, flags | os.O_NOFOLLOW, 0o666)
    return -1
