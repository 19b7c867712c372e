"""What others published on Willow's ten keypoints."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from qubolearn.paper.grid.views import markdown_table

__all__ = ["published_table"]

SOURCE = "README of Thinklab-SJTU/ThinkMatch on GitHub, commit 00b8d23, table 'Willow Object Class - 2GM & MGM'"
#: Accuracies of car, duck, face, motorbike, winebottle and their mean, of methods that match two images at a time.
PUBLISHED: Mapping[str, tuple[float, ...]] = {
    "GMN": (0.6790, 0.7670, 0.9980, 0.6920, 0.8310, 0.7934),
    "NGM": (0.8420, 0.7760, 0.9940, 0.7680, 0.8830, 0.8530),
    "NHGM": (0.8650, 0.7220, 0.9990, 0.7930, 0.8940, 0.8550),
    "PCA-GM": (0.8760, 0.8360, 1.0000, 0.7760, 0.8840, 0.8744),
    "CIE-H": (0.8581, 0.8206, 0.9994, 0.8836, 0.8871, 0.8898),
    "IPCA-GM": (0.9040, 0.8860, 1.0000, 0.8300, 0.8830, 0.9006),
    "BBGM": (0.9680, 0.8990, 1.0000, 0.9980, 0.9940, 0.9718),
    "NGM-v2": (0.9740, 0.9340, 1.0000, 0.9860, 0.9830, 0.9754),
    "NHGM-v2": (0.9740, 0.9390, 1.0000, 0.9860, 0.9890, 0.9780),
}


def published_table(results: Path) -> str:
    """What others published, in %."""
    from qubolearn.paper.datasets.willow import CLASSES  # torch comes with it

    rows = [(name, *(f"{100 * n:.1f}" for n in (numbers[-1], *numbers[:-1]))) for name, numbers in PUBLISHED.items()]
    return f"{markdown_table(['', 'mean, %#', *(f'{name}#' for name in CLASSES)], rows)}\n*Source: {SOURCE}.*\n"
