"""One declarative entry per table of the paper, and ours beside it: which jobs fill it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from qubolearn.errors import unknown_name
from qubolearn.experiments.jobs import Job

__all__ = ["ENTRIES", "Entry", "entry"]

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
        for network in ("mlp", "matching"):
            overrides: dict[str, Any] = {"network": network}
            if quick:
                overrides |= {"epochs": 3}
            options = {"problem": {"name": "randgraph", "k": k}, "protocol": "best", "overrides": overrides}
            made += [Job("randgraph-scale", f"k={k}", network, seed, "train", options) for seed in range(seeds)]
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
}


def entry(name: str) -> Entry:
    """An entry by name."""
    if name not in ENTRIES:
        raise unknown_name("item", name, ENTRIES)
    return ENTRIES[name]
