"""The tables of scene and snakes: means over splits or seeds, and a paired test against the rivals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from qubolearn.errors import QubolearnError
from qubolearn.files import read_json
from qubolearn.paper.grid.views import markdown_table

__all__ = ["scene_table", "snakes_table"]

Records = Sequence[Mapping[str, Any]]


def scene_table(results: Path) -> str:
    """Exact match of all ways to learn, on the given split and over all splits, and who is right where one is not."""
    result, kinds = _read(results, "scene")
    rows = [
        (name, f"{records[0]['accuracy']:.1f}", _spread(records, "accuracy"), _paired(records[0]))
        for name, records in kinds.items()
    ]
    heads = ["", "given split, %#", "all splits, %#", "on the given split, beside quant's mean"]
    splits, pictures = len(kinds["quant"]), kinds["quant"][0]["pictures"]
    note = (
        f"*{splits} splits, {pictures} test pictures; networks: mean of {len(kinds['quant'][0]['accuracies'])} seeds. "
        f"± is the deviation over splits, whose pictures overlap; p is McNemar's exact test. {_made(result, 'scene')}*"
    )
    return f"{markdown_table(heads, rows)}\n{note}\n"


def snakes_table(results: Path) -> str:
    """Accuracy over cells, over cells of snakes, and of whole grids, over seeds."""
    result, kinds = _read(results, "snakes")
    rows = [
        (
            name,
            *(_spread(records, metric) for metric in ("accuracy", "snake", "all_right")),
            f"{mean(each['training_seconds'] for each in records):.0f}" if "training_seconds" in records[0] else "–",
        )
        for name, records in kinds.items()
    ]
    heads = ["", "cells, %#", "cells of snakes, %#", "whole grids, %#", "training, s#"]
    note = f"*{len(kinds['quant'])} seeds, the given split, 100 test grids. {_made(result, 'snakes')}*"
    return f"{markdown_table(heads, rows)}\n{note}\n"


def _read(results: Path, name: str) -> tuple[Mapping[str, Any], dict[str, list[Mapping[str, Any]]]]:
    """A result file, and its records by method, those of the first split or seed first."""
    path = results / "benchmarks" / f"{name}.json"
    if not path.is_file():
        raise QubolearnError(f"no {path}; run: qubolearn benchmark {name} --out {results}/benchmarks")
    result = read_json(path)
    kinds: dict[str, list[Mapping[str, Any]]] = {}
    for record in result["records"]:
        kinds.setdefault(record["method"], []).append(record)
    return result, kinds


def _spread(records: Records, metric: str) -> str:
    values = [record[metric] for record in records]
    digits = 2 if 99 <= mean(values) < 100 else 1
    return f"{mean(values):.{digits}f}" + (f" ± {stdev(values):.{digits}f}" if len(values) > 1 else "")


def _paired(record: Mapping[str, Any]) -> str:
    """On how many pictures only quant or only the rival is right, and how likely that is where both are as good."""
    if "only_quant" not in record:
        return "–"
    from scipy.stats import binomtest

    ours, theirs = round(record["only_quant"]), round(record["only_rival"])
    p = binomtest(ours, ours + theirs).pvalue if ours + theirs else 1.0
    return f"{ours} : {theirs} pictures, p = {p:.2g}"


def _made(result: Mapping[str, Any], name: str) -> str:
    return f"{result['machine']}; qubolearn {result['versions']['qubolearn']}. Made by `qubolearn benchmark {name}`."
