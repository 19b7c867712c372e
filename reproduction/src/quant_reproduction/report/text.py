"""Tables, and the format of numbers, durations and verdicts in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from quant_reproduction.grid.views import markdown_table

__all__ = [
    "MARKS",
    "Table",
    "format_duration",
    "format_number",
    "format_ratio",
    "format_spread",
    "join_words",
    "link_records",
    "plural",
    "training_hardware",
]

#: Marks of verdicts and answers, so that they are readable without color.
MARKS = {
    "better": "✓",
    "holds": "✓",
    "indistinguishable": "≈",
    "inconclusive": "≈",
    "worse": "✗",
    "does not hold": "✗",
    "not measured": "·",
    "does not apply": "–",
}


@dataclass(frozen=True)
class Table:
    """Cells and notes in Markdown; a head that ends with # marks a column of numbers."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()

    def __str__(self) -> str:
        return "\n".join([markdown_table(self.heads, self.rows), *(f"*{note}*\n" for note in self.notes)])


def link_records(*items: str) -> str:
    """Return links to the records of items."""
    return ", ".join(f"[{item}](records.md#{item})" for item in items)


def format_spread(mean: float | Decimal, deviation: float | Decimal | None, digits: int | None = None) -> str:
    """Return "mean ± deviation"; without ``digits`` the numbers keep the digits that the paper prints."""
    numbers = [mean] if deviation is None else [mean, deviation]
    return " ± ".join(str(each) if digits is None else f"{each:.{digits}f}" for each in numbers)


def format_number(value: float) -> str:
    """Return a number with three significant digits, or as an integer if it is one.

    >>> format_number(12000.0), format_number(-0.25), format_number(3.14159), format_number(999.7)
    ('12,000', '−0.25', '3.14', '1,000')
    """
    text = f"{value:,.0f}" if abs(value) >= 999.5 or float(value).is_integer() else f"{value:.3g}"
    return text.replace("-", "−")


def format_ratio(ratio: float) -> str:
    """Return a factor with two significant digits.

    >>> format_ratio(1234.5), format_ratio(86.4), format_ratio(3.14)
    ('1,200', '86', '3.1')
    """
    if ratio < 10:
        return f"{ratio:.1f}"
    return f"{round(ratio, -max(0, len(f'{ratio:.0f}') - 2)):,.0f}"


def format_duration(seconds: float) -> str:
    """
    >>> [format_duration(seconds) for seconds in (0.42, 17.2, 260, 7300, 90 * 3600)]
    ['0.4 s', '17 s', '4 min 20 s', '2 h 1 min', '90 h']
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds >= 10 * 3600:
        return f"{seconds / 3600:,.0f} h"
    whole = round(seconds)
    parts = {"h": whole // 3600, "min": whole % 3600 // 60, "s": whole % 60 if whole < 3600 else 0}
    return " ".join(f"{count} {unit}" for unit, count in parts.items() if count)


def plural(count: int, noun: str) -> str:
    """
    >>> plural(1, "cell"), plural(3, "cell")
    ('1 cell', '3 cells')
    """
    return f"{count} {noun}{'' if count == 1 else 's'}"


def join_words(words: Sequence[str]) -> str:
    """
    >>> join_words(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def training_hardware(records: Iterable[Mapping[str, Any]]) -> str:
    """Describe the hardware behind the training times of records.

    >>> training_hardware([{"metrics": {"device": "cpu"}}, {"metrics": {}}])
    'one core'
    """
    devices = {record["metrics"].get("device") for record in records} - {None}
    if devices == {"cuda"}:
        return "a shared GPU"
    return "one core or a shared GPU" if "cuda" in devices else "one core"
