"""Errors in a problem of the user's own, as one line that says where."""

from __future__ import annotations

import os
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from qubolearn.errors import RAISED_IN, QubolearnError

__all__ = ["in_one_line"]


@contextmanager
def in_one_line() -> Iterator[None]:
    """Turn an error in a file of the user's own into a QubolearnError; with QUBOLEARN_TRACEBACK=1 it is left alone.

    An error that is only in what is installed, or ours, is no mistake of theirs, and keeps its traceback.
    """
    try:
        yield
    except QubolearnError:
        raise
    except Exception as error:
        places = sysconfig.get_paths()
        installed = (*(places[name] for name in ("stdlib", "purelib", "platlib")), str(Path(__file__).parents[1]))
        files = [frame for frame in traceback.extract_tb(error.__traceback__) if os.path.isfile(frame.filename)]
        frames = [frame for frame in files if not frame.filename.startswith(installed)]
        if not frames or os.environ.get("QUBOLEARN_TRACEBACK"):
            raise
        where = [f"{frames[-1].filename}, line {frames[-1].lineno}"]
        where += [note for note in getattr(error, "__notes__", []) if note.startswith(RAISED_IN)]
        more = "QUBOLEARN_TRACEBACK=1 shows the traceback"
        raise QubolearnError(f"{type(error).__name__}: {error} ({'; '.join(where)}); {more}") from error
