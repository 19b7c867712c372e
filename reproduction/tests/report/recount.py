"""Recount all verdicts from raw records and the paper's data file.

Nothing of the package is imported. Run it as
``python recount.py reproduction/results``.
"""

from __future__ import annotations

import base64
import json
import math
import statistics
import sys
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

PAPER = Path(__file__).parents[2] / "src" / "quant_reproduction" / "grid" / "paper.json"
Where = Callable[[str, str], tuple[str, str, str, str]]


def at_size(item: str, column: str = "({}) quant", label: str = "exhaustive") -> Where:
    return lambda row, protocol: (item, row, column.format(protocol), label)


def under_noise(item: str, job_row: str) -> Where:
    def place(row: str, protocol: str) -> tuple[str, str, str, str]:
        label = "exhaustive" if row[:2] == "0 " else f"noise {row.split()[0]}%"
        return item, job_row, f"({protocol}) quant", label

    return place


def trained_with_noise(row: str, protocol: str) -> tuple[str, str, str, str]:
    """Return the place of networks trained with noise."""
    return under_noise("rotation" if protocol == "c" else "rotation-trained", "L3 H32")(row, protocol)


def as_released(table: str, row: str) -> tuple[str, str, str, str]:
    """Return the place of (r); rotations have 1 % wrong matches."""
    if table in ("Table 1a", "Table 1b"):
        return "released-graphs", *((row, "(r) quant") if table == "Table 1a" else WILLOW), "exhaustive"
    item = (
        "released-2d"
        if table in ("Table 2", "Table 4b", "Table 6", "Table 8", "Table 13", "Table 14")
        else "released-3d"
    )
    if table in ("Table 2", "Table 4b", "Table 13", "Table 3", "Table 4c", "Table 11"):
        if item == "released-2d":
            return item, row, "(r) quant", "exhaustive"
        return item, row, "(r) quant, chain", "noise 1%"
    if table == "Table 6":
        return item, "L5 H78", "(r) quant", f"interval {row.split()[0]}"
    column = "(r) quant, noisy" if table == "Table 12b" else "(r) quant"
    column += ", chain" if item == "released-3d" else ""
    label = "exhaustive" if row[:2] == "0 " else f"noise {row.split()[0]}%"
    size = "L5 H78" if table == "Table 8" else "L3 H32"
    return (item, size, column, label) if table != "Table 9" else ("",) * 4


WILLOW = ("L5 H78", "(r) quant, Willow")
GRAPHS = {"a": "quant, paper", "b": "quant, best", "c": "quant, best"}
ANNEALED = {"a": "(a) ours", "b": "ours", "c": "ours"}
#: table -> row of the paper and protocol -> item, row, column, test
OURS: dict[str, Where] = {
    "Table 1a": lambda row, protocol: ("randgraph", row, GRAPHS[protocol], "exhaustive"),
    "Table 1b": at_size("willow"),
    "Table 2": at_size("pointset"),
    "Table 3": at_size("rotation"),
    "Table 4b": at_size("pointset"),
    "Table 4c": at_size("rotation"),
    "Table 6": lambda row, protocol: (
        "pointset",
        "L5 H78",
        f"({protocol}) quant",
        f"interval {row.split()[0]}",
    ),
    "Table 7": under_noise("rotation", "L3 H32"),
    "Table 8": under_noise("pointset", "L5 H78"),
    "Table 9": lambda row, protocol: ("success", row, ANNEALED[protocol], "quantum"),
    "Table 11": at_size("rotation"),
    "Table 12b": trained_with_noise,
    "Table 13": at_size("pointset"),
    "Table 14": under_noise("pointset", "L3 H32"),
}
SHARES = {"accuracy", "success_probability"}  # of 1, where the paper has %
#: Test items per training item of random splits.
OVERLAPS = {"pointset": 0.1, "rotation": 0.1, "rotation-trained": 0.1, "willow": 0.3}


def stored(results: Path) -> list[dict[str, Any]]:
    """Return all records of a folder."""
    return [
        json.loads(line) for path in sorted(results.glob("*.jsonl")) for line in path.read_text().splitlines()
    ]


def recount(results: Path, protocol: str) -> Counter[str]:
    """Return verdicts of the paper's numbers, and of Table 5.

    "within 10 %" counts some of the reproduced ones again.
    """
    found: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for record in stored(results):
        job = record["job"]
        found.setdefault((job["item"], job["row"], job["column"]), []).append(record["metrics"])
    verdicts: Counter[str] = Counter()
    for table in json.loads(PAPER.read_text(), parse_float=str)["tables"]:
        for cell in table["cells"]:
            if table["name"] == "Table 5":
                column, text = {"SA": ("SA", "SA"), "QA": ("QA (simulated)", "exact")}[cell["column"]]
                place = {
                    "a": ("training-raw", "k=5", f"(a) {text}, 450 epochs"),
                    "c": ("training-solver", "k=5", column),
                    **({"r": ("released-five", "k=5", "(r) L5 H78")} if column == "SA" else {}),
                }
                at, label = place.get(protocol, ("", "", "")), "exhaustive" if protocol == "r" else "own"
                metrics = ["accuracy" + ("_projected" if cell["row"].startswith("after") else "")]
            elif table["name"] in OURS and cell["column"] == "Ours":
                name, row = table["name"], cell["row"]
                *where, label = as_released(name, row) if protocol == "r" else OURS[name](row, protocol)
                at, metrics = (where[0], where[1], where[2]), table["metrics"]
            else:
                continue
            spreads = cell.get("spread", [None] * len(cell["values"]))
            for metric, printed, spread in zip(metrics, cell["values"], spreads, strict=True):
                tests = [metrics[label] for metrics in found.get(at, []) if label in metrics]
                paper = (str(printed), None if spread is None else float(spread), int(table.get("runs", 3)))
                verdicts.update(verdict(tests, metric, *paper, OVERLAPS.get(at[0], 0.0)))
    return verdicts


def verdict(
    tests: list[dict[str, Any]], metric: str, printed: str, spread: float | None, runs: int, overlap: float
) -> list[str]:
    """Return one verdict, and True if the number is within 10 %."""
    if not tests:
        return ["not measured"]
    more_is_better = metric.removesuffix("_projected") in SHARES
    scale, paper, n = 100.0 if more_is_better else 1.0, float(printed), len(tests)
    values = [scale * test[metric] for test in tests]
    half_digit = 0.5 * 10.0 ** -len(printed.partition(".")[2])
    mean, variance = (
        statistics.mean(values),
        max(statistics.variance(values), scale**2 * floor(tests, metric)),
    )
    half = stats.t.ppf(0.95, n - 1) * math.sqrt(variance * (1 / n + overlap))

    def within(share: float) -> bool:
        margin = share * abs(paper) + half_digit
        return paper - margin <= mean - half and mean + half <= paper + margin

    if within(0.25):
        return ["reproduced", *(["within 10 %"] if within(0.10) else [])]
    own, freedom, theirs = variance * (1 / n + overlap), n - 1.0, 0.0
    if spread:
        theirs = spread**2 / runs
        freedom = (own + theirs) ** 2 / (own**2 / (n - 1) + theirs**2 / (runs - 1))
    elif spread is None:
        theirs = variance  # one more run
    if abs(mean - paper) - half_digit <= stats.t.ppf(0.975, freedom) * math.sqrt(own + theirs):
        return ["inconclusive"]
    return ["better" if (mean > paper) == more_is_better else "worse"]


def floor(tests: list[dict[str, Any]], metric: str) -> float:
    """Return one seed's variance by its instances, of 1 or degrees²."""
    instances = min((test["instances"] for test in tests if test.get("instances")), default=0)
    if not instances:
        return 0.0
    if metric == "success_probability":
        return statistics.fmean(test["success_probability_deviation"] ** 2 for test in tests) / instances
    if metric == "degrees":
        kept = [
            np.frombuffer(zlib.decompress(base64.b64decode(test["scores"])), "<u2") / 100 for test in tests
        ]
        return statistics.fmean(float(scores.var(ddof=1)) for scores in kept) / instances
    if metric == "degrees_median":
        return 0.0
    share = (statistics.mean(test[metric] for test in tests) * instances + 1) / (instances + 2)
    return share * (1 - share) / instances


if __name__ == "__main__":
    for each in ("a", "r", "b", "c"):
        print(each, dict(recount(Path(sys.argv[1]), each)))
