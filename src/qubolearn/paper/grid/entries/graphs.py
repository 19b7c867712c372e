"""Graph matching: RandGraph at the paper's sizes and beyond, and Willow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qubolearn.paper.grid.entries.contract import ABLATIONS, METHODS, SIZES, Entry, ablation_columns, over_seeds
from qubolearn.paper.grid.jobs import Job
from qubolearn.paper.grid.views import View, by_job
from qubolearn.training.recipes import PROBLEM_OPTIONS

__all__ = ["ENTRIES"]

FOUR: Mapping[str, Any] = {"name": "randgraph", "k": 4}
#: At these sizes annealing finds what exhaustive search finds, at many times the cost.
EXACT = {"solver": "exhaustive"}


def general_baselines(seeds: int, quick: bool) -> list[Job]:
    """quant, diag and pure at the paper's four sizes, under the paper's protocol and ours; its loss without parts."""
    made: list[Job] = []
    for layers, hidden in SIZES[-1:] if quick else SIZES:
        row = f"L{layers} H{hidden}"
        short = {"epochs": 5} if quick else {}
        for protocol in ("paper", "best"):
            for method in METHODS:
                overrides: dict[str, Any] = {"method": method, "layers": layers, "hidden": hidden}
                overrides |= (EXACT if protocol == "paper" else {}) | short
                options: dict[str, Any] = {"problem": FOUR, "protocol": protocol, "overrides": overrides}
                made += over_seeds(seeds, "randgraph", row, f"{method}, {protocol}", "train", **options)
            for column, without in ABLATIONS.items() if protocol == "paper" else ():
                overrides = {"layers": layers, "hidden": hidden, **EXACT, **without, **short}
                options = {"problem": FOUR, "protocol": protocol, "overrides": overrides}
                tests = [{"label": "ablation"}]
                made += over_seeds(seeds, "randgraph", row, column, "train", **options, tests=tests)
    return made


def graphs_at_scale(seeds: int, quick: bool) -> list[Job]:
    """RandGraph beyond the paper: k = 4 ... 8 and 10 under the best presets, one bit per physical qubit."""
    made: list[Job] = []
    for k in (4, 5) if quick else (4, 5, 6, 7, 8):
        for method in METHODS:
            overrides: dict[str, Any] = {"method": method} | ({"epochs": 3} if quick else {})
            options = {"problem": {"name": "randgraph", "k": k}, "protocol": "best", "overrides": overrides}
            made += over_seeds(seeds, "randgraph-scale", f"k={k}", method, "train", **options)
    # 40 bits are beyond exhaustive search.
    sampled = [{"label": "annealing", "solver": "annealing:seed=0", "instances": 100 if quick else 2000}]
    short = {"epochs": 1, "instances": 1410, "validation": 20} if quick else {}
    ten = {"problem": {"name": "randgraph", "k": 10}, "protocol": "best", "overrides": short}
    return made + over_seeds(seeds, "randgraph-scale", "k=10", "quant", "train", **ten, tests=sampled)


def willow(seeds: int, quick: bool) -> list[Job]:
    """Willow: quant, diag and pure on real images, and Direct on the same W."""
    made: list[Job] = []
    plain = {"name": "willow", "k": 4}
    for protocol in ("paper", "best"):
        problem = {**plain, **PROBLEM_OPTIONS[protocol].get("willow", {})}
        for method in METHODS:
            overrides: dict[str, Any] = {"method": method} | (EXACT if protocol == "paper" else {})
            if quick:
                overrides["epochs"] = 2
            options = {"problem": problem, "protocol": protocol, "overrides": overrides}
            made += over_seeds(seeds, "willow", f"k=4, {protocol}", method, "train", **options)
    return made + over_seeds(seeds, "willow", "k=4, best", "direct", "baseline", method="direct", problem=plain)


def matches(seeds: int, quick: bool) -> list[Job]:
    """Pairs of images whose keypoints are matched rightly, and wrongly."""
    problem = {"name": "willow", "k": 4, **PROBLEM_OPTIONS["best"]["willow"]}
    options = {"problem": problem, "protocol": "best", "overrides": {"epochs": 2 if quick else 60}}
    return over_seeds(1, "matches", "Willow k=4", "quant, best", "matches", **options, instances=1000)


ENTRIES: Mapping[str, Entry] = {
    "randgraph": Entry(
        "RandGraph k=4, 8 Chimera qubits: accuracy before projection, and the paper's loss without its parts",
        "Tables 1a, 4a",
        general_baselines,
        (
            View("randgraph", "Accuracy before projection", ("accuracy",)),
            View(
                "ablation-randgraph",
                "The paper's loss without its parts, under the paper's protocol: accuracy before projection",
                ("accuracy",),
                places=ablation_columns("quant, paper", "exhaustive", "quant, best"),
            ),
        ),
    ),
    "randgraph-scale": Entry(
        "RandGraph beyond the paper: accuracy before projection, one bit per physical qubit",
        "",
        graphs_at_scale,
        (
            View(
                "randgraph-scale",
                "Accuracy before projection; k=10 (40 bits) is solved by annealing",
                ("accuracy",),
                places=by_job("exhaustive", "annealing"),
            ),
        ),
    ),
    "willow": Entry(
        "Willow k=4, 8 Chimera qubits: accuracy before projection on unseen images",
        "Table 1b",
        willow,
        (View("willow", "Accuracy before projection", ("accuracy",)),),
        data="willow",
    ),
    "matches": Entry(
        "Keypoints of images, matched rightly and wrongly", "Figures 2, 7", matches, figures=("matches",), data="willow"
    ),
}
