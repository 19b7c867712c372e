"""The one error type that the library raises on purpose; the command line turns it into exit code 2."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

__all__ = [
    "RAISED_IN",
    "CallbackError",
    "NonFiniteError",
    "QubolearnError",
    "inside",
    "missing_extra",
    "printable",
    "unknown_name",
]


#: How the note of :class:`inside` begins.
RAISED_IN = "raised in "


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


class inside:
    """A context in which parts of a user's own run: an error keeps its type and traceback and gets a note of where.

    Contexts may be nested; the note is one line, from the innermost on. A QubolearnError says all that is needed by
    itself and gets none.

    Args:
        part: what runs here, such as ``the loss``.
        whose: the value that it belongs to; functions and values with a ``repr`` of one line are shown by it.
        given: tensors by name, whose shapes are shown.

    >>> import torch
    >>> try:
    ...     with inside("step", 3), inside("the loss", "my_loss", A=torch.zeros(2, 4, 4)):
    ...         1 / 0
    ... except ZeroDivisionError as error:
    ...     print(*error.__notes__)
    raised in the loss my_loss, given A [2, 4, 4]; in step 3
    """

    __slots__ = ("_given", "_part", "_whose")

    def __init__(self, part: str, whose: object = None, **given: Any) -> None:
        self._part, self._whose, self._given = part, whose, given

    def __enter__(self) -> None:
        """Nothing is done before there is an error: a training step passes here several times."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, Exception) or isinstance(error, QubolearnError):
            return
        notes = getattr(error, "__notes__", [])
        if notes and notes[-1].startswith(RAISED_IN):
            notes[-1] += f"; in {self}"
        else:
            error.add_note(RAISED_IN + str(self))

    def __str__(self) -> str:
        shapes = [f"{name} {list(value.shape)}" for name, value in self._given.items() if hasattr(value, "shape")]
        name = "" if self._whose is None else f" {_short(self._whose)}"
        return printable(f"{self._part}{name}" + (f", given {', '.join(shapes)}" if shapes else ""))


def _short(whose: object) -> str:
    """A value in a few words: itself where that is short, else the name of its class."""
    text = str(whose)
    return text if len(text) <= 60 and text.isprintable() and " at 0x" not in text else type(whose).__name__


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
