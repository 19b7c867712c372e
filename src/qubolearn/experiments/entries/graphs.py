"""Graph matching: RandGraph at the paper's sizes and beyond, Willow, annealers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from qubolearn.config import PROBLEM_OPTIONS
from qubolearn.experiments.entries.contract import METHODS, SIZES, Entry
from qubolearn.experiments.jobs import Job
from qubolearn.experiments.views import View, by_job

__all__ = ["ENTRIES"]


def general_baselines(item: str, problem: Mapping[str, Any], quick_epochs: int) -> Callable[[int, bool], list[Job]]:
    """quant, diag and pure at the paper's four sizes, under the paper's protocol and ours."""

    def jobs(seeds: int, quick: bool) -> list[Job]:
        made = []
        for layers, hidden in SIZES[-1:] if quick else SIZES:
            for protocol in ("paper", "best"):
                for method in METHODS:
                    overrides: dict[str, Any] = {"method": method, "layers": layers, "hidden": hidden}
                    if protocol == "paper":
                        # At these sizes annealing finds what exhaustive search finds, at many times the cost.
                        overrides["solver"] = "exhaustive"
                    if quick:
                        overrides["epochs"] = quick_epochs
                    options = {"problem": problem, "protocol": protocol, "overrides": overrides}
                    row, column = f"L{layers} H{hidden}", f"{method}, {protocol}"
                    made += [Job(item, row, column, seed, "train", options) for seed in range(seeds)]
        return made

    return jobs


def graphs_at_scale(seeds: int, quick: bool) -> list[Job]:
    """RandGraph beyond the paper: k = 4 ... 8 under the best presets, one bit per physical qubit."""
    made = []
    for k in (4, 5) if quick else (4, 5, 6, 7, 8):
        for method in METHODS:
            overrides: dict[str, Any] = {"method": method} | ({"epochs": 3} if quick else {})
            options = {"problem": {"name": "randgraph", "k": k}, "protocol": "best", "overrides": overrides}
            made += [Job("randgraph-scale", f"k={k}", method, seed, "train", options) for seed in range(seeds)]
    return made


def success_probabilities(seeds: int, quick: bool) -> list[Job]:
    """One simulated quantum anneal with control errors: ours against QGM's QUBOs (20 qubits at most on a CPU)."""
    made = []
    for k in (4,) if quick else (4, 5):
        tests = [{"label": "quantum", "solver": "quantum:seed=0", "instances": 20 if quick else 141}]
        overrides = {"epochs": 3} if quick else {}
        problem = {"name": "randgraph", "k": k}
        ours = {"problem": problem, "protocol": "best", "overrides": overrides, "tests": tests}
        made += [Job("success", f"k={k}", "ours", seed, "train", ours) for seed in range(seeds)]
        for variant in ("inserted", "baseline", "row-wise") if k == 4 else ("inserted",):
            options = {"variant": variant, "k": k, "solver": "quantum:seed=0", "instances": 4 if quick else 141}
            made += [Job("success", f"k={k}", f"QGM {variant}", seed, "qgm", options) for seed in range(seeds)]
    return made


def training_solvers(seeds: int, quick: bool) -> list[Job]:
    """The paper's loss trained through exact search, annealing and simulated quantum annealing."""
    made = []
    for solver in ("exhaustive", "annealing", "quantum"):
        overrides = {"solver": solver, "epochs": 1 if quick else 25, "instances": 141 if quick else 5640}
        options = {"problem": {"name": "randgraph", "k": 4}, "protocol": "paper", "overrides": overrides}
        row = "k=4, L5 H78, 25 epochs"
        made += [Job("training-solver", row, solver, seed, "train", options) for seed in range(seeds)]
    return made


def willow(seeds: int, quick: bool) -> list[Job]:
    """Willow: quant, diag and pure on real images, and Direct on the same W."""
    made = []
    plain = {"name": "willow", "k": 4}
    for protocol in ("paper", "best"):
        problem = {**plain, **PROBLEM_OPTIONS[protocol].get("willow", {})}
        for method in METHODS:
            overrides: dict[str, Any] = {"method": method}
            if protocol == "paper":
                overrides["solver"] = "exhaustive"
            if quick:
                overrides["epochs"] = 2
            options = {"problem": problem, "protocol": protocol, "overrides": overrides}
            made += [Job("willow", f"k=4, {protocol}", method, seed, "train", options) for seed in range(seeds)]
    direct = {"method": "direct", "problem": plain}
    made += [Job("willow", "k=4, best", "direct", seed, "baseline", direct) for seed in range(seeds)]
    return made


ENTRIES: Mapping[str, Entry] = {
    "randgraph": Entry(
        "RandGraph k=4, 8 Chimera qubits: accuracy before projection",
        "Table 1a",
        general_baselines("randgraph", {"name": "randgraph", "k": 4}, quick_epochs=5),
        (View("randgraph", "Accuracy before projection", ("accuracy",)),),
    ),
    "randgraph-scale": Entry(
        "RandGraph beyond the paper: accuracy before projection, one bit per physical qubit",
        "",
        graphs_at_scale,
        (View("randgraph-scale", "Accuracy before projection", ("accuracy",)),),
    ),
    "success": Entry(
        "Probability that one simulated quantum anneal with control errors finds the solution",
        "Table 7",
        success_probabilities,
        (View("success", "Success probability of one anneal", ("success_probability",), places=by_job("quantum")),),
    ),
    "training-solver": Entry(
        "The paper's loss trained through three solvers: accuracy before projection, at k=4",
        "Table 4",
        training_solvers,
        (View("training-solver", "Accuracy before projection", ("accuracy",)),),
    ),
    "willow": Entry(
        "Willow k=4, 8 Chimera qubits: accuracy before projection on unseen images",
        "Table 1b",
        willow,
        (View("willow", "Accuracy before projection", ("accuracy",)),),
        data="willow",
    ),
}
