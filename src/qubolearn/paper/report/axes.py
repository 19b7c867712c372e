"""The frame of a drawing: numbers -> places in the picture, ticks at round numbers, grid and labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from qubolearn.paper.report.markup import Html, el

__all__ = ["Axes", "short", "ticks"]


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """About ``count`` round numbers from low to high.

    >>> ticks(0, 10), ticks(-0.31, 0.42)
    ([0.0, 2.0, 4.0, 6.0, 8.0, 10.0], [-0.2, 0.0, 0.2, 0.4])
    """
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(index * step, 10) for index in range(first, last + 1)]


def short(value: float) -> str:
    """A number with as many digits as it needs, and a proper minus.

    >>> short(12000.0), short(-0.25), short(3.14159)
    ('12,000', '−0.25', '3.14')
    """
    text = f"{value:,.0f}" if abs(value) >= 1000 or value == round(value) else f"{value:.3g}"
    return text.replace("-", "−")


@dataclass(frozen=True)
class Axes:
    """A rectangle of the picture that shows x in [x_low, x_high] and y in [y_low, y_high]."""

    x_low: float
    x_high: float
    y_low: float
    y_high: float
    width: float = 300
    height: float = 200
    left: float = 44
    right: float = 10
    top: float = 8
    bottom: float = 40

    @classmethod
    def around(cls, xs: Sequence[float], ys: Sequence[float], y_from_zero: bool = False) -> Axes:
        """Axes that hold all points, with some air above."""
        x_low, x_high = _apart(min(xs), max(xs))
        y_low, y_high = _apart(min(0.0, *ys) if y_from_zero else min(ys), max(ys))
        air = 0.05 * (y_high - y_low)
        return cls(x_low, x_high, y_low if y_from_zero else y_low - air, y_high + air)

    def x(self, value: float) -> float:
        inside = self.width - self.left - self.right
        return round(self.left + inside * (value - self.x_low) / (self.x_high - self.x_low), 1)

    def y(self, value: float) -> float:
        inside = self.height - self.top - self.bottom
        return round(self.height - self.bottom - inside * (value - self.y_low) / (self.y_high - self.y_low), 1)

    def frame(self, x_label: str, y_label: str) -> Html:
        """Grid, ticks and labels."""
        bottom, middle = self.height - self.bottom, self.left + (self.width - self.left - self.right) / 2
        parts = []
        for value in ticks(self.y_low, self.y_high):
            y = self.y(value)
            parts.append(el("line", x1=self.left, x2=self.width - self.right, y1=y, y2=y, class_="grid"))
            parts.append(el("text", short(value), x=self.left - 6, y=y + 3.5, text_anchor="end"))
        for value in ticks(self.x_low, self.x_high):
            x = self.x(value)
            parts.append(el("line", x1=x, x2=x, y1=bottom, y2=bottom + 4, class_="axis"))
            parts.append(el("text", short(value), x=x, y=bottom + 16, text_anchor="middle"))
        parts.append(el("line", x1=self.left, x2=self.width - self.right, y1=bottom, y2=bottom, class_="axis"))
        parts.append(el("text", x_label, x=middle, y=self.height - 6, text_anchor="middle", class_="label"))
        turned = f"translate(11 {self.top + (bottom - self.top) / 2:.0f}) rotate(-90)"
        parts.append(el("text", y_label, transform=turned, text_anchor="middle", class_="label"))
        return el("g", parts, aria_hidden="true")


def _apart(low: float, high: float) -> tuple[float, float]:
    """An interval of some width, where all values are the same too."""
    return (low, high) if high > low else (low - 0.5, high + 0.5)
