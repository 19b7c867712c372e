"""Checks of options: of counts and numbers by name, and of values of strangers' files against an annotation."""

from __future__ import annotations

import math
from itertools import pairwise
from numbers import Integral, Real
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from qubolearn.errors import QubolearnError, unknown_name

__all__ = ["MAX_WHOLE", "check_counts", "check_numbers", "check_option", "check_rising"]

#: Whole numbers are below this: torch's and numpy's are of 64 bits.
MAX_WHOLE = 2**63


def check_counts(**counts: object) -> None:
    """Raise unless every value is a whole number of at least 1.

    >>> check_counts(reads=10, sweeps=0)
    Traceback (most recent call last):
    ...
    qubolearn.errors.QubolearnError: sweeps=0 must be a whole number, at least 1
    """
    for name, value in counts.items():
        if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
            raise QubolearnError(f"{name}={value!r} must be a whole number, at least 1")


def check_numbers(zero: bool = False, **numbers: object) -> None:
    """Raise unless every value is a finite number above 0, or with ``zero`` at least 0.

    >>> check_numbers(beta=float("nan"))
    Traceback (most recent call last):
    ...
    qubolearn.errors.QubolearnError: beta=nan must be a finite number above 0
    """
    for name, value in numbers.items():
        if not (isinstance(value, Real) and math.isfinite(value) and (float(value) > 0 or (zero and value == 0))):
            raise QubolearnError(f"{name}={value!r} must be a finite number{', at least' if zero else ' above'} 0")


def check_rising(count: int, **numbers: Any) -> None:
    """Raise unless every value holds so many finite numbers above 0, none below the one before it.

    >>> check_rising(2, beta_range=(3.0, 1.0))
    Traceback (most recent call last):
    ...
    qubolearn.errors.QubolearnError: beta_range=(3.0, 1.0); want 2 finite numbers above 0, the smallest first
    """
    for name, values in numbers.items():
        try:
            fit = len(values) == count and all(0 < a <= b < math.inf for a, b in pairwise((values[0], *values)))
        except TypeError:
            fit = False
        if not fit:
            raise QubolearnError(f"{name}={values!r}; want {count} finite numbers above 0, the smallest first")


def check_option(value: object, hint: Any, what: str) -> None:
    """Raise unless a plain value fits an annotation of plain types; whole numbers are floats too.

    Annotations of anything else than numbers, strings, booleans, None and literals are not looked at.

    >>> check_option(3, int | None, "reads")
    >>> check_option("abc", int | None, "reads")
    Traceback (most recent call last):
    ...
    qubolearn.errors.QubolearnError: reads='abc'; want int or None
    """
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    literals = [choice for option in options if get_origin(option) is Literal for choice in get_args(option)]
    if any(_fits(value, option) for option in options) or (type(value) in (str, int, bool) and value in literals):
        return
    if literals and isinstance(value, str):
        raise unknown_name(what, value[:40], map(str, literals))
    if type(value) is int and int in options:
        raise QubolearnError(f"{what}={str(value)[:40]} is too large; want less than 2**63 in size")
    if isinstance(value, float) and float in options:
        raise QubolearnError(f"{what}={value} is not finite; want a number")
    names = [option.__name__ if isinstance(option, type) else str(option) for option in options]
    raise QubolearnError(f"{what}={repr(value)[:40]}; want {' or '.join(names).replace('NoneType', 'None')}")


def _fits(value: object, option: Any) -> bool:
    if option is float:
        return (type(value) is int and abs(value) < MAX_WHOLE) or (type(value) is float and math.isfinite(value))
    if option is int:
        return type(value) is int and abs(value) < MAX_WHOLE
    if option in (str, bool, type(None)):
        return type(value) is option
    return get_origin(option) is not Literal
