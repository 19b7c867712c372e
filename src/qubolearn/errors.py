"""QubolearnError for bad input, and checks of arguments."""

from __future__ import annotations

import math
from collections.abc import Iterable
from difflib import get_close_matches
from itertools import pairwise
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

__all__ = [
    "CallbackError",
    "NonFiniteError",
    "QubolearnError",
    "check_counts",
    "check_nondecreasing",
    "check_numbers",
    "convert",
    "counted",
    "error_context",
    "missing_extra",
    "printable",
    "unknown_name",
]


class QubolearnError(ValueError):
    """Bad input, described in one line: the value, the limit and the remedy.

    >>> print(QubolearnError("cannot read a\\nb"))
    cannot read a\\nb
    """

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


def printable(text: str) -> str:
    """Escape line ends and control characters of a text."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class NonFiniteError(QubolearnError):
    """NaN or an infinity where the mathematics needs a number."""


class CallbackError(QubolearnError):
    """A callback failed; the message names it and the step."""


class error_context:
    """Add a note to errors of user code, such as "raised in the loss MyLoss, given A [2, 4, 4]".

    Contexts may be nested; the note is one line. A QubolearnError gets none.

    Args:
        part: what runs here, such as ``the loss``.
        whose: the value that it belongs to.
        given: tensors by name, whose shapes are shown.
    """

    def __init__(self, part: str, whose: object = None, **given: Any) -> None:
        self._part, self._whose, self._given = part, whose, given

    def __enter__(self) -> None:
        """Do nothing: this is on the hot path of training."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, Exception) or isinstance(error, QubolearnError):
            return
        notes = getattr(error, "__notes__", [])
        if notes and notes[-1].startswith("raised in "):
            notes[-1] += f"; in {self}"
        else:
            error.add_note(f"raised in {self}")

    def __str__(self) -> str:
        tensors = {name: value for name, value in self._given.items() if hasattr(value, "shape")}
        shapes = ", ".join(f"{name} {list(value.shape)}" for name, value in tensors.items())
        name = "" if self._whose is None else f" {_short(self._whose)}"
        return printable(f"{self._part}{name}" + (f", given {shapes}" if shapes else ""))


def _short(whose: object) -> str:
    text = str(whose)
    return text if len(text) <= 60 and text.isprintable() and " at 0x" not in text else type(whose).__name__


def unknown_name(kind: str, name: str, known: Iterable[str]) -> QubolearnError:
    """Return the error for an unknown name, with the nearest known ones.

    >>> str(unknown_name("solver", "exaustive", ["exhaustive", "neal"]))
    "unknown solver 'exaustive'; did you mean exhaustive? Known: exhaustive, neal"
    """
    known = sorted(known)
    near = get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]}?" if near else "."
    return QubolearnError(f"unknown {kind} {name!r}{hint} Known: {', '.join(known)}")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: 1 QUBO, 3 QUBOs."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def missing_extra(what: str, extra: str) -> QubolearnError:
    return QubolearnError(f"{what} needs: pip install 'qubolearn[{extra}]'")


def check_counts(**counts: object) -> None:
    """Raise unless every value is an integer of at least 1.

    >>> check_counts(reads=10, sweeps=0)
    Traceback (most recent call last):
    ...
    qubolearn.errors.QubolearnError: sweeps=0; expected an integer of at least 1
    """
    for name, value in counts.items():
        if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
            raise QubolearnError(f"{name}={value!r}; expected an integer of at least 1")


def check_numbers(zero: bool = False, **numbers: object) -> None:
    """Raise unless every value is finite and above 0, or with ``zero`` at least 0."""
    for name, value in numbers.items():
        finite = isinstance(value, Real) and math.isfinite(value)
        if not finite or not (float(value) > 0 or (zero and value == 0)):  # type: ignore[arg-type]
            least = "of at least" if zero else "above"
            raise QubolearnError(f"{name}={value!r}; expected a finite number {least} 0")


def check_nondecreasing(count: int, **numbers: Any) -> None:
    """Raise unless every value is ``count`` nondecreasing positive numbers."""
    for name, values in numbers.items():
        try:
            pairs = pairwise((values[0], *values))
            fits = len(values) == count and all(0 < a <= b < math.inf for a, b in pairs)
        except TypeError:
            fits = False
        if not fits:
            raise QubolearnError(f"{name}={values!r}; expected {count} finite numbers above 0, ascending")


def convert(value: Any, hint: Any, what: str) -> Any:
    """Return a value from text or JSON as the annotated type; raise if it does not fit.

    >>> convert("abc", int, "reads")
    Traceback (most recent call last):
    ...
    qubolearn.errors.QubolearnError: reads='abc'; expected `int`, got `str`
    """
    import msgspec

    number = isinstance(value, (int, float))
    if number and not abs(value) < 2**63:  # integers of torch and NumPy have 64 bits
        raise QubolearnError(f"{what}={str(value)[:40]}; expected a finite number below 2**63 in size")
    try:
        return msgspec.convert(value, hint, dec_hook=lambda kind, text: kind(text) if kind is Path else text)
    except msgspec.ValidationError as error:
        parts = (hint, *get_args(hint))
        choices = [str(choice) for part in parts if get_origin(part) is Literal for choice in get_args(part)]
        if choices and isinstance(value, str):
            raise unknown_name(what, value[:40], choices) from error
        reason = str(error).replace("Expected", "expected")
        raise QubolearnError(f"{what}={repr(value)[:40]}; {reason}") from error
