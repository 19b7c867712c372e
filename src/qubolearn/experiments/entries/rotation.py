"""3D rotation in three stages."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from qubolearn.config import PROBLEM_OPTIONS
from qubolearn.experiments.entries.contract import METHODS, SIZES, SOLVER_ROWS, SOLVERS, Entry, noise_rows, noise_tests
from qubolearn.experiments.jobs import Job
from qubolearn.experiments.views import View, conditions

__all__ = ["ENTRIES"]

ROTATION: Mapping[str, Any] = {"name": "rotation", **PROBLEM_OPTIONS["best"]["rotation"]}
NOISE = (0.0, 0.01, 0.05, 0.1, 0.15, 0.2)


def rotations(seeds: int, quick: bool) -> list[Job]:
    """3D rotation in three stages: our recipe at the paper's four sizes, with wrong matches, and with 8 bits."""
    tests = noise_tests(NOISE)
    more = [{"label": solver.partition(":")[0], "solver": solver, "instances": 500} for solver in SOLVERS]
    made = []
    for layers, hidden in SIZES[-1:] if quick else SIZES:
        for method in METHODS:
            overrides: dict[str, Any] = {"method": method, "layers": layers, "hidden": hidden}
            if quick:
                overrides["epochs"] = 2
            own = [*tests, *more] if (method, layers, hidden) == ("quant", 5, 78) and not quick else tests
            options = {"problem": ROTATION, "protocol": "best", "overrides": overrides, "tests": own}
            made += [Job("rotation", f"L{layers} H{hidden}", method, seed, "stages", options) for seed in range(seeds)]
    if not quick:
        plain = {"problem": {"name": "rotation"}, "protocol": "best", "overrides": {}, "tests": tests}
        made += [Job("rotation", "L5 H78", "quant, paper's p", seed, "stages", plain) for seed in range(seeds)]
        sharp = {**ROTATION, "angle_bits": 8, "soft_width": 2.0}
        fine = {"problem": sharp, "protocol": "best", "overrides": {"beta": 20.0}, "tests": tests}
        made += [Job("rotation", "L5 H78", "quant, 3 x 8 bits", seed, "stages", fine) for seed in range(seeds)]
    options = {"method": "procrustes", "problem": {"name": "rotation"}, "tests": tests}
    made += [Job("rotation", "L5 H78", "procrustes", seed, "baseline", options) for seed in range(seeds)]
    return made


_view = partial(View, metrics=("degrees", "degrees_median"), unit="degrees", better="lower")
_rows = noise_rows(NOISE, "wrong matches")
ENTRIES: Mapping[str, Entry] = {
    "rotation": Entry(
        "3D rotation in three stages of 5 bits: mean / median error in degrees on unseen shapes",
        "Table 3",
        rotations,
        (
            _view("rotation", "By size of the network"),
            _view("rotation-noise", "With wrong matches, L5 H78", places=conditions("L5 H78", _rows)),
            _view("rotation-solvers", "By solver at test time, L5 H78", places=conditions("L5 H78", SOLVER_ROWS)),
        ),
        data="modelnet10",
    ),
}
