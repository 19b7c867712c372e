"""The table of Willow's ten keypoints: ours over random splits, and published ones beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from qubolearn.errors import QubolearnError
from qubolearn.files import read_json
from qubolearn.paper.grid.views import markdown_table

__all__ = ["published_table", "willow10_table"]

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


def willow10_table(results: Path) -> str:
    """Mean accuracy ± standard deviation over splits, the lowest and the highest split, and by class."""
    from qubolearn.paper.datasets.willow import CLASSES  # torch comes with it

    path = results / "benchmarks" / "willow10.json"
    if not path.is_file():
        raise QubolearnError(f"no {path}; run: qubolearn benchmark willow10 --out {results}/benchmarks")
    result = read_json(path)
    kinds: dict[str, list[Mapping[str, Any]]] = {}
    for record in result["records"]:
        kinds.setdefault(record["method"], []).append(record)
    rows = [(method, *_numbers(records)) for method, records in kinds.items()]
    heads = ["", "accuracy, %#", "splits#", *(f"{name}#" for name in CLASSES), "training, s#"]
    splits = len({record["split"] for record in result["records"]})
    note = (
        f"*{splits} random splits, {result['records'][0]['pairs_a_class']} test pairs a class; "
        f"{result['machine']}; qubolearn {result['versions']['qubolearn']}. Made by `qubolearn benchmark willow10`.*"
    )
    return f"{markdown_table(heads, rows)}\n{note}\n"


def _numbers(records: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    from qubolearn.paper.datasets.willow import CLASSES  # torch comes with it

    found = [100 * record["accuracy"] for record in records]
    spread = f" ± {stdev(found):.1f}" if len(found) > 1 else ""
    by_class = (f"{mean(100 * record[name] for record in records):.1f}" for name in CLASSES)
    seconds = mean(record["training_seconds"] for record in records)
    return f"{mean(found):.1f}{spread}", f"{min(found):.1f} to {max(found):.1f}", *by_class, f"{seconds:.0f}"


def published_table(results: Path) -> str:
    """What others published, in %."""
    from qubolearn.paper.datasets.willow import CLASSES  # torch comes with it

    rows = [(name, *(f"{100 * n:.1f}" for n in (numbers[-1], *numbers[:-1]))) for name, numbers in PUBLISHED.items()]
    return f"{markdown_table(['', 'mean, %#', *(f'{name}#' for name in CLASSES)], rows)}\n*Source: {SOURCE}.*\n"
