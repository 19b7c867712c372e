"""What a notebook shows of our values: small tables, and matrices as heat maps in inline SVG. All text is escaped."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["MAX_CELLS", "heat_map", "table"]

#: Rows of a matrix up to which a heat map is drawn.
MAX_CELLS = 64
LEVELS = 8  # shades of each color
RED, BLUE = "#b2182b", "#2166ac"


def table(title: str, rows: Iterable[Sequence[object]], headers: Sequence[str] = ()) -> str:
    """Return an HTML table; numbers that are not integers have four digits.

    >>> table("a < b", [("energy", -0.123456)])
    '<table><caption>a &lt; b</caption><tr><td>energy</td><td>-0.1235</td></tr></table>'
    """
    head = "".join(f"<th>{escape(header)}</th>" for header in headers)
    lines = [f"<tr>{head}</tr>"] if head else []
    lines += ["<tr>" + "".join(f"<td>{escape(_text(cell))}</td>" for cell in row) + "</tr>" for row in rows]
    return f"<table><caption>{escape(title)}</caption>{''.join(lines)}</table>"


def _text(cell: object) -> str:
    text = f"{cell:.4g}" if isinstance(cell, float) else str(cell)
    return text if len(text) <= 100 else text[:100] + "…"


def heat_map(matrix: Sequence[Sequence[float]], title: str = "") -> str:
    """Draw a square matrix as HTML, red above zero and blue below; empty if it is too large.

    >>> heat_map([[1.0, 0.0], [0.0, -1.0]], "A").count("<path")
    2
    """
    n = len(matrix)
    if not 0 < n <= MAX_CELLS:
        return ""
    limit = max((abs(value) for row in matrix for value in row if math.isfinite(value)), default=0.0) or 1.0
    cells: dict[int, list[str]] = {}  # shade -> one path of all its cells, which is far smaller than one element each
    for i, row in enumerate(matrix):
        for j, value in enumerate(row):
            shade = round(LEVELS * value / limit) if math.isfinite(value) else 0
            if shade:
                cells.setdefault(shade, []).append(f"M{j} {i}h1v1h-1z")
    paths = "".join(
        f'<path fill="{RED if shade > 0 else BLUE}" opacity="{abs(shade) / LEVELS:g}" d="{"".join(places)}"/>'
        for shade, places in sorted(cells.items())
    )
    frame = f'<rect width="{n}" height="{n}" fill="white" stroke="gray" stroke-width="{n / 200:g}"/>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="200" height="200" viewBox="0 0 {n} {n}" role="img">'
        f"<title>{escape(title)} (largest entry {limit:.3g})</title>{frame}{paths}</svg>"
    )
