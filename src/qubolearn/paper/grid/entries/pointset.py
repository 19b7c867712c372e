"""2D registration of point sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qubolearn.paper.grid.entries.clouds import BY_SOLVER, by_size, degrees, figure_jobs
from qubolearn.paper.grid.entries.contract import (
    METHODS,
    SIZES,
    Entry,
    ablation_columns,
    noise_rows,
    noise_tests,
    over_seeds,
    solver_tests,
)
from qubolearn.paper.grid.jobs import Job
from qubolearn.paper.grid.views import conditions
from qubolearn.training.recipes import PROBLEM_OPTIONS

__all__ = ["ENTRIES"]

POINTSET: Mapping[str, Any] = {"name": "pointset", **PROBLEM_OPTIONS["best"]["pointset"]}
PAPERS: Mapping[str, Any] = {"name": "pointset"}  # one AQM matrix, no noise in training
BASELINES = ("icp", "icp-two-starts", "aqm")
NOISE = (0.0, 0.05, 0.1, 0.15, 0.2)
INTERVALS = ("0-10", "10-20", "20-30", "30-40", "40-50", "50-60")
#: A quick run turns each shape by few angles, and is scored under two conditions of each kind.
FEW: Mapping[str, Any] = {"rotations": 10}
#: Of the paper's loss on our inputs.
GAP_EPOCHS = 25


def pointsets(seeds: int, quick: bool) -> list[Job]:
    """Our recipe at the paper's four sizes, the paper's protocol at the largest, its loss without parts, and peers."""
    few = FEW if quick else {}
    ours = _ours(quick)
    tests = noise_tests(NOISE[::4] if quick else NOISE)
    intervals = [{"label": f"interval {i}", "set": {"interval": i}} for i in (INTERVALS[::5] if quick else INTERVALS)]
    every = [*tests, *intervals, *solver_tests(50 if quick else 500)]
    sizes = (SIZES[0], SIZES[-1]) if quick else SIZES
    made = by_size(seeds, "pointset", "train", sizes, ours, GAP_EPOCHS, quick, tests, every)
    if not quick:  # the paper's own input under our recipe
        plain = {"problem": PAPERS, "protocol": "best", "overrides": {"epochs": 200}, "tests": tests}
        made += over_seeds(seeds, "pointset", "L5 H78", "quant, paper's p", "train", **plain)
    for method in METHODS:
        overrides = {"method": method, **({"epochs": 1, "instances": 3200} if quick else {})}
        own = [*tests, *intervals] if method == "quant" else tests
        options: dict[str, Any] = {
            "problem": {**PAPERS, **few},
            "protocol": "paper",
            "overrides": overrides,
            "tests": own,
        }
        made += over_seeds(seeds, "pointset", "L5 H78", f"{method}, paper", "train", **options)
    for name in BASELINES:
        options = {"method": name, "problem": PAPERS, "tests": tests, **({"instances": 100} if quick else {})}
        made += over_seeds(seeds, "pointset", "L5 H78", name, "baseline", **options)
    return made


def _ours(quick: bool) -> Mapping[str, Any]:
    return {**POINTSET, **(FEW if quick else {})}


def alignment(seeds: int, quick: bool) -> list[Job]:
    return figure_jobs("alignment-2d", "point sets", "alignment", _ours(quick), quick, cases=4)


def failures(seeds: int, quick: bool) -> list[Job]:
    instances = 100 if quick else 1000
    return figure_jobs("failures", "point sets", "failures", _ours(quick), quick, instances=instances, cases=3)


_rows = noise_rows(NOISE, "noise")
ENTRIES: Mapping[str, Entry] = {
    "pointset": Entry(
        "2D point set registration, 9 bits: mean / median error in degrees on unseen shapes",
        "Tables 2, 4b, 6, 8, 13, 14",
        pointsets,
        (
            degrees("pointset", "By size of the network; the paper's protocol at the largest"),
            degrees("pointset-noise", "Under noise, L5 H78", places=conditions("L5 H78", _rows, BASELINES)),
            degrees("pointset-noise-small", "Under noise, L3 H32", places=conditions("L3 H32", _rows, BASELINES)),
            degrees(
                "pointset-intervals",
                "By angle, L5 H78",
                places=conditions("L5 H78", {f"{each} degrees": f"interval {each}" for each in INTERVALS}),
            ),
            degrees("pointset-solvers", "By solver at test time, L5 H78", places=BY_SOLVER),
            degrees(
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
