"""3D rotation in three stages."""

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

ROTATION: Mapping[str, Any] = {"name": "rotation", **PROBLEM_OPTIONS["best"]["rotation"]}
PAPERS: Mapping[str, Any] = {"name": "rotation"}  # the cross-covariance, no wrong matches in training
NOISE = (0.0, 0.01, 0.05, 0.1, 0.15, 0.2)
#: A quick run draws few sets of wrong matches, and is scored under two conditions.
FEW: Mapping[str, Any] = {"draws": 2}
#: The paper's loss on our inputs.
GAP: Mapping[str, Any] = {"loss": "gap", "weight_mlp": 1e-4, "epochs": 10}
#: row -> the share of wrong matches in training; p is the paper's, which withstands them best when none were seen
TRAINED = {"trained without wrong matches": 0.0, "trained with up to 10 % wrong matches": 0.1}


def rotations(seeds: int, quick: bool) -> list[Job]:
    """Our recipe at the paper's four sizes and with 8 bits, the paper's protocol at the largest, its loss in parts."""
    few = FEW if quick else {}
    ours = {**ROTATION, **few}
    tests = _tests(quick)
    every = [*tests, *solver_tests(50 if quick else 500)]
    made: list[Job] = []
    for layers, hidden in SIZES[-1:] if quick else SIZES:
        row, size = f"L{layers} H{hidden}", {"layers": layers, "hidden": hidden}
        for column, without in {"full": {}, **ABLATIONS}.items():
            overrides: dict[str, Any] = {**size, **GAP, **without, **({"epochs": 1} if quick else {})}
            options: dict[str, Any] = {
                "problem": ours,
                "protocol": "best",
                "overrides": overrides,
                "tests": [{"label": "ablation"}],
            }
            made += over_seeds(seeds, "rotation", row, column, "stages", **options)
        for method in METHODS:
            overrides = {"method": method, **size, **({"epochs": 1} if quick else {})}
            own = every if (method, layers, hidden) == ("quant", 5, 78) else tests
            options = {"problem": ours, "protocol": "best", "overrides": overrides, "tests": own}
            made += over_seeds(seeds, "rotation", row, method, "stages", **options)
    if not quick:
        plain = {"problem": PAPERS, "protocol": "best", "overrides": {}, "tests": tests}
        made += over_seeds(seeds, "rotation", "L5 H78", "quant, paper's p", "stages", **plain)
        sharp = {**ROTATION, "angle_bits": 8, "soft_width": 2.0}
        fine = {"problem": sharp, "protocol": "best", "overrides": {"beta": 20.0}, "tests": tests}
        made += over_seeds(seeds, "rotation", "L5 H78", "quant, 3 x 8 bits", "stages", **fine)
    for method in METHODS:
        overrides = {"method": method, **({"epochs": 1, "instances": 3200} if quick else {})}
        options = {"problem": PAPERS, "protocol": "paper", "overrides": overrides, "tests": tests}
        made += over_seeds(seeds, "rotation", "L5 H78", f"{method}, paper", "stages", **options)
    options = {"method": "procrustes", "problem": PAPERS, "tests": tests}
    made += over_seeds(seeds, "rotation", "L5 H78", "procrustes", "baseline", **options)
    return made


def trained_with_noise(seeds: int, quick: bool) -> list[Job]:
    """The smallest network, trained without and with wrong matches."""
    tests = _tests(quick)
    made: list[Job] = []
    for row, share in TRAINED.items():
        problem = {**PAPERS, "leftover": True, "train_noise": share, "draws": 2 if quick else 100}
        for method in METHODS:
            overrides: dict[str, Any] = {
                "method": method,
                "layers": 3,
                "hidden": 32,
                **({"epochs": 1} if quick else {}),
            }
            options = {"problem": problem, "protocol": "best", "overrides": overrides, "tests": tests}
            made += over_seeds(seeds, "rotation-trained", row, method, "stages", **options)
    options = {"method": "procrustes", "problem": PAPERS, "tests": tests}
    made += over_seeds(seeds, "rotation-trained", "any", "procrustes", "baseline", **options)
    return made


def _tests(quick: bool) -> list[dict[str, Any]]:
    return noise_tests(NOISE[::5] if quick else NOISE)


def figure_jobs(item: str, task: str, more: Mapping[str, Any], quick: bool) -> list[Job]:
    """One job of a figure, of a model trained by our recipe."""
    overrides = {"epochs": 1} if quick else {}
    options = {"problem": {**ROTATION, **(FEW if quick else {})}, "protocol": "best", "overrides": overrides, **more}
    return over_seeds(1, item, "rotations", "quant, best", task, **options)


def errors(seeds: int, quick: bool) -> list[Job]:
    solvers = ["exhaustive", "annealing", "quantum"]
    return figure_jobs("errors", "errors", {"solvers": solvers, "instances": 100 if quick else 1000}, quick)


def alignment(seeds: int, quick: bool) -> list[Job]:
    return figure_jobs("alignment-3d", "alignment", {"cases": 2, "noise": 0.1}, quick)


_view = partial(View, metrics=("degrees", "degrees_median"), unit="degrees", better="lower")
_rows = noise_rows(NOISE, "wrong matches")
_clean, _noisy = (conditions(row, _rows, ("procrustes",)) for row in TRAINED)
_by_solver = conditions("L5 H78", SOLVER_ROWS, only=("quant",))
ENTRIES: Mapping[str, Entry] = {
    "rotation": Entry(
        "3D rotation in three stages of 5 bits: mean / median error in degrees on unseen shapes",
        "Tables 3, 4c, 11",
        rotations,
        (
            _view("rotation", "By size of the network; the paper's protocol at the largest"),
            _view("rotation-noise", "With wrong matches, L5 H78", places=conditions("L5 H78", _rows)),
            _view("rotation-solvers", "By solver at test time, L5 H78", places=_by_solver),
            _view(
                "ablation-rotation",
                "The paper's loss without its parts, on our inputs, 10 epochs of 51,200 instances per stage",
                places=ablation_columns("full", "ablation", "quant"),
            ),
        ),
        data="modelnet10",
    ),
    "rotation-trained": Entry(
        "3D rotation with wrong matches, trained without and with them: mean / median degrees, L3 H32, the paper's p",
        "Tables 7, 12",
        trained_with_noise,
        (
            _view("rotation-noise-small", "Trained without wrong matches, L3 H32", places=_clean),
            _view("rotation-noise-trained", "Trained with up to 10 % wrong matches, L3 H32", places=_noisy),
        ),
        data="modelnet10",
    ),
    "errors": Entry(
        "Errors of rotations by solver at test time", "Figure 4a", errors, figures=("errors",), data="modelnet10"
    ),
    "alignment-3d": Entry(
        "Rotations undone stage by stage, 10 % of the matches wrong",
        "Figures 9, 10",
        alignment,
        figures=("alignment",),
        data="modelnet10",
    ),
}
