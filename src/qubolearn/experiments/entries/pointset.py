"""2D registration of point sets."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from qubolearn.config import PROBLEM_OPTIONS
from qubolearn.experiments.entries.contract import (
    ABLATIONS,
    METHODS,
    SIZES,
    SOLVER_ROWS,
    Entry,
    ablation_columns,
    noise_rows,
    noise_tests,
    over_seeds,
    solver_tests,
)
from qubolearn.experiments.jobs import Job
from qubolearn.experiments.views import View, conditions

__all__ = ["ENTRIES"]

POINTSET: Mapping[str, Any] = {"name": "pointset", **PROBLEM_OPTIONS["best"]["pointset"]}
PAPERS: Mapping[str, Any] = {"name": "pointset"}  # one AQM matrix, no noise in training
BASELINES = ("icp", "icp-two-starts", "aqm")
NOISE = (0.0, 0.05, 0.1, 0.15, 0.2)
INTERVALS = ("0-10", "10-20", "20-30", "30-40", "40-50", "50-60")
#: A quick run turns each shape by few angles, and is scored under two conditions of each kind.
FEW: Mapping[str, Any] = {"rotations": 10}
#: The paper's loss on our inputs.
GAP: Mapping[str, Any] = {"loss": "gap", "weight_mlp": 1e-4, "epochs": 25}


def pointsets(seeds: int, quick: bool) -> list[Job]:
    """Our recipe at the paper's four sizes, the paper's protocol at the largest, its loss without parts, and peers."""
    few = FEW if quick else {}
    ours = {**POINTSET, **few}
    tests = noise_tests(NOISE[::4] if quick else NOISE)
    intervals = [{"label": f"interval {i}", "set": {"interval": i}} for i in (INTERVALS[::5] if quick else INTERVALS)]
    every = [*tests, *intervals, *solver_tests(50 if quick else 500)]
    made: list[Job] = []
    for layers, hidden in (SIZES[0], SIZES[-1]) if quick else SIZES:
        row, size = f"L{layers} H{hidden}", {"layers": layers, "hidden": hidden}
        for column, without in {"full": {}, **ABLATIONS}.items():
            overrides: dict[str, Any] = {**size, **GAP, **without, **({"epochs": 1} if quick else {})}
            options: dict[str, Any] = {
                "problem": ours,
                "protocol": "best",
                "overrides": overrides,
                "tests": [{"label": "ablation"}],
            }
            made += over_seeds(seeds, "pointset", row, column, "train", **options)
        for method in METHODS:
            overrides = {"method": method, **size, **({"epochs": 2} if quick else {})}
            own = every if (method, layers, hidden) == ("quant", 5, 78) else tests
            options = {"problem": ours, "protocol": "best", "overrides": overrides, "tests": own}
            made += over_seeds(seeds, "pointset", row, method, "train", **options)
    if not quick:  # the paper's own input under our recipe
        plain = {"problem": PAPERS, "protocol": "best", "overrides": {"epochs": 200}, "tests": tests}
        made += over_seeds(seeds, "pointset", "L5 H78", "quant, paper's p", "train", **plain)
    for method in METHODS:
        overrides = {"method": method, **({"epochs": 1, "instances": 3200} if quick else {})}
        own = [*tests, *intervals] if method == "quant" else tests
        options = {"problem": {**PAPERS, **few}, "protocol": "paper", "overrides": overrides, "tests": own}
        made += over_seeds(seeds, "pointset", "L5 H78", f"{method}, paper", "train", **options)
    for name in BASELINES:
        options = {"method": name, "problem": PAPERS, "tests": tests, **({"instances": 100} if quick else {})}
        made += over_seeds(seeds, "pointset", "L5 H78", name, "baseline", **options)
    return made


def figure_jobs(item: str, task: str, more: Mapping[str, Any], quick: bool) -> list[Job]:
    """One job of a figure, of a model trained by our recipe."""
    overrides = {"epochs": 1} if quick else {}
    options = {"problem": {**POINTSET, **(FEW if quick else {})}, "protocol": "best", "overrides": overrides, **more}
    return over_seeds(1, item, "point sets", "quant, best", task, **options)


def alignment(seeds: int, quick: bool) -> list[Job]:
    return figure_jobs("alignment-2d", "alignment", {"cases": 4}, quick)


def failures(seeds: int, quick: bool) -> list[Job]:
    return figure_jobs("failures", "failures", {"instances": 100 if quick else 1000, "cases": 3}, quick)


_view = partial(View, metrics=("degrees", "degrees_median"), unit="degrees", better="lower")
_rows = noise_rows(NOISE, "noise")
_by_solver = conditions("L5 H78", SOLVER_ROWS, only=("quant",))
ENTRIES: Mapping[str, Entry] = {
    "pointset": Entry(
        "2D point set registration, 9 bits: mean / median error in degrees on unseen shapes",
        "Tables 2, 4b, 6, 8, 13, 14",
        pointsets,
        (
            _view("pointset", "By size of the network; the paper's protocol at the largest"),
            _view("pointset-noise", "Under noise, L5 H78", places=conditions("L5 H78", _rows, BASELINES)),
            _view("pointset-noise-small", "Under noise, L3 H32", places=conditions("L3 H32", _rows, BASELINES)),
            _view(
                "pointset-intervals",
                "By angle, L5 H78",
                places=conditions("L5 H78", {f"{each} degrees": f"interval {each}" for each in INTERVALS}),
            ),
            _view("pointset-solvers", "By solver at test time, L5 H78", places=_by_solver),
            _view(
                "ablation-pointset",
                "The paper's loss without its parts, on our inputs, 25 epochs of 51,200 instances",
                places=ablation_columns("full", "ablation", "quant"),
            ),
        ),
        data="shapes2d",
    ),
    "alignment-2d": Entry(
        "Point sets before and after alignment", "Figure 3", alignment, figures=("alignment",), data="shapes2d"
    ),
    "failures": Entry(
        "Point sets that are aligned worst", "Figure 11", failures, figures=("failures",), data="shapes2d"
    ),
}
