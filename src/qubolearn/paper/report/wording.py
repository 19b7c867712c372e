"""Numbers and verdicts as words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

__all__ = ["VERDICT_MARKS", "duration", "listed", "many", "short", "signed", "spread", "times", "trained_on"]

VERDICT_MARKS = {
    "better": "✓",
    "holds": "✓",
    "not told apart": "≈",
    "cannot be told apart": "≈",
    "worse": "✗",
    "does not hold": "✗",
    "not measured": "·",
    "does not apply": "–",
}


def spread(mean: float | Decimal, deviation: float | Decimal | None, digits: int | None = None) -> str:
    """Mean ± deviation; the paper's numbers keep their own digits."""
    first = str(mean) if digits is None else f"{mean:.{digits}f}"
    if deviation is None:
        return first
    return f"{first} ± {deviation if digits is None else f'{deviation:.{digits}f}'}"


def short(value: float) -> str:
    """A number with as many digits as it needs, and a proper minus.

    >>> short(12000.0), short(-0.25), short(3.14159), short(999.7)
    ('12,000', '−0.25', '3.14', '1,000')
    """
    text = f"{value:,.0f}" if abs(value) >= 999.5 or float(value).is_integer() else f"{value:.3g}"
    return text.replace("-", "−")


def trained_on(records: Iterable[Mapping[str, Any]]) -> str:
    """What the seconds of trainings are seconds of, as far as records say it.

    >>> trained_on([{"metrics": {"device": "cpu"}}, {"metrics": {}}])
    'one core'
    """
    devices = {record["metrics"].get("device") for record in records} - {None}
    if devices == {"cuda"}:
        return "a GPU that jobs share"
    return "one core or a GPU that jobs share" if "cuda" in devices else "one core"


def signed(value: float, digits: int) -> str:
    """A difference with its sign.

    >>> signed(-0.256, 2), signed(0.0, 1)
    ('−0.26', '±0.0')
    """
    text = f"{abs(value):.{digits}f}"
    if not float(text):
        return f"±{text}"
    return ("−" if value < 0 else "+") + text


def duration(seconds: float) -> str:
    """
    >>> [duration(seconds) for seconds in (0.42, 17.2, 260, 7300, 90 * 3600)]
    ['0.4 s', '17 s', '4 min 20 s', '2 h 1 min', '90 h']
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    if whole < 10 * 3600:
        return f"{whole // 3600} h {whole % 3600 // 60} min" if whole % 3600 >= 60 else f"{whole // 3600} h"
    return f"{seconds / 3600:,.0f} h"


def times(ratio: float) -> str:
    """A factor without false digits.

    >>> times(1234.5), times(86.4), times(3.14)
    ('1,200', '86', '3.1')
    """
    if ratio < 10:
        return f"{ratio:.1f}"
    digits = max(0, len(f"{ratio:.0f}") - 2)
    return f"{round(ratio, -digits):,.0f}"


def many(count: int, one: str, more: str | None = None) -> str:
    """
    >>> many(1, "cell"), many(3, "cell"), many(2, "entry", "entries")
    ('1 cell', '3 cells', '2 entries')
    """
    return f"{count} {one if count == 1 else more or one + 's'}"


def listed(words: Sequence[str]) -> str:
    """
    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
