"""2D registration of point sets."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from qubolearn.config import PROBLEM_OPTIONS
from qubolearn.experiments.entries.contract import METHODS, SIZES, SOLVER_ROWS, SOLVERS, Entry, noise_rows, noise_tests
from qubolearn.experiments.jobs import Job
from qubolearn.experiments.views import View, conditions

__all__ = ["ENTRIES"]

POINTSET: Mapping[str, Any] = {"name": "pointset", **PROBLEM_OPTIONS["best"]["pointset"]}
BASELINES = ("icp", "icp-two-starts", "aqm")
NOISE = (0.0, 0.05, 0.1, 0.15, 0.2)
INTERVALS = ("0-10", "10-20", "20-30", "30-40", "40-50", "50-60")


def pointsets(seeds: int, quick: bool) -> list[Job]:
    """2D registration: our recipe at the paper's four sizes, under noise, per interval and under other solvers."""
    tests = noise_tests(NOISE)
    more: list[dict[str, Any]] = [
        {"label": f"interval {interval}", "set": {"interval": interval}} for interval in INTERVALS
    ]
    more += [{"label": solver.partition(":")[0], "solver": solver, "instances": 500} for solver in SOLVERS]
    made = []
    for layers, hidden in SIZES[-1:] if quick else SIZES:
        for method in METHODS:
            overrides: dict[str, Any] = {"method": method, "layers": layers, "hidden": hidden}
            if quick:
                overrides["epochs"] = 2
            own = [*tests, *more] if (method, layers, hidden) == ("quant", 5, 78) and not quick else tests
            options = {"problem": POINTSET, "protocol": "best", "overrides": overrides, "tests": own}
            made += [Job("pointset", f"L{layers} H{hidden}", method, seed, "train", options) for seed in range(seeds)]
    if not quick:  # the paper's own input: one AQM matrix, trained without noise
        plain = {"problem": {"name": "pointset"}, "protocol": "best", "overrides": {"epochs": 200}, "tests": tests}
        made += [Job("pointset", "L5 H78", "quant, paper's p", seed, "train", plain) for seed in range(seeds)]
    for name in BASELINES:
        options = {"method": name, "problem": {"name": "pointset"}, "tests": tests}
        made += [Job("pointset", "L5 H78", name, seed, "baseline", options) for seed in range(seeds)]
    return made


_view = partial(View, metrics=("degrees", "degrees_median"), unit="degrees", better="lower")
_rows = noise_rows(NOISE, "noise")
ENTRIES: Mapping[str, Entry] = {
    "pointset": Entry(
        "2D point set registration, 9 bits: mean / median error in degrees on unseen shapes",
        "Table 2",
        pointsets,
        (
            _view("pointset", "By size of the network"),
            _view("pointset-noise", "Under noise, L5 H78", places=conditions("L5 H78", _rows, BASELINES)),
            _view("pointset-noise-small", "Under noise, L3 H32", places=conditions("L3 H32", _rows, BASELINES)),
            _view(
                "pointset-intervals",
                "By angle, L5 H78",
                places=conditions("L5 H78", {f"{each} degrees": f"interval {each}" for each in INTERVALS}),
            ),
            _view("pointset-solvers", "By solver at test time, L5 H78", places=conditions("L5 H78", SOLVER_ROWS)),
        ),
        data="shapes2d",
    ),
}
