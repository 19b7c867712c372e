"""3D rotation in three stages."""

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

ROTATION: Mapping[str, Any] = {"name": "rotation", **PROBLEM_OPTIONS["best"]["rotation"]}
PAPERS: Mapping[str, Any] = {"name": "rotation"}  # the cross-covariance, no wrong matches in training
NOISE = (0.0, 0.01, 0.05, 0.1, 0.15, 0.2)
#: A quick run draws few sets of wrong matches, and is scored under two conditions.
FEW: Mapping[str, Any] = {"draws": 2}
#: Of the paper's loss on our inputs.
GAP_EPOCHS = 10
#: row -> the share of wrong matches in training; p is the paper's, which withstands them best when none were seen
TRAINED = {"trained without wrong matches": 0.0, "trained with up to 10 % wrong matches": 0.1}


def rotations(seeds: int, quick: bool) -> list[Job]:
    """Our recipe at the paper's four sizes and with 8 bits, the paper's protocol at the largest, its loss in parts."""
    ours = _ours(quick)
    tests = _tests(quick)
    every = [*tests, *solver_tests(50 if quick else 500)]
    sizes = SIZES[-1:] if quick else SIZES
    made = by_size(seeds, "rotation", "stages", sizes, ours, GAP_EPOCHS, quick, tests, every)
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


def _ours(quick: bool) -> Mapping[str, Any]:
    return {**ROTATION, **(FEW if quick else {})}


def _tests(quick: bool) -> list[dict[str, Any]]:
    return noise_tests(NOISE[::5] if quick else NOISE)


def errors(seeds: int, quick: bool) -> list[Job]:
    solvers = ["exhaustive", "annealing", "quantum"]
    instances = 100 if quick else 1000
    return figure_jobs("errors", "rotations", "errors", _ours(quick), quick, solvers=solvers, instances=instances)


def alignment(seeds: int, quick: bool) -> list[Job]:
    return figure_jobs("alignment-3d", "rotations", "alignment", _ours(quick), quick, cases=2, noise=0.1)


_rows = noise_rows(NOISE, "wrong matches")
_clean, _noisy = (conditions(row, _rows, ("procrustes",)) for row in TRAINED)
ENTRIES: Mapping[str, Entry] = {
    "rotation": Entry(
        "3D rotation in three stages of 5 bits: mean / median error in degrees on unseen shapes",
        "Tables 3, 4c, 11",
        rotations,
        (
            degrees("rotation", "By size of the network; the paper's protocol at the largest"),
            degrees("rotation-noise", "With wrong matches, L5 H78", places=conditions("L5 H78", _rows)),
            degrees("rotation-solvers", "By solver at test time, L5 H78", places=BY_SOLVER),
            degrees(
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
            degrees("rotation-noise-small", "Trained without wrong matches, L3 H32", places=_clean),
            degrees("rotation-noise-trained", "Trained with up to 10 % wrong matches, L3 H32", places=_noisy),
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
