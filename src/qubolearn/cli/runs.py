"""List the run folders below a folder: problem, method, epochs, score on unseen instances, and date.

A folder that cannot be read is listed with what is wrong with it. Nothing in the folders is executed.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from qubolearn.cli.output import Output
from qubolearn.errors import QubolearnError, printable
from qubolearn.files import read_json
from qubolearn.problems import Problem, problem_type

__all__ = ["find_runs", "summary"]

EPILOG = """examples:
  qubolearn runs
  qubolearn runs results --json"""


def add_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    parser.add_argument("folder", nargs="?", default="runs", metavar="FOLDER", help="where to look [runs]")


def run(args: argparse.Namespace, output: Output) -> None:
    if not os.path.isdir(args.folder):
        raise QubolearnError(f"{args.folder} is no folder; train a run with: qubolearn train ... --out FOLDER")
    rows = [summary(folder) for folder in find_runs(Path(args.folder))]
    table = [
        [os.path.relpath(row["run"], args.folder), *([row["error"], *4 * [""]] if "error" in row else _cells(row))]
        for row in rows
    ]
    output.table(
        f"{len(rows)} runs below {args.folder}", ["run", "problem", "method", "epochs", "score", "date"], table
    )
    output.result(runs=rows)


def find_runs(folder: Path) -> Iterator[Path]:
    """The folders with a config.json at or below a folder, in the order of their names; links are not followed."""
    for here, below, files in os.walk(folder):
        below[:] = [] if "config.json" in files else sorted(below)
        if "config.json" in files:
            yield Path(here)


def summary(folder: Path) -> dict[str, Any]:
    """One run: what was asked, and its score where it has one; of a folder that is no run, what is wrong with it."""
    try:
        header = read_json(folder / "config.json")
        problem, training = header.get("problem"), header.get("training")
        if not isinstance(problem, dict) or not isinstance(training, dict):
            raise QubolearnError("config.json lacks 'problem' or 'training'")
        result = read_json(folder / "result.json") if (folder / "result.json").is_file() else {}
    except QubolearnError as error:
        return {"run": printable(str(folder)), "error": str(error)}
    name = printable(str(problem.get("name")))[:60]
    metric = _metric(name)
    when = max(path.stat().st_mtime for path in folder.iterdir() if path.is_file())
    return {
        "run": printable(str(folder)),
        "problem": name,
        "method": printable(str(training.get("method")))[:20],
        "epochs": _number(training, "epochs"),
        "seed": _number(training, "seed"),
        "finished": (folder / "model.safetensors").is_file(),
        "metric": metric,
        "score": _number(result, metric),
        "instances": _number(result, "instances"),
        "date": time.strftime("%Y-%m-%d %H:%M", time.localtime(when)),
    }


def _metric(name: str) -> str:
    """The metric that counts for a problem; that of most where its class is in a file of somebody's."""
    try:
        return problem_type(name).metric
    except QubolearnError:
        return Problem.metric


def _number(values: Mapping[str, Any], name: str) -> float | int | None:
    value = values.get(name)
    fits = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300  # NaN does not
    return value if fits else None


def _cells(row: Mapping[str, Any]) -> list[object]:
    score = f"{row['metric']} {row['score']:.4g}" if row["score"] is not None else "-"
    return [row["problem"], row["method"], row["epochs"], score if row["finished"] else "not finished", row["date"]]
