"""What the entries of both point cloud problems share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from qubolearn.paper.grid.entries.contract import ABLATIONS, METHODS, SOLVER_ROWS, over_seeds
from qubolearn.paper.grid.jobs import Job
from qubolearn.paper.grid.views import View, conditions

__all__ = ["BY_SOLVER", "by_size", "degrees", "figure_jobs"]

#: The paper's loss on our inputs; its epochs are each problem's own.
GAP: Mapping[str, Any] = {"loss": "gap", "weight_mlp": 1e-4}

degrees = partial(View, metrics=("degrees", "degrees_median"), unit="degrees", better="lower")
BY_SOLVER = conditions("L5 H78", SOLVER_ROWS, only=("quant",))

Tests = Sequence[Mapping[str, Any]]


def by_size(
    seeds: int,
    item: str,
    task: str,
    sizes: Sequence[tuple[int, int]],
    problem: Mapping[str, Any],
    gap_epochs: int,
    quick: bool,
    tests: Tests,
    every: Tests,
) -> list[Job]:
    """At each size the paper's loss in full and without its parts, and our recipe for each method.

    All methods are scored under ``tests``, and quant at the largest size under ``every`` one.
    """
    made: list[Job] = []
    for layers, hidden in sizes:
        row, size = f"L{layers} H{hidden}", {"layers": layers, "hidden": hidden}
        ours = partial(over_seeds, seeds, item, row, task=task, problem=problem, protocol="best")
        for column, without in {"full": {}, **ABLATIONS}.items():
            overrides: dict[str, Any] = {**size, **GAP, "epochs": 1 if quick else gap_epochs, **without}
            made += ours(column, overrides=overrides, tests=[{"label": "ablation"}])
        for method in METHODS:
            overrides = {"method": method, **size, **({"epochs": 1} if quick else {})}
            own = every if (method, layers, hidden) == ("quant", 5, 78) else tests
            made += ours(method, overrides=overrides, tests=own)
    return made


def figure_jobs(item: str, row: str, task: str, problem: Mapping[str, Any], quick: bool, **more: Any) -> list[Job]:
    """One job of a figure, of a model trained by our recipe."""
    overrides = {"epochs": 1} if quick else {}
    return over_seeds(1, item, row, "quant, best", task, problem=problem, protocol="best", overrides=overrides, **more)
