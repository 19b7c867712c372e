"""What an entry is, and what several of them share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from qubolearn.paper.grid.jobs import Job
from qubolearn.paper.grid.views import Places, View, chosen_columns

__all__ = [
    "ABLATIONS",
    "METHODS",
    "SEEDS",
    "SIZES",
    "SOLVERS",
    "SOLVER_ROWS",
    "Entry",
    "ablation_columns",
    "noise_rows",
    "noise_tests",
    "over_seeds",
    "solver_tests",
]

#: Seeds of every cell of a full run.
SEEDS = 3
#: The paper's networks (layers, hidden), smallest first, and its methods.
SIZES = ((3, 32), (3, 78), (5, 32), (5, 78))
METHODS = ("quant", "diag", "pure")
#: Solvers at test time beside exhaustive search, and how rows call all of them.
SOLVERS = ("annealing:seed=0", "quantum:seed=0")
SOLVER_ROWS = {"exhaustive": "exhaustive", "annealing (simulated)": "annealing", "quantum (simulated)": "quantum"}
#: The paper's loss without one of its terms.
ABLATIONS: Mapping[str, Mapping[str, float]] = {
    "without unique": {"weight_unique": 0.0},
    "without mlp": {"weight_mlp": 0.0},
}


@dataclass(frozen=True)
class Entry:
    """One item of the paper, or ours beside it: its jobs, and the tables and figures made of their records."""

    title: str
    paper: str  # where in the paper: "Table 1a", "Figure 5b"; "" where beyond the paper
    jobs: Callable[[int, bool], list[Job]]  # (seeds, quick) -> jobs
    views: tuple[View, ...] = ()
    figures: tuple[str, ...] = ()  # labels in a record's metrics that hold a figure
    data: str = ""  # the dataset that it needs: a folder in QUBOLEARN_DATA


def over_seeds(seeds: int, item: str, row: str, column: str, task: str, **options: Any) -> list[Job]:
    """The jobs of one cell."""
    return [Job(item, row, column, seed, task, options) for seed in range(seeds)]


def ablation_columns(full: str, label: str, best: str) -> Places:
    """The paper's loss in full (a column of jobs and the label of its test), without its parts, and our recipe."""
    parts = {name: (name, "ablation") for name in ABLATIONS}
    return chosen_columns({full: ("full", label), **parts, best: ("best", "exhaustive")})


def noise_label(share: float) -> str:
    """The label of a test under noise; the one without any is the plain test."""
    return f"noise {share:.0%}" if share else "exhaustive"


def noise_tests(shares: Iterable[float]) -> list[dict[str, Any]]:
    """Tests at shares of noise."""
    return [{"label": noise_label(share), "set": {"noise": share}} for share in shares]


def noise_rows(shares: Sequence[float], what: str) -> Mapping[str, str]:
    """Shown row -> label of its test."""
    return {f"{100 * share:.0f} % {what}": noise_label(share) for share in shares}


def solver_tests(instances: int) -> list[dict[str, Any]]:
    """Tests under other solvers."""
    return [{"label": solver.partition(":")[0], "solver": solver, "instances": instances} for solver in SOLVERS]
