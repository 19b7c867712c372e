"""One declarative entry per table of the paper, and ours beside it: which jobs fill it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from qubolearn.config import PROBLEM_OPTIONS
from qubolearn.errors import unknown_name
from qubolearn.experiments.jobs import Job

__all__ = ["ENTRIES", "Entry", "entry"]

POINTSET: Mapping[str, Any] = {"name": "pointset", **PROBLEM_OPTIONS["best"]["pointset"]}
ROTATION: Mapping[str, Any] = {"name": "rotation", **PROBLEM_OPTIONS["best"]["rotation"]}
SIZES = ((3, 32), (3, 78), (5, 32), (5, 78))
METHODS = ("quant", "diag", "pure")


@dataclass(frozen=True)
class Entry:
    """A table: its title, what is measured, and the jobs behind it for given seeds, in full or in quick form."""

    title: str
    metric: str  # path in a record's metrics, e.g. "exhaustive.accuracy"
    percent: bool
    jobs: Callable[[int, bool], list[Job]]  # (seeds, quick) -> jobs


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


#: Test conditions of the point problems: noise as the paper has it, angle intervals, and other solvers.
POINTSET_NOISE = (0.0, 0.05, 0.1, 0.15, 0.2)
ROTATION_NOISE = (0.0, 0.01, 0.05, 0.1, 0.15, 0.2)
INTERVALS = ("0-10", "10-20", "20-30", "30-40", "40-50", "50-60")
SOLVERS = ("annealing:seed=0", "quantum:seed=0")


def noise_label(share: float) -> str:
    """The label of a test under noise; the one without any is the plain test."""
    return f"noise {share:.0%}" if share else "exhaustive"


def _noise_tests(shares: Sequence[float]) -> list[dict[str, Any]]:
    return [{"label": noise_label(share), "set": {"noise": share}} for share in shares]


def pointsets(seeds: int, quick: bool) -> list[Job]:
    """2D registration: our recipe at the paper's four sizes, under noise, per interval and under other solvers."""
    tests = _noise_tests(POINTSET_NOISE)
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
    for name in ("icp", "icp-two-starts", "aqm"):
        options = {"method": name, "problem": {"name": "pointset"}, "tests": tests}
        made += [Job("pointset", "L5 H78", name, seed, "baseline", options) for seed in range(seeds)]
    return made


def rotations(seeds: int, quick: bool) -> list[Job]:
    """3D rotation in three stages: our recipe at the paper's four sizes, with wrong matches, and with 8 bits."""
    tests = _noise_tests(ROTATION_NOISE)
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


ENTRIES: Mapping[str, Entry] = {
    "randgraph": Entry(
        "RandGraph k=4, 8 Chimera qubits: accuracy before projection (Table 1a)",
        "exhaustive.accuracy",
        True,
        general_baselines("randgraph", {"name": "randgraph", "k": 4}, quick_epochs=5),
    ),
    "randgraph-scale": Entry(
        "RandGraph beyond the paper: accuracy before projection, one bit per physical qubit",
        "exhaustive.accuracy",
        True,
        graphs_at_scale,
    ),
    "success": Entry(
        "Probability that one simulated quantum anneal with control errors finds the solution",
        "quantum.success_probability",
        True,
        success_probabilities,
    ),
    "training-solver": Entry(
        "The paper's loss trained through three solvers: accuracy before projection (Table 4, at k=4)",
        "exhaustive.accuracy",
        True,
        training_solvers,
    ),
    "willow": Entry(
        "Willow k=4, 8 Chimera qubits: accuracy before projection on unseen images (Table 1b)",
        "exhaustive.accuracy",
        True,
        willow,
    ),
    "pointset": Entry(
        "2D point set registration, 9 bits: mean error in degrees on unseen shapes (Table 2)",
        "exhaustive.degrees",
        False,
        pointsets,
    ),
    "rotation": Entry(
        "3D rotation in three stages of 5 bits: mean error in degrees on unseen shapes (Table 3)",
        "exhaustive.degrees",
        False,
        rotations,
    ),
}


def entry(name: str) -> Entry:
    """An entry by name."""
    if name not in ENTRIES:
        raise unknown_name("item", name, ENTRIES)
    return ENTRIES[name]
