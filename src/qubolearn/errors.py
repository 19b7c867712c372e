"""The one error type that the library raises on purpose; the command line turns it into exit code 2."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["CallbackError", "NonFiniteError", "QubolearnError", "missing_extra", "printable", "unknown_name"]


class QubolearnError(ValueError):
    """Bad input, said in one line: the value, the limit and the remedy.

    A name from a stranger's file may hold line ends or a terminal's control sequences; they are shown escaped.

    >>> print(QubolearnError("cannot read a\\nb"))
    cannot read a\\nb
    """

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


def printable(text: str) -> str:
    """A text whose line ends and control characters are shown escaped.

    >>> printable("a\\nb")
    'a\\\\nb'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class NonFiniteError(QubolearnError):
    """NaN or an infinity where the mathematics needs a number."""


class CallbackError(QubolearnError):
    """A callback of a training failed; which one and when is said, and its own error is the cause."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> QubolearnError:
    """The error for a name that is in no table, with the nearest ones that are.

    >>> str(unknown_name("solver", "exaustive", ["exhaustive", "neal"]))
    "unknown solver 'exaustive'; did you mean exhaustive? Known: exhaustive, neal"
    """
    known = sorted(known)
    near = get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]}?" if near else "."
    return QubolearnError(f"unknown {kind} {name!r}{hint} Known: {', '.join(known)}")


def missing_extra(what: str, extra: str) -> QubolearnError:
    """The error for an optional dependency that is not installed.

    >>> str(missing_extra("the D-Wave solver", "dwave"))
    "the D-Wave solver needs: pip install 'qubolearn[dwave]'"
    """
    return QubolearnError(f"{what} needs: pip install 'qubolearn[{extra}]'")
